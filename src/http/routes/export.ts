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
import { PathId } from '../fields.ts';
import { transactionFilters, transactionFiltersOf } from './transactions.ts';

/** Few enough that V8 drops the rows of a page while they are young. */
const rowsAtOnce = 200;
/** At once in this process; one of each merchant. */
const mostExports = 4;
/** Seconds that a refused client is told to wait. */
const retrySeconds = 10;
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
] as const;

/** Transactions as CSV (RFC 4180): a page of rows at a time, each read only when the client has taken the one before. */
export function exportRoutes(api: Api, deps: ApiDeps): void {
  const exports = createExports();
  api.get(
    '/apps/:appId/transactions/export',
    {
      // HEAD would read every row, and nothing would hold it back. It is taken for the HEAD of a transaction named export.
      exposeHeadRoute: false,
      onRequest: async (request) => {
        if (merchantOf(request).tier !== 'pro')
          throw new ServiceError('FORBIDDEN', 'The CSV export is part of the Pro tier.');
      },
      schema: {
        summary: 'Export transactions as CSV (Pro)',
        description:
          'The same filters and order as the list. Text that a spreadsheet would run as a formula gets an apostrophe in front. Several lines may have one txSignature: id is what tells payments apart. One export per merchant at a time.',
        tags: ['transactions'],
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(transactionFilters, { additionalProperties: false }),
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
      const filters = transactionFiltersOf(request.query);
      reply.header('retry-after', retrySeconds);
      const done = exports.begin(merchantOf(request).id);
      // Calls back for a response that is closed already too: a client may leave while its app is read.
      finished(reply.raw, done);
      return reply
        .removeHeader('retry-after')
        .type('text/csv; charset=utf-8')
        .header('content-disposition', `attachment; filename="transactions-${id}.csv"`)
        .send(Readable.from(lines(deps, id, filters), { objectMode: false }));
    },
  );
}

async function* lines(
  { reports }: ApiDeps,
  appId: string,
  filters: TransactionFilters,
): AsyncGenerator<string> {
  const csv = {
    record_delimiter: 'windows',
    cast: { string: harmless, date: (date: Date) => date.toISOString(), bigint: String },
  };
  yield stringify([columns], csv);
  for (let after: string | null = null; ;) {
    const rows: TransactionRow[] = await listTransactions(reports, appId, filters, {
      after,
      limit: rowsAtOnce,
    });
    if (rows.length > 0) yield stringify(rows, { ...csv, columns: [...columns] });
    after = rows.at(-1)?.id ?? null;
    if (rows.length < rowsAtOnce) return;
    // V8 makes the functions in the old space that postgres.js assigns to a query's fields: they keep its result until the next whole collection.
    rows.length = 0;
  }
}

/** A text that no spreadsheet runs as a formula, nor its part after a semicolon, at which some locales split. */
function harmless(text: string): string {
  return text.replace(/(^|;)(?=\s*[=+\-@\t\r＝＋－＠])/g, "$1'");
}

/** Exports under way in this process, by merchant. */
function createExports(): { begin(merchantId: string): () => void } {
  const running = new Set<string>();
  return {
    begin(merchantId) {
      if (running.has(merchantId) || running.size >= mostExports)
        throw new ServiceError(
          'RATE_LIMITED',
          'Another export is under way: try again when it has ended.',
        );
      running.add(merchantId);
      return () => void running.delete(merchantId);
    },
  };
}
