import { finished, Readable } from 'node:stream';
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  listStatementLines,
  type MonthRange,
  readStatementDays,
  type StatementCursor,
  type StatementLine,
} from '../../db/money/statements.ts';
import { monthRange, statementOf } from '../../domain/accounts/statement.ts';
import { type Api, type ApiDeps, merchantOf, ownApp } from '../door/context.ts';
import { bom, csvHead, csvLines } from '../shapes/csv.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Id, PathId, Time } from '../shapes/fields.ts';
import { statementEnd, statementHead, statementRows } from '../site/statement-page.ts';
import type { Exports } from './export.ts';

const LINES_AT_ONCE = 200;
/** Value of Retry-After when a file is refused, in seconds. */
const RETRY_SECONDS = 10;
const Sum = (description: string) =>
  Type.String({ pattern: '^[0-9]+$', description, examples: ['250000000'] });
const sums = {
  gross: Sum('Collected from subscribers, USDC base units. Equal to analytics.'),
  fees: Sum('The operator’s share of gross. Equal to analytics.'),
  net: Sum('Gross less fees; refunds are not subtracted. Equal to analytics.'),
  refunded: Sum('Refunds, by the time of their transfer. Equal to analytics.'),
  netAfterRefunds: Type.String({
    pattern: '^-?[0-9]+$',
    description: 'Net less refunded; negative where more was refunded.',
    examples: ['245000000'],
  }),
  sponsoredLamports: Sum(
    'What the operator paid for sponsored transactions, failed ones too: network fees, and rent that may come back, in lamports. Equal to lamportsFees and lamportsRent of analytics.',
  ),
  payments: Type.Integer({ description: 'Payments, including those that a credit paid alone.' }),
  refunds: Type.Integer({ description: 'Refunds.' }),
};
const Statement = Type.Object(
  {
    appId: Id,
    month: Type.String({ description: 'The month, UTC.', examples: ['2026-01'] }),
    from: Time,
    to: { ...Time, description: 'The start of the next month.' },
    ...sums,
    daily: Type.Array(
      Type.Object({
        date: Type.String({ format: 'date', description: 'The day, UTC.' }),
        ...sums,
      }),
      { description: 'The same for each day of the month.' },
    ),
  },
  { title: 'Statement' },
);
const params = Type.Object({
  appId: PathId,
  month: Type.String({
    pattern: '^[0-9]{4}-(0[1-9]|1[0-2])$',
    description: 'The month, UTC.',
    examples: ['2026-01'],
  }),
});
const tags = ['statements'];
const ABOUT =
  'A month’s payments and refunds, and what was sponsored, each line with its signature. Its sums are those of analytics for the same month.';
const columns = [
  'occurredAt',
  'kind',
  'gross',
  'fee',
  'net',
  'refunded',
  'creditSpent',
  'lamports',
  'txSignature',
  'planName',
  'subscriptionId',
  'externalId',
  'wallet',
  'id',
] as const;

/**
 * Registers the routes of monthly statements. The CSV file and the printable page each count as a
 * running export of the merchant (createExports in export.ts).
 */
