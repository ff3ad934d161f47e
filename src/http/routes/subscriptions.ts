import { type Static, Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import {
  listSubscriptionsOfApp,
  listSubscriptionsOfMerchant,
  type SubscriptionFilters,
} from '../../db/subscriptions/lists.ts';
import { updateDiscount, updateOwnIds } from '../../db/subscriptions/merchant-edits.ts';
import { findPlans } from '../../db/subscriptions/plans.ts';
import { findSubscription, type SubscriptionRow } from '../../db/subscriptions/subscriptions.ts';
import {
  forceCancel,
  livesOffCurve,
  reinstate,
  requestCancel,
} from '../../domain/change/cancel.ts';
import { readKnownChanges } from '../../domain/change/signed-changes.ts';
import { cancelRequesters, endReasons, failureReasons } from '../../domain/reasons.ts';
import { ServiceError } from '../../errors.ts';
import { absent, type Api, type ApiDeps, idOf, merchantOf, ownApp } from '../door/context.ts';
import { respondOnce, idempotencyHeaders } from '../door/idempotency.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { Discount, DiscountInput, discountTermsOf } from '../shapes/discount.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import {
  Amount,
  AmountOrNull,
  ExternalId,
  Id,
  meaning,
  Metadata,
  MetadataInput,
  NoBody,
  nullable,
  oneOf,
  OwnIdsFrom,
  PathId,
  Pda,
  refuseLongMetadata,
  several,
  Time,
  TimeInput,
  timeOrNull,
  Wallet,
} from '../shapes/fields.ts';
import { Plan, planView } from '../shapes/plan-schemas.ts';
import { subscriptionView } from '../shapes/subscription-view.ts';

const statuses = ['active', 'past_due', 'cancelled', 'expired'] as const;

export const Subscription = Type.Object(
  {
    id: Id,
    appId: Id,
    planId: Id,
    subscriptionPda: Pda,
    subscriberWallet: Wallet,
    merchantWallet: Wallet,
    status: oneOf(statuses, 'The state of the subscription: docs/merchants.md, Subscriptions.'),
    amount: {
      ...Amount,
      description:
        'The amount of the plan, which the program on chain allows per period. A discount reduces it; nextAmount is the next payment.',
    },
    periodHours: Type.Integer({ description: 'Length of a period in hours.' }),
    trialEndsAt: nullable({
      ...Time,
      description: 'No payment is collected before this time; null without a trial.',
    }),
    paidThrough: nullable({ ...Time, description: 'End of the paid period.' }),
    accessUntil: nullable({
      ...Time,
      description:
        'Grant access until this time: paidThrough or the end of the trial, plus the grace period of the plan while a payment is due.',
    }),
    nextPaymentDue: nullable({
      ...Time,
      description: 'Due time of the next payment; of a past-due subscription, the next try.',
    }),
    nextAmount: {
      ...AmountOrNull,
      description:
        'Amount of the next payment, USDC base units; null if none will be due. For a part of a period, less than the minimum amount of a plan is not collected.',
    },
    discount: nullable(Discount),
    pausedAt: nullable({
      ...Time,
      description: 'No payment is collected since this time; null unless paused.',
    }),
    cancelRequestedAt: nullable(Time),
    cancelRequestedBy: nullable(
      meaning(
        cancelRequesters,
        'The party that requested the cancellation; null without one.',
        'CancelRequester',
      ),
    ),
    cancelledAt: nullable(Time),
    delegationRevokedAt: nullable(Time),
    pastDueSince: nullable({
      ...Time,
      description: 'Time of the first failure of the payment that is past due; null otherwise.',
    }),
    lastFailureReason: nullable(
      meaning(
        failureReasons,
        'Why the last try of the payment that is past due failed; null unless past due. nextPaymentDue is the next try.',
        'LastFailureReason',
      ),
    ),
    endReason: nullable(
      meaning(
        endReasons,
        'The reason of the end; null before it ends and after a cancellation at the end of the period.',
        'EndReason',
      ),
    ),
    reinstatedAt: nullable({ ...Time, description: 'Time at which the merchant lifted the end.' }),
    externalId: nullable(ExternalId),
    metadata: Metadata,
    ownIdsFrom: OwnIdsFrom,
    replaces: nullable({
      ...Id,
      description: 'The subscription that it replaced in a change of plan; null without one.',
    }),
    replacedBy: nullable({
      ...Id,
      description:
        'The subscription that replaced it in a change of plan: that one gives access from replacedAt on.',
    }),
    replacedAt: nullable(Time),
    startsAt: nullable({
      ...Time,
      description:
        'A change of plan deferred the first payment to this time; it is no trial. Null without one.',
    }),
    credit: {
      ...Amount,
      description:
        'Credit of the customer to whom the subscription belongs, which all subscriptions of the customer in this app share: the next payments take less by it. It is never paid out, and stays with the customer when the subscription ends.',
    },
    duplicateOf: nullable({
      ...Id,
      description:
        'The live subscription that the same customer had when this one landed on chain: one of them should be cancelled. Null without one.',
    }),
    createdAt: Time,
    updatedAt: Time,
    plan: Type.Optional(Plan),
  },
  { title: 'Subscription' },
);
/**
 * The view of a subscription for its subscriber. The view omits the fields that are for the
 * merchant only.
 */
export const OwnSubscription = Type.Omit(
  Subscription,
  ['externalId', 'metadata', 'ownIdsFrom', 'duplicateOf', 'plan'],
  { title: 'OwnSubscription' },
);
const params = Type.Object({ appId: PathId, subscriptionId: PathId });
const expand = several(['plan'], 'Objects to include in full: plan, as the field `plan`.');
const tags = ['subscriptions'];

/**
 * Returns the subscription whose id is in the request's path. Throws NOT_FOUND when the
 * subscription does not exist, FORBIDDEN when the subscription's app belongs to another merchant.
 */
export async function ownSubscription(
  deps: ApiDeps,
  request: FastifyRequest<{ Params: { appId: string; subscriptionId: string } }>,
): Promise<SubscriptionRow> {
  const { id: appId } = await ownApp(deps, request, request.params.appId);
  const id = idOf(request.params.subscriptionId, 'subscription');
  const found = await findSubscription(deps.sql, id);
  if (found?.appId !== appId) throw absent('subscription');
  return found;
}

export function subscriptionRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  listRoutes(api, deps, pages);
  readRoute(api, deps);
  changeRoute(api, deps);
  cancelRoute(api, deps);
  reinstateRoute(api, deps);
}

