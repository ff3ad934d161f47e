import { finished, Readable } from 'node:stream';
import { Type } from '@sinclair/typebox';
import { stringify } from 'csv-stringify/sync';
import {
  listTransactions,
  type TransactionFilters,
  type TransactionRow,
} from '../../db/payments.ts';
import { ServiceError } from '../../errors.ts';
import { type Api, type ApiDeps, merchantOf, ownApp } from '../context.ts';
import { failures } from '../envelope.ts';
import { oneOf, PathId } from '../fields.ts';
import { transactionFilters, transactionFiltersOf } from './transactions.ts';

/** Number of rows per page. V8 collects the rows of such a small page in the young generation. */
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
] as const;

/**
 * Registers the route that exports transactions as CSV (RFC 4180). A page of rows is read only
 * after the client has received the previous page.
 */
export function exportRoutes(api: Api, deps: ApiDeps): void {
  const exports = createExports();
  api.get(
    '/apps/:appId/transactions/export',
    {
      // A HEAD request would read every row without backpressure. Without a HEAD route here, such a
      // request matches the route of a transaction with the id "export".
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
            bom: Type.Optional(
              oneOf(
                ['0', '1'],
                '1: the file begins with a byte order mark, by which a spreadsheet knows UTF-8.',
              ),
            ),
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
      const { bom, ...query } = request.query;
      const filters = transactionFiltersOf(query);
      reply.header('retry-after', RETRY_SECONDS);
      const done = exports.begin(merchantOf(request).id);
      // finished() also calls back when the response is already closed. The client may have
      // disconnected while the app was read.
      finished(reply.raw, done);
      reply.header('x-data-age', await deps.reports.readAge());
      return reply
        .removeHeader('retry-after')
        .type('text/csv; charset=utf-8')
        .header('content-disposition', `attachment; filename="transactions-${id}.csv"`)
        .send(Readable.from(lines(deps, id, filters, bom === '1'), { objectMode: false }));
    },
  );
}

async function* lines(
  { reports }: ApiDeps,
  appId: string,
  filters: TransactionFilters,
  hasMark: boolean,
): AsyncGenerator<string> {
  const csv = {
    record_delimiter: 'windows',
    cast: { string: harmless, date: (date: Date) => date.toISOString(), bigint: String },
  };
  yield (hasMark ? '\uFEFF' : '') + stringify([columns], csv);
  for (let after: string | null = null; ;) {
    const page = { after, limit: ROWS_AT_ONCE };
    const rows: TransactionRow[] = await reports.read((sql) =>
      listTransactions(sql, appId, filters, page),
    );
    if (rows.length > 0) yield stringify(rows, { ...csv, columns: [...columns] });
    after = rows.at(-1)?.id ?? null;
    if (rows.length < ROWS_AT_ONCE) return;
    // postgres.js keeps the result of a query reachable from V8's old space until the next full
    // collection. Emptying the array frees the rows earlier.
    rows.length = 0;
  }
}

/**
 * Escapes text that a spreadsheet would run as a formula. Formulas after a semicolon are also
 * escaped, because some locales separate cells with semicolons.
 */
function harmless(text: string): string {
  return text.replace(/(^|;)(?=\s*[=+\-@\t\r＝＋－＠])/g, "$1'");
}

/** Tracks which merchants run an export in this process. */
function createExports(): { begin(merchantId: string): () => void } {
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
