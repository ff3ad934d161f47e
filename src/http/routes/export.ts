import { Readable } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { Type } from '@sinclair/typebox';
import { stringify } from 'csv-stringify/sync';
import { listTransactions, type TransactionFilters, type TransactionRow } from '../../db/transactions.ts';
import { ServiceError } from '../../errors.ts';
import { type Api, type ApiDeps, merchantOf, ownApp } from '../context.ts';
import { failures } from '../envelope.ts';
import { PathId, timeOrNull } from '../fields.ts';
import { transactionFilters } from './transactions.ts';

const rowsAtOnce = 1000;
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
] as const;

/** Transactions as CSV (RFC 4180): a page of rows at a time, each read only when the client has taken the one before. */
export function exportRoutes(api: Api, deps: ApiDeps): void {
  api.get(
    '/apps/:appId/transactions/export',
    {
      onRequest: async (request) => {
        if (merchantOf(request).tier !== 'pro') throw new ServiceError('FORBIDDEN', 'The CSV export is part of the Pro tier.');
      },
      schema: {
        summary: 'Export transactions as CSV (Pro)',
        description: 'The same filters and order as the list. Cells that a spreadsheet would run as a formula start with an apostrophe.',
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
      const { status = null, planId = null, subscriptionId = null, since, until } = request.query;
      const { id } = await ownApp(deps, request, request.params.appId);
      const filters = { status, planId, subscriptionId, since: timeOrNull(since), until: timeOrNull(until) };
      return reply
        .type('text/csv; charset=utf-8')
        .header('content-disposition', `attachment; filename="transactions-${id}.csv"`)
        .send(Readable.from(lines(deps, id, filters), { objectMode: false, highWaterMark: 64 * 1024 }));
    },
  );
}

async function* lines({ sql }: ApiDeps, appId: string, filters: TransactionFilters): AsyncGenerator<string> {
  const csv = { record_delimiter: 'windows', escape_formulas: true, cast: { date: (date: Date) => date.toISOString(), bigint: String } };
  countExports(1);
  try {
    yield stringify([columns], csv);
    for (let after: string | null = null; ;) {
      const rows: TransactionRow[] = await listTransactions(sql, appId, filters, { after, limit: rowsAtOnce });
      if (rows.length > 0) yield stringify(rows, { ...csv, columns: [...columns] });
      after = rows.at(-1)?.id ?? null;
      if (rows.length < rowsAtOnce) return;
    }
  } finally {
    countExports(-1);
  }
}

let exports = 0;

/**
 * While an export runs, V8 collects garbage whenever the heap has grown by a fifth. By its own rule it waits until there are three times as much as is
 * alive, and what it would keep are rows that were sent long ago (measured: 264 MB of the process at its peak; so 152 MB, with a million rows).
 */
function countExports(change: 1 | -1): void {
  exports += change;
  // 0 is V8's own rule.
  setFlagsFromString(`--heap-growing-percent=${exports > 0 ? 20 : 0}`);
}
