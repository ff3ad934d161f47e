import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { findTransaction, type TransactionRow } from '../../db/money/payments.ts';
import { listRefunds, listRefundsOfApp } from '../../db/money/refunds.ts';
import { findPlan } from '../../db/subscriptions/plans.ts';
import { askRefund, readRefundGround } from '../../domain/offers/refunds.ts';
import { absent, type Api, type ApiDeps, idOf, ownApp } from '../door/context.ts';
import { respondOnce, idempotencyHeaders } from '../door/idempotency.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { failures, success } from '../shapes/envelope.ts';
import {
  Amount,
  AmountInput,
  ExternalId,
  Id,
  nullable,
  oneOf,
  PathId,
  several,
  Time,
  TimeInput,
  timeOrNull,
  offerFields,
  Wallet,
} from '../shapes/fields.ts';

const statuses = ['pending', 'succeeded', 'expired'] as const;

const fields = {
  id: Id,
  transactionId: { ...Id, description: 'The refunded payment.' },
  subscriptionId: Id,
  amount: Amount,
  status: oneOf(
    statuses,
    'succeeded: the transfer is final. expired: none is on chain five minutes later; ask for another refund.',
  ),
  reference: {
    ...Wallet,
    description:
      'A reference key among the accounts of the transfer, by which it is found on chain. A transfer that landed twice is two refunds with one reference.',
  },
  txSignature: nullable(
    Type.String({ description: 'Signature of the transfer on chain, in Base58.' }),
  ),
  occurredAt: nullable({ ...Time, description: 'Block time of the transfer.' }),
  excess: {
    ...Amount,
    description:
      'The part of the transfer beyond what was left of the payment: the customer got it too much. 0, unless the transfer landed twice, or one landed that counted as lost.',
  },
  createdAt: Time,
};
const Refund = Type.Object(fields, { title: 'Refund' });
const NewRefund = Type.Object({ ...fields, ...offerFields }, { title: 'NewRefund' });
const params = Type.Object({ appId: PathId, transactionId: PathId });
const tags = ['transactions'];

/**
 * Returns the payment whose id is in the request's path. Throws NOT_FOUND when the payment does not
 * exist, FORBIDDEN when the payment's app belongs to another merchant.
 */
async function ownPayment(
  deps: ApiDeps,
  request: FastifyRequest<{ Params: { appId: string; transactionId: string } }>,
): Promise<TransactionRow> {
  const app = await ownApp(deps, request, request.params.appId);
  const id = idOf(request.params.transactionId, 'transaction');
  const found = await findTransaction(deps.sql, id);
  if (found?.appId !== app.id) throw absent('transaction');
  return found;
}

export function refundRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  askRoute(api, deps);
  listRoutes(api, deps, pages);
}

function askRoute(api: Api, deps: ApiDeps): void {
  const { sql, chain } = deps;
  api.post(
    '/apps/:appId/transactions/:transactionId/refunds',
    {
      schema: {
        summary: 'Refund a payment',
        description:
          'Returns an unsigned transfer from your wallet to the subscriber’s. The refund is recorded once the transfer is finalized. Refunds of a payment are limited to its amountNet, less its amountCredited. At most 3 refunds of a payment, and 50 of a merchant, are open: until its transfer was sent to POST /merchant/transactions signed, or its blockhash has expired (about a minute). Further ones are CONFLICT.',
        tags,
        params,
        headers: idempotencyHeaders,
        body: nullable(
          Type.Object(
            {
              amount: Type.Optional({
                ...AmountInput,
                description: 'USDC base units as a string; default: all that is left to refund.',
              }),
            },
            { additionalProperties: false },
          ),
        ),
        response: { 201: success(NewRefund), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) => {
      const payment = await ownPayment(deps, request);
      const amount = request.body?.amount;
      return respondOnce(deps, request, reply, 201, async () => {
        const plan = await findPlan(sql, payment.planId);
        if (plan === undefined) throw absent('plan');
        const { owner: merchant, mint } = plan;
        const { subscriberWallet: subscriber } = payment;
        const ground = await readRefundGround(chain, { mint, merchant, subscriber });
        const wanted = amount === undefined ? null : BigInt(amount);
        return async (tx) => {
          const { refund, offer } = await askRefund(tx, payment, wanted, ground);
          return { ...refund, ...offer };
        };
      });
    },
  );
}

function listRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
  api.get(
    '/apps/:appId/refunds',
    {
      schema: {
        summary: 'List the refunds of an app',
        tags,
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(
          {
            ...pageQuery,
            status: several(statuses, 'Only with this status.'),
            subscriptionId: Type.Optional({ ...Id, description: 'Refunds of this subscription.' }),
            subscriberWallet: Type.Optional({ ...Wallet, description: 'Refunds to this wallet.' }),
            externalId: Type.Optional({
              ...ExternalId,
              description: 'Refunds of the subscriptions that have this externalId now.',
            }),
            since: Type.Optional({ ...TimeInput, description: 'Created at this time or later.' }),
            until: Type.Optional({ ...TimeInput, description: 'Created before this time.' }),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(Type.Array(Refund)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id } = await ownApp(deps, request, request.params.appId);
      const { status, subscriptionId, subscriberWallet, externalId, since, until } = request.query;
      const filters = {
        status: status ?? null,
        subscriptionId: subscriptionId ?? null,
        subscriberWallet: subscriberWallet ?? null,
        externalId: externalId ?? null,
        since: timeOrNull(since),
        until: timeOrNull(until),
      };
      return pages.send(request, reply, await listRefundsOfApp(sql, id, filters, page));
    },
  );

  api.get(
    '/apps/:appId/transactions/:transactionId/refunds',
    {
      schema: {
        summary: 'List the refunds of a payment',
        tags,
        params,
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: success(Type.Array(Refund)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id } = await ownPayment(deps, request);
      return pages.send(request, reply, await listRefunds(sql, id, page));
    },
  );
}
