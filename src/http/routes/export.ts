import { finished, Readable } from 'node:stream';
import { Type } from '@sinclair/typebox';
import {
  listTransactions,
  type TransactionFilters,
  type TransactionRow,
} from '../../db/money/payments.ts';
import { ServiceError } from '../../errors.ts';
import { type Api, type ApiDeps, merchantOf, ownApp } from '../door/context.ts';
import { bom, csvHead, csvLines } from '../shapes/csv.ts';
import { failures } from '../shapes/envelope.ts';
import { PathId } from '../shapes/fields.ts';
import { transactionFilters, transactionFiltersOf } from './transactions.ts';

/**
 * Rows per page. Pages are small so that V8 frees the rows early, in its fast garbage collections
 * of young objects.
 */
const ROWS_AT_ONCE = 200;
/**
 * Maximum number of concurrent exports in this process. Each merchant may run one export at a time.
 */
const MAX_EXPORTS = 4;
/** Value of Retry-After when an export is refused, in seconds. */
const RETRY_SECONDS = 10;
const columns = [
  'id',
  'occurredAt',
  'status',
  'amountGross',
  'platformFee',
  'amountNet',
  'txSignature',
  'failureReason',
  'attempt',
  'planId',
  'planName',
  'subscriptionId',
  'subscriptionPda',
  'subscriberWallet',
  'periodStart',
  'periodEnd',
  'externalId',
  'metadata',
  'amountRefunded',
  'further',
  'ownIdsFrom',
  'creditSpent',
  'amountCredited',
] as const;

/**
 * Registers the route that exports transactions as CSV (RFC 4180). A page of rows is read only
 * after the client has received the previous page.
 */
export function exportRoutes(api: Api, deps: ApiDeps, exports: Exports): void {
  api.get(
    '/apps/:appId/transactions/export',
    {
      // The HEAD route that Fastify would add reads every row without backpressure. With `false`, a
      // HEAD request goes to the route of one transaction instead. `export` is no valid transaction
      // id, so the response is 404.
      exposeHeadRoute: false,
      onRequest: async (request) => {
        if (merchantOf(request).tier !== 'pro')
          throw new ServiceError('FORBIDDEN', 'The CSV export is part of the Pro tier.');
      },
      schema: {
        summary: 'Export transactions as CSV (Pro)',
        description:
          'The same filters and order as the list. Text that a spreadsheet would evaluate as a formula is prefixed with an apostrophe. Several lines may share a txSignature; id identifies a payment. One export per merchant at a time.',
        tags: ['transactions'],
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(
          {
            ...transactionFilters,
            bom,
          },
          { additionalProperties: false },
        ),
        response: {
          200: {
            description: 'A header line and one line per transaction.',
            content: { 'text/csv': { schema: Type.Unsafe<Readable>({ type: 'string' }) } },
          },
          ...failures(400, 401, 403, 404),
        },
      },
    },
    async (request, reply) => {
      const { id } = await ownApp(deps, request, request.params.appId);
      const { bom: mark, ...query } = request.query;
      const filters = transactionFiltersOf(query);
      reply.header('retry-after', RETRY_SECONDS);
      const done = exports.begin(merchantOf(request).id);
      // finished() calls `done` even if the client has disconnected before this call.
      finished(reply.raw, done);
      reply.header('x-data-age', await deps.reports.readAge());
      return reply
        .removeHeader('retry-after')
        .type('text/csv; charset=utf-8')
        .header('content-disposition', `attachment; filename="transactions-${id}.csv"`)
        .send(Readable.from(lines(deps, id, filters, mark === '1'), { objectMode: false }));
    },
  );
}

async function* lines(
  { reports }: ApiDeps,
  appId: string,
  filters: TransactionFilters,
  hasMark: boolean,
): AsyncGenerator<string> {
  yield csvHead(columns, hasMark);
  for (let after: string | null = null; ;) {
    const page = { after, limit: ROWS_AT_ONCE };
    const rows: TransactionRow[] = await reports.read((sql) =>
      listTransactions(sql, appId, filters, page),
    );
    if (rows.length > 0) yield csvLines(rows, columns);
    after = rows.at(-1)?.id ?? null;
    if (rows.length < ROWS_AT_ONCE) return;
    // postgres.js keeps the result of a query reachable from V8's old space until the next full
    // collection. Emptying the array frees the rows earlier.
    rows.length = 0;
  }
}

/** Counts the exports that run in this process. */
export interface Exports {
  /**
   * Counts an export of the merchant as running until the returned function is called. Throws
   * RATE_LIMITED if the merchant already has a running export, or if MAX_EXPORTS exports are
   * running.
   */
  begin(merchantId: string): () => void;
}

export function createExports(): Exports {
  const running = new Set<string>();
  return {
    begin(merchantId) {
      if (running.has(merchantId) || running.size >= MAX_EXPORTS)
        throw new ServiceError(
          'RATE_LIMITED',
          'Another export is under way: try again when it has ended.',
        );
      running.add(merchantId);
      return () => void running.delete(merchantId);
    },
  };
}
