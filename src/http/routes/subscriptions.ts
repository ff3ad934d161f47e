import { Type } from '@sinclair/typebox';
import { type SubscriptionPage, subscriptionPages, type WantedPage } from '../../db/subscription-pages.ts';
import { findSubscription, listSubscriptionsOfApp, type SubscriptionRow } from '../../db/registrations.ts';
import { forceCancel, requestCancel } from '../../domain/cancel.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { createBatch } from '../batch.ts';
import { absent, type Api, type ApiDeps, foreign, idOf, merchantOf, ownApp } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import { Amount, Id, nullable, oneOf, PathId, Pda, Time, TimeInput, timeOrNull, Wallet } from '../fields.ts';
import { answerOnce, idempotencyHeaders } from '../idempotency.ts';
import { type Page, pageQuery, type Pages } from '../pages.ts';
import { idOfLine, subscriptionJson } from '../subscription-json.ts';

const statuses = ['active', 'past_due', 'cancelled', 'expired'] as const;

export const Subscription = Type.Object(
  {
    id: Id,
    appId: Id,
    planId: Id,
    subscriptionPda: Pda,
    subscriberWallet: Wallet,
    merchantWallet: Wallet,
    status: oneOf(statuses),
    amount: Amount,
    periodHours: Type.Integer(),
    paidThrough: nullable({ ...Time, description: 'Grant access while now is before this time.' }),
    nextPaymentDue: nullable(Time),
    cancelRequestedAt: nullable(Time),
    cancelRequestedBy: Type.Unsafe<'subscriber' | 'merchant' | null>({ type: ['string', 'null'], enum: ['subscriber', 'merchant', null] }),
    cancelledAt: nullable(Time),
    delegationRevokedAt: nullable(Time),
    endReason: nullable(Type.String()),
    createdAt: Time,
    updatedAt: Time,
  },
  { title: 'Subscription' },
);
const params = Type.Object({ appId: PathId, subscriptionId: PathId });
const tags = ['subscriptions'];

/** A merchant's view of its subscriptions. */
export function subscriptionRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql, wakeDispatchers, wakeKeepers } = deps;

  const ownSubscription = async (
    request: FastifyRequest<{ Params: { appId: string; subscriptionId: string } }>,
  ): Promise<SubscriptionRow> => {
    const { id: appId } = await ownApp(deps, request, request.params.appId);
    const found = await findSubscription(sql, idOf(request.params.subscriptionId, 'subscription'));
    if (found?.appId !== appId) throw absent('subscription');
    return found;
  };

  const findPage = createBatch<WantedPage, SubscriptionPage>(
    (wanted) => subscriptionPages(sql, wanted),
    (page) => `${page.merchantId} ${page.appId} ${page.limit}`,
  );

  const sendPlain = async (request: FastifyRequest<{ Params: { appId: string } }>, reply: FastifyReply, { limit }: Page) => {
    const { id, wallet: merchantWallet } = merchantOf(request);
    const appId = idOf(request.params.appId, 'app');
    const page = await findPage({ merchantId: id, appId, limit });
    if (page === undefined) throw absent('app');
    if (page.owner !== id) throw foreign('app');
    const lines = page.lines === null ? [] : page.lines.split('\n');
    // The row beyond the page says that there is another one after it.
    if (lines.length === limit) {
      lines.pop();
      pages.lead(request, reply, idOfLine(lines.at(-1) ?? ''));
    }
    const rows = lines.map((line) => subscriptionJson(line, { appId, merchantWallet }));
    return reply.type('application/json; charset=utf-8').send(`{"success":true,"data":[${rows.join(',')}]}`);
  };

  api.get(
    '/apps/:appId/subscriptions',
    {
      schema: {
        summary: 'List the subscriptions of an app',
        tags,
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(
          {
            ...pageQuery,
            status: Type.Optional(oneOf(statuses)),
            planId: Type.Optional(Id),
            subscriberWallet: Type.Optional(Wallet),
            since: Type.Optional({ ...TimeInput, description: 'Created at this time or later.' }),
            until: Type.Optional({ ...TimeInput, description: 'Created before this time.' }),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(Type.Array(Subscription)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { status = null, planId = null, subscriberWallet = null, since, until } = request.query;
      if (Object.keys(request.query).every((name) => name === 'limit')) return sendPlain(request, reply, page);
      const { id } = await ownApp(deps, request, request.params.appId);
      const filters = { status, planId, subscriberWallet, since: timeOrNull(since), until: timeOrNull(until) };
      return pages.send(request, reply, await listSubscriptionsOfApp(sql, id, filters, page));
    },
  );

  api.get(
    '/apps/:appId/subscriptions/:subscriptionId',
    { schema: { summary: 'Read a subscription', tags, params, response: { 200: success(Subscription), ...failures(401, 403, 404) } } },
    async (request) => ok(await ownSubscription(request)),
  );

  api.post(
    '/apps/:appId/subscriptions/:subscriptionId/cancel',
    {
      schema: {
        summary: 'Cancel a subscription',
        description: 'period_end: nothing more is collected, and it ends when what is paid has run out. force: it ends at once.',
        tags,
        params,
        headers: idempotencyHeaders,
        body: nullable(Type.Object({ mode: Type.Optional(oneOf(['period_end', 'force'])) }, { additionalProperties: false })),
        response: { 200: success(Subscription), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) => {
      const subscription = await ownSubscription(request);
      const cancel = request.body?.mode === 'force' ? forceCancel : requestCancel;
      await answerOnce(deps, request, reply, 200, async () => async (tx) => {
        await cancel(tx, subscription);
        return (await findSubscription(tx, subscription.id)) ?? subscription;
      });
      wakeDispatchers();
      wakeKeepers();
      return reply;
    },
  );
}
