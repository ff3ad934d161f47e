import { Type } from '@sinclair/typebox';
import { listTransactions } from '../../db/transactions.ts';
import { type Api, type ApiDeps, ownApp } from '../context.ts';
import { failures, success } from '../envelope.ts';
import { Amount, Id, nullable, oneOf, PathId, Pda, Time, TimeInput, timeOrNull, Wallet } from '../fields.ts';
import { pageQuery, type Pages } from '../pages.ts';

const statuses = ['succeeded', 'failed'] as const;

export const Transaction = Type.Object(
  {
    id: Id,
    appId: Id,
    planId: Id,
    subscriptionId: Id,
    subscriptionPda: Pda,
    subscriberWallet: Wallet,
    status: oneOf(statuses),
    amountGross: Amount,
    platformFee: Amount,
    amountNet: Amount,
    txSignature: nullable(Type.String({ description: 'Signature of the transaction on chain, in Base58.' })),
    failureReason: nullable(Type.String()),
    attempt: Type.Integer({ description: 'Which try in its period this was.' }),
    periodStart: Time,
    periodEnd: Time,
    occurredAt: Time,
    createdAt: Time,
  },
  { title: 'Transaction' },
);

/** Filters of the list and of the export. */
export const transactionFilters = {
  status: Type.Optional(oneOf(statuses)),
  planId: Type.Optional(Id),
  subscriptionId: Type.Optional(Id),
  since: Type.Optional({ ...TimeInput, description: 'Payments at this time or later.' }),
  until: Type.Optional({ ...TimeInput, description: 'Payments before this time.' }),
};

/** A merchant's view of its payments. */
export function transactionRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  api.get(
    '/apps/:appId/transactions',
    {
      schema: {
        summary: 'List the transactions of an app',
        description: 'One succeeded row per paid period, one failed row per failed attempt; newest first by the payment’s time.',
        tags: ['transactions'],
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object({ ...pageQuery, ...transactionFilters }, { additionalProperties: false }),
        response: { 200: success(Type.Array(Transaction)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { status = null, planId = null, subscriptionId = null, since, until } = request.query;
      const { id } = await ownApp(deps, request, request.params.appId);
      const filters = { status, planId, subscriptionId, since: timeOrNull(since), until: timeOrNull(until) };
      return pages.send(request, reply, await listTransactions(deps.sql, id, filters, page));
    },
  );
}
