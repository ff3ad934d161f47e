import { Type } from '@sinclair/typebox';
import {
  findTransaction,
  listTransactions,
  listTransactionsOfMerchant,
  type TransactionFilters,
} from '../../db/money/payments.ts';
import { failureReasons } from '../../domain/reasons.ts';
import { absent, type Api, type ApiDeps, idOf, merchantOf, ownApp } from '../door/context.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import {
  Amount,
  ExternalId,
  Id,
  meaning,
  nullable,
  oneOf,
  PathId,
  Pda,
  several,
  Time,
  TimeInput,
  timeOrNull,
  Wallet,
} from '../shapes/fields.ts';
import { InvoiceReason } from '../shapes/invoice-schemas.ts';
import { withReceipt, withReceipts } from '../site/receipt-urls.ts';

const statuses = ['succeeded', 'failed'] as const;

const Transaction = Type.Object(
  {
    id: Id,
    invoiceId: nullable({
      ...Id,
      description:
        'The invoice that it paid, or failed to pay; null for a payment that was found and pays none.',
    }),
    reason: nullable(InvoiceReason),
    appId: Id,
    planId: Id,
    subscriptionId: Id,
    subscriptionPda: Pda,
    subscriberWallet: Wallet,
    externalId: nullable(ExternalId),
    status: oneOf(statuses, 'failed: no USDC was transferred.'),
    amountGross: Amount,
    platformFee: Amount,
    amountNet: Amount,
    amountRefunded: {
      ...Amount,
      description: 'Total of the refunds, USDC base units; at most amountNet.',
    },
    creditSpent: {
      ...Amount,
      description:
        'Credit of the customer that paid for the period beside amountGross. Where it paid the whole period, amountGross is 0 and txSignature null.',
    },
    amountCredited: {
      ...Amount,
      description:
        'The unused part, which a change of plan has made credit of the customer: it cannot be refunded.',
    },
    further: Type.Boolean({
      description:
        'True for a payment beyond the one that paid its period: it pays for no other period and has no event. Refund it if it was not wanted.',
    }),
    txSignature: nullable(
      Type.String({
        description:
          'Signature of the transaction on chain, in Base58. Several payments may share one.',
      }),
    ),
    failureReason: nullable(
      meaning(failureReasons, 'The reason of the failure; null if it succeeded.', 'FailureReason'),
    ),
    receiptUrl: nullable(
      Type.String({
        description:
          'The page of the receipt, for the subscriber. Whoever has the URL can read it. Null for a failed payment.',
        examples: [
          'https://billing.example/receipts/019a2f6e-7c3a-7d5e-9b1f-3c8a5d2e4f60/5VERv8…/qN2c…',
        ],
      }),
    ),
    attempt: Type.Integer({ description: 'Number of the attempt in its period, from 1.' }),
    periodStart: Time,
    periodEnd: Time,
    occurredAt: Time,
    createdAt: Time,
  },
  { title: 'Transaction' },
);

/** The view of a payment for its subscriber. The view omits the merchant's id of the customer. */
export const OwnTransaction = Type.Omit(Transaction, ['externalId'], { title: 'OwnTransaction' });

/** Filters of the list of transactions and of the CSV export. */
export const transactionFilters = {
  status: several(statuses, 'Only with this status.'),
  planId: Type.Optional(Id),
  subscriptionId: Type.Optional(Id),
  subscriberWallet: Type.Optional({ ...Wallet, description: 'Payments of this wallet.' }),
  externalId: Type.Optional({
    ...ExternalId,
    description: 'Payments of the subscriptions that have this externalId now.',
  }),
  since: Type.Optional({ ...TimeInput, description: 'Payments at this time or later.' }),
  until: Type.Optional({ ...TimeInput, description: 'Payments before this time.' }),
};

interface GivenFilters {
  status?: string[];
  planId?: string;
  subscriptionId?: string;
  subscriberWallet?: string;
  externalId?: string;
  since?: string;
  until?: string;
}

export function transactionFiltersOf({
  status,
  planId,
  subscriptionId,
  subscriberWallet,
  externalId,
  since,
  until,
}: GivenFilters): TransactionFilters {
  return {
    status: status ?? null,
    planId: planId ?? null,
    subscriptionId: subscriptionId ?? null,
    subscriberWallet: subscriberWallet ?? null,
    externalId: externalId ?? null,
    since: timeOrNull(since),
    until: timeOrNull(until),
  };
}

const tags = ['transactions'];

export function transactionRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
  const description =
    'One succeeded row per paid period, another one (further) for each further pull in it, one failed row per failed attempt; newest first by the payment’s time.';
  const querystring = Type.Object(
    { ...pageQuery, ...transactionFilters },
    { additionalProperties: false },
  );
  api.get(
    '/apps/:appId/transactions',
    {
      schema: {
        summary: 'List the transactions of an app',
        description,
        tags,
        params: Type.Object({ appId: PathId }),
        querystring,
        response: { 200: success(Type.Array(Transaction)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id } = await ownApp(deps, request, request.params.appId);
      const rows = await listTransactions(sql, id, transactionFiltersOf(request.query), page);
      return pages.send(request, reply, await withReceipts(deps, rows));
    },
  );

  api.get(
    '/transactions',
    {
      schema: {
        summary: 'List the transactions of all your apps',
        description,
        tags,
        querystring,
        response: { 200: success(Type.Array(Transaction)), ...failures(400, 401, 403) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const filters = transactionFiltersOf(request.query);
      const { id } = merchantOf(request);
      const rows = await listTransactionsOfMerchant(sql, id, filters, page);
      return pages.send(request, reply, await withReceipts(deps, rows));
    },
  );

  api.get(
    '/apps/:appId/transactions/:transactionId',
    {
      schema: {
        summary: 'Read a transaction',
        tags,
        params: Type.Object({ appId: PathId, transactionId: PathId }),
        response: { 200: success(Transaction), ...failures(401, 403, 404) },
      },
    },
    async (request) => {
      const app = await ownApp(deps, request, request.params.appId);
      const found = await findTransaction(sql, idOf(request.params.transactionId, 'transaction'));
      if (found?.appId !== app.id) throw absent('transaction');
      return ok(await withReceipt(deps, found));
    },
  );
}