export function statementRoutes(api: Api, deps: ApiDeps, exports: Exports): void {
  api.get(
    '/apps/:appId/statements/:month',
    {
      schema: {
        summary: 'Read the statement of a month',
        description: ABOUT,
        tags,
        params,
        response: { 200: success(Statement), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const { month } = request.params;
      const { id: appId } = await ownApp(deps, request, request.params.appId);
      reply.header('x-data-age', await deps.reports.readAge());
      const range = monthRange(month);
      const days = await deps.reports.read((sql) => readStatementDays(sql, appId, range));
      return ok({ appId, month, ...range, ...statementOf(days) });
    },
  );
  csvRoute(api, deps, exports);
  pageRoute(api, deps, exports);
}

type MonthRequest = FastifyRequest<{ Params: { appId: string; month: string } }>;

/**
 * Begins an export, which ends with the response. Returns the app and the start and end of the
 * month.
 */
async function begin(
  deps: ApiDeps,
  exports: Exports,
  request: MonthRequest,
  reply: FastifyReply,
): Promise<{ appId: string; name: string; range: MonthRange }> {
  const { id: appId, name } = await ownApp(deps, request, request.params.appId);
  reply.header('retry-after', RETRY_SECONDS);
  finished(reply.raw, exports.begin(merchantOf(request).id));
  reply.header('x-data-age', await deps.reports.readAge()).removeHeader('retry-after');
  return { appId, name, range: monthRange(request.params.month) };
}

function csvRoute(api: Api, deps: ApiDeps, exports: Exports): void {
  api.get(
    '/apps/:appId/statements/:month/csv',
    {
      exposeHeadRoute: false,
      schema: {
        summary: 'Export the statement of a month as CSV',
        description: `${ABOUT} Oldest first. One export per merchant at a time.`,
        tags,
        params,
        querystring: Type.Object({ bom }, { additionalProperties: false }),
        response: {
          200: {
            description:
              'A header line and one line per payment, refund and sponsored transaction.',
            content: { 'text/csv': { schema: Type.Unsafe<Readable>({ type: 'string' }) } },
          },
          ...failures(400, 401, 403, 404),
        },
      },
    },
    async (request, reply) => {
      const { appId, range } = await begin(deps, exports, request, reply);
      const file = `statement-${request.params.month}-${appId}.csv`;
      return reply
        .type('text/csv; charset=utf-8')
        .header('content-disposition', `attachment; filename="${file}"`)
        .send(Readable.from(csv(deps, appId, range, request.query.bom === '1'), asText));
    },
  );
}

const asText = { objectMode: false };

async function* csv(
  deps: ApiDeps,
  appId: string,
  range: MonthRange,
  hasMark: boolean,
): AsyncGenerator<string> {
  yield csvHead(columns, hasMark);
  for await (const lines of linesOf(deps, appId, range)) yield csvLines(lines, columns);
}

function pageRoute(api: Api, deps: ApiDeps, exports: Exports): void {
  api.get(
    '/apps/:appId/statements/:month/page',
    {
      exposeHeadRoute: false,
      schema: {
        summary: 'Read the statement of a month as a page to print',
        description: `${ABOUT} An HTML document without scripts.`,
        tags,
        params,
        response: {
          200: {
            description: 'The document.',
            content: { 'text/html': { schema: Type.Unsafe<Readable>({ type: 'string' }) } },
          },
          ...failures(400, 401, 403, 404),
        },
      },
    },
    async (request, reply) => {
      const { appId, name, range } = await begin(deps, exports, request, reply);
      const { month } = request.params;
      const days = await deps.reports.read((sql) => readStatementDays(sql, appId, range));
      const { legalName, name: ownName, wallet } = merchantOf(request);
      const merchantName = legalName ?? ownName;
      const head = statementHead({ appName: name, merchantName, wallet, month }, statementOf(days));
      return reply
        .type('text/html; charset=utf-8')
        .header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'")
        .send(Readable.from(page(deps, appId, range, head), asText));
    },
  );
}

async function* page(
  deps: ApiDeps,
  appId: string,
  range: MonthRange,
  head: string,
): AsyncGenerator<string> {
  yield head;
  for await (const lines of linesOf(deps, appId, range)) yield statementRows(lines);
  yield statementEnd;
}

/**
 * Yields the lines in pages. A page is read only after the client has received the previous page.
 */
async function* linesOf(
  { reports }: ApiDeps,
  appId: string,
  range: MonthRange,
): AsyncGenerator<StatementLine[]> {
  let after: StatementCursor | null = null;
  for (;;) {
    const from: StatementCursor | null = after;
    const lines: StatementLine[] = await reports.read((sql) =>
      listStatementLines(sql, appId, range, { after: from, limit: LINES_AT_ONCE }),
    );
    const last = lines.at(-1);
    if (last === undefined) return;
    yield lines;
    if (lines.length < LINES_AT_ONCE) return;
    after = { at: last.at, id: last.id };
  }
}