function readRoute(api: Api, deps: ApiDeps): void {
  api.get(
    '/apps/:appId/subscriptions/:subscriptionId',
    {
      schema: {
        summary: 'Read a subscription',
        tags,
        params,
        querystring: Type.Object({ expand }, { additionalProperties: false }),
        response: { 200: success(Subscription), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const subscription = await ownSubscription(deps, request);
      const view = await viewOf(deps, [subscription], request.query);
      return ok(view(subscription));
    },
  );
}

function changeRoute(api: Api, deps: ApiDeps): void {
  const { sql, planMinimumAmount: minimum, wakeKeepers } = deps;
  api.patch(
    '/apps/:appId/subscriptions/:subscriptionId',
    {
      schema: {
        summary: 'Change your own ids and the discount of a subscription',
        description:
          'Omitted fields keep their values. metadata and discount are replaced as a whole; null clears externalId and discount.',
        tags,
        params,
        body: Type.Object(
          {
            externalId: Type.Optional(nullable(ExternalId)),
            metadata: Type.Optional(MetadataInput),
            discount: Type.Optional(nullable(DiscountInput)),
          },
          { additionalProperties: false, examples: [{ externalId: 'customer-1' }] },
        ),
        response: { 200: success(Subscription), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request) => {
      const { discount, ...ids } = request.body;
      refuseLongMetadata(ids.metadata);
      const subscription = await ownSubscription(deps, request);
      const { id, amount, status } = subscription;
      if (discount !== undefined) {
        const terms = discountTermsOf(discount, amount, minimum);
        const edited = await sql.begin((tx) => updateDiscount(tx, id, terms));
        if (edited === undefined)
          throw new ServiceError('CONFLICT', `The subscription is ${status} already.`);
        wakeKeepers();
      }
      if (Object.keys(ids).length > 0) await updateOwnIds(sql, id, ids, 'merchant');
      const changed = (await findSubscription(sql, subscription.id)) ?? subscription;
      return ok(subscriptionView(changed, minimum));
    },
  );
}

function cancelRoute(api: Api, deps: ApiDeps): void {
  const { wakeDispatchers, wakeKeepers } = deps;
  api.post(
    '/apps/:appId/subscriptions/:subscriptionId/cancel',
    {
      config: { openToSuspended: true },
      schema: {
        summary: 'Cancel a subscription',
        description:
          'period_end: no further payment is collected, and it ends with the paid period. force: it ends immediately; CONFLICT while a change of plan that the wallet has signed may still land. credit of the answer stays with the customer.',
        tags,
        params,
        headers: idempotencyHeaders,
        body: nullable(
          Type.Object(
            { mode: Type.Optional(oneOf(['period_end', 'force'], 'Default: period_end.')) },
            { additionalProperties: false },
          ),
        ),
        response: { 200: success(Subscription), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) => {
      const subscription = await ownSubscription(deps, request);
      const isForced = request.body?.mode === 'force';
      await respondOnce(deps, request, reply, 200, async () => {
        const { id } = subscription;
        const deadChanges = isForced ? await readKnownChanges(deps.sql, deps.chain, id) : undefined;
        return async (tx) => {
          if (isForced) await forceCancel(tx, subscription, deadChanges);
          else await requestCancel(tx, subscription);
          const row = (await findSubscription(tx, id)) ?? subscription;
          return subscriptionView(row, deps.planMinimumAmount);
        };
      });
      wakeDispatchers(subscription.appId);
      wakeKeepers();
      return reply;
    },
  );
}

function reinstateRoute(api: Api, deps: ApiDeps): void {
  api.post(
    '/apps/:appId/subscriptions/:subscriptionId/reinstate',
    {
      schema: {
        summary: 'Lift a force-cancel',
        description:
          'The subscription stays cancelled, and its wallet may subscribe again to the plan with the same account. A checkout session of this plan that you create later for its wallet, or for its externalId unless the wallet has set that, does the same. ' +
          'For a wallet off the curve, which cannot sign in, it lifts any end while the account is live: a keeper then registers it.',
        tags,
        params,
        headers: idempotencyHeaders,
        body: NoBody,
        response: { 200: success(Subscription), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) => {
      const subscription = await ownSubscription(deps, request);
      return respondOnce(deps, request, reply, 200, async () => {
        const anyEnd = await livesOffCurve(deps, subscription);
        return async (tx) => {
          await reinstate(tx, subscription, { anyEnd });
          const row = (await findSubscription(tx, subscription.id)) ?? subscription;
          return subscriptionView(row, deps.planMinimumAmount);
        };
      });
    },
  );
}

const querystring = Type.Object(
  {
    ...pageQuery,
    status: several(statuses, 'Only with this status.'),
    planId: Type.Optional({ ...Id, description: 'Subscriptions to this plan.' }),
    subscriberWallet: Type.Optional({ ...Wallet, description: 'Subscriptions of this wallet.' }),
    subscriptionPda: Type.Optional({ ...Pda, description: 'The subscription account on chain.' }),
    externalId: Type.Optional(ExternalId),
    expand,
    since: Type.Optional({ ...TimeInput, description: 'Created at this time or later.' }),
    until: Type.Optional({ ...TimeInput, description: 'Created before this time.' }),
  },
  { additionalProperties: false },
);
const filtersOf = (query: Static<typeof querystring>): SubscriptionFilters => ({
  status: query.status ?? null,
  planId: query.planId ?? null,
  subscriberWallet: query.subscriberWallet ?? null,
  subscriptionPda: query.subscriptionPda ?? null,
  externalId: query.externalId ?? null,
  since: timeOrNull(query.since),
  until: timeOrNull(query.until),
});

/**
 * Returns a function that converts a row to the fields of the schema `Subscription`. With
 * `expand=plan` the fields include the plan.
 */
async function viewOf(
  { sql, planMinimumAmount: minimum }: ApiDeps,
  rows: readonly SubscriptionRow[],
  { expand: wanted = [] }: { expand?: 'plan'[] },
) {
  const view = (row: SubscriptionRow) => subscriptionView(row, minimum);
  if (!wanted.includes('plan')) return view;
  const found = await findPlans(sql, [...new Set(rows.map(({ planId }) => planId))]);
  const plans = new Map(found.map((plan) => [plan.id, planView(plan)]));
  return (row: SubscriptionRow) => ({ ...view(row), plan: plans.get(row.planId) });
}

function listRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
  api.get(
    '/apps/:appId/subscriptions',
    {
      schema: {
        summary: 'List the subscriptions of an app',
        tags,
        params: Type.Object({ appId: PathId }),
        querystring,
        response: { 200: success(Type.Array(Subscription)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id } = await ownApp(deps, request, request.params.appId);
      const rows = await listSubscriptionsOfApp(sql, id, filtersOf(request.query), page);
      return pages.send(request, reply, rows.map(await viewOf(deps, rows, request.query)));
    },
  );

  api.get(
    '/subscriptions',
    {
      schema: {
        summary: 'List the subscriptions of all your apps',
        tags,
        querystring,
        response: { 200: success(Type.Array(Subscription)), ...failures(400, 401, 403) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id } = merchantOf(request);
      const rows = await listSubscriptionsOfMerchant(sql, id, filtersOf(request.query), page);
      return pages.send(request, reply, rows.map(await viewOf(deps, rows, request.query)));
    },
  );
}
