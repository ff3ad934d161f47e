import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { anyTransaction, listTransactions } from '../../db/money/payments.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { isBeingReplaced } from '../../db/subscriptions/change-offers.ts';
import { listSubscriptionsOfWallet } from '../../db/subscriptions/lists.ts';
import { findPlan } from '../../db/subscriptions/plans.ts';
import { findSubscription, type SubscriptionRow } from '../../db/subscriptions/subscriptions.ts';
import { isOpenToSuspended, refuseSuspended } from '../../domain/accounts/suspended.ts';
import type { Unsigned } from '../../domain/chain-reads.ts';
import { holdCancel } from '../../domain/change/cancel.ts';
import { isLimit, type Refusal } from '../../domain/offers/limits.ts';
import { lacksSol, offerTransaction } from '../../domain/offers/relay.ts';
import { offerOpening } from '../../domain/offers/subscribe.ts';
import { subscriptionTransaction } from '../../domain/offers/wallet-action.ts';
import { readReopening } from '../../domain/registration/opening.ts';
import { checkRegistration, storeRegistration } from '../../domain/registration/registration.ts';
import { readStanding } from '../../domain/standing/standing.ts';
import { ServiceError } from '../../errors.ts';
import { addressSubject } from '../door/addresses.ts';
import { assertReaches } from '../door/bound.ts';
import { absent, type Api, type ApiDeps, foreign, idOf, subscriberOf } from '../door/context.ts';
import { respondOnce, idempotencyHeaders } from '../door/idempotency.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import {
  ExternalId,
  Id,
  MetadataInput,
  PathId,
  Pda,
  refuseLongMetadata,
} from '../shapes/fields.ts';
import {
  askSponsor,
  notSponsored,
  paidByWallet,
  SponsoredInput,
  SponsoredOffer,
} from '../shapes/sponsored-schemas.ts';
import { subscriptionView } from '../shapes/subscription-view.ts';
import { withReceipts } from '../site/receipt-urls.ts';
import { OwnSubscription } from './subscriptions.ts';
import { OwnTransaction } from './transactions.ts';

const params = Type.Object({ subscriptionId: PathId });
const tags = ['subscriber'];
const security = [{ walletJwt: [] }];

/**
 * Registers the routes with which a wallet reads its own subscriptions and gets unsigned
 * transactions for them.
 */
export function subscriberRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  registerRoute(api, deps);
  readRoutes(api, deps, pages);
  transactionsRoute(api, deps, pages);
  signingRoutes(api, deps);
}

/**
 * Returns the subscription whose id is in the request's path. Throws NOT_FOUND when the
 * subscription does not exist, FORBIDDEN when the subscription belongs to another wallet, or the
 * caller's token is bound to other apps.
 */
export async function ownSubscription(
  deps: ApiDeps,
  request: FastifyRequest<{ Params: { subscriptionId: string } }>,
): Promise<SubscriptionRow> {
  const { sql } = deps;
  const found = await findSubscription(sql, idOf(request.params.subscriptionId, 'subscription'));
  if (found === undefined) throw absent('subscription');
  if (found.subscriberWallet !== subscriberOf(request).wallet) throw foreign('subscription');
  await assertReaches(deps, request, found.appId);
  return found;
}

function registerRoute(api: Api, deps: ApiDeps): void {
  const { sql, chain, network, planMinimumAmount, wakeDispatchers, wakeKeepers } = deps;
  api.post(
    '/subscriptions',
    {
      schema: {
        summary: 'Register a subscription that is on chain',
        description: 'The keeper then collects its payments, the first one immediately.',
        tags,
        security,
        headers: idempotencyHeaders,
        body: Type.Object(
          {
            appId: Id,
            planId: Id,
            subscriptionPda: Pda,
            externalId: Type.Optional(ExternalId),
            metadata: Type.Optional(MetadataInput),
            checkoutSessionId: Type.Optional({
              ...Id,
              description:
                'The checkout session in which you subscribed; externalId and metadata are taken from it. CONFLICT after a change of plan that was not asked for in it, and for a session with replaces without its change.',
            }),
            offerId: Type.Optional({
              ...Id,
              description:
                'The open offer whose transaction you sent. It decides between offers of different terms where the chain does not show which of them landed. CONFLICT if it counts only once it has landed (its checkout has expired, or it changes the plan of a subscription that runs) and the chain does not show that.',
            }),
          },
          { additionalProperties: false },
        ),
        response: { 201: success(OwnSubscription), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) => {
      const { wallet } = subscriberOf(request);
      refuseLongMetadata(request.body.metadata);
      await assertReaches(deps, request, request.body.appId);
      await respondOnce(deps, request, reply, 201, async () => {
        const registration = await checkRegistration(sql, chain, network, {
          ...request.body,
          wallet,
          minimum: planMinimumAmount,
        });
        return async (tx) => {
          const stored = await findSubscription(tx, await storeRegistration(tx, registration));
          if (stored === undefined) throw absent('subscription');
          return subscriptionView(stored, planMinimumAmount);
        };
      });
      wakeDispatchers(request.body.appId.toLowerCase());
      wakeKeepers();
      return reply;
    },
  );
}

function readRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql, planMinimumAmount: minimum } = deps;
  api.get(
    '/subscriptions',
    {
      schema: {
        summary: 'List your subscriptions',
        description:
          'With the token of a page of CORS_ORIGINS: those of the apps whose returnOrigins have the page’s origin.',
        tags,
        security,
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: success(Type.Array(OwnSubscription)), ...failures(400, 401, 403) },
      },
    },
    async (request, reply) => {
      const rows = await listSubscriptionsOfWallet(sql, subscriberOf(request), pages.read(request));
      return pages.send(
        request,
        reply,
        rows.map((row) => subscriptionView(row, minimum)),
      );
    },
  );

  api.get(
    '/subscriptions/:subscriptionId',
    {
      schema: {
        summary: 'Read a subscription',
        tags,
        security,
        params,
        response: { 200: success(OwnSubscription), ...failures(401, 403, 404) },
      },
    },
    async (request) => ok(subscriptionView(await ownSubscription(deps, request), minimum)),
  );
}

function transactionsRoute(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
  api.get(
    '/subscriptions/:subscriptionId/transactions',
    {
      schema: {
        summary: 'List the transactions of a subscription',
        tags,
        security,
        params,
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: success(Type.Array(OwnTransaction)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id, appId } = await ownSubscription(deps, request);
      const filters = { ...anyTransaction, subscriptionId: id };
      const rows = await listTransactions(sql, appId, filters, page);
      return pages.send(request, reply, await withReceipts(deps, rows));
    },
  );
}

/**
 * Throws CONFLICT if a change of plan has replaced the live subscription, or if a sponsored change
 * of plan is about to replace it.
 */
async function refuseReplaced(
  sql: Sql,
  { id, status, replacedBy }: SubscriptionRow,
): Promise<void> {
  if (status !== 'active' && status !== 'past_due') return;
  if (await isBeingReplaced(sql, id))
    throw new ServiceError('CONFLICT', 'A change of plan is under way. Try again in a minute.');
  if (replacedBy === null) return;
  throw new ServiceError(
    'CONFLICT',
    `The subscription was replaced by ${replacedBy}: change the plan back instead.`,
  );
}

/** The transactions that the service builds and the wallet signs for its subscription. */
const summaries = {
  cancel: 'Get the transaction that cancels at the end of the period',
  repair: 'Get the transaction that approves the payments again',
  resume: 'Get the transaction that reverts a cancellation, or resumes an ended subscription',
  close: 'Get the transaction that closes the account of an ended subscription',
};

/**
 * Records the cancellation in the database if (1) a limit of sponsoring is reached, or (2) the
 * wallet has too little SOL to send the cancelling transaction. Otherwise the cancellation would be
 * lost, because its transaction may never be sent. Returns whether the cancellation was recorded.
 */
async function holdsHere(
  { sql, chain, wakeDispatchers }: ApiDeps,
  subscription: SubscriptionRow,
  { unsigned, why }: { unsigned: Unsigned; why: { code: Refusal } | null },
): Promise<boolean> {
  const isLimited = why !== null && isLimit(why.code);
  if (!isLimited && !(await lacksSol(chain, unsigned))) return false;
  await sql.begin((tx) => holdCancel(tx, subscription));
  wakeDispatchers(subscription.appId);
  return true;
}

function signingRoutes(api: Api, deps: ApiDeps): void {
  const { sql, chain, network } = deps;
  for (const purpose of ['cancel', 'repair', 'resume', 'close'] as const) {
    api.post(
      `/subscriptions/:subscriptionId/${purpose}`,
      {
        config: isOpenToSuspended(purpose) ? { openToSuspended: true } : {},
        schema: {
          summary: summaries[purpose],
          description: 'Sign and send it. The service reads the result from the chain.',
          tags,
          security,
          params,
          body: SponsoredInput,
          response: {
            200: success(SponsoredOffer),
            ...failures(400, 401, 403, 404, 409),
          },
        },
      },
      async (request) => {
        const subscription = await ownSubscription(deps, request);
        if (purpose === 'resume') await refuseReplaced(sql, subscription);
        const plan = await findPlan(sql, subscription.planId);
        if (plan === undefined) throw absent('plan');
        const { subscriptionPda, subscriberWallet: wallet, status } = subscription;
        await refuseSuspended(sql, { wallet, planId: plan.id, purpose });
        if (purpose === 'resume' && (status === 'cancelled' || status === 'expired')) {
          const [opening, { trialHours }] = await Promise.all([
            readReopening(deps, plan, wallet),
            readStanding(deps, plan, wallet),
          ]);
          // The subscription has ended, so it must be registered again. Sponsored transactions
          // cannot do this, so the wallet pays for this transaction even if the request asked for a
          // sponsor.
          const isAsked = request.body?.sponsored === true;
          const unsponsored = { notSponsored: isAsked ? notSponsored('running') : null };
          const offer = await offerOpening(deps, opening, { trialHours: trialHours ?? 0 });
          return ok({ ...offer, ...paidByWallet(unsponsored) });
        }
        const action = { purpose, plan, row: subscription };
        const unsigned = await subscriptionTransaction(chain, network, action);
        const { made, ...unsponsored } = await askSponsor(deps, request.body?.sponsored, {
          purpose,
          wallet,
          plan,
          withdraws: unsigned.revokes === true,
          address: addressSubject(request.ip),
        });
        const { credit } = subscription;
        const left = purpose === 'cancel' && credit > 0n ? { credit } : {};
        if (made !== undefined) return ok({ ...made, ...left });
        const { notSponsored: why } = unsponsored;
        const cancelled =
          purpose === 'cancel' && (await holdsHere(deps, subscription, { unsigned, why }));
        const target = { wallet, purpose, planId: plan.id, subscriptionPda };
        const offer = await offerTransaction(sql, unsigned, target);
        return ok({
          ...offer,
          ...paidByWallet(unsponsored),
          ...left,
          ...(cancelled && { cancelled }),
        });
      },
    );
  }
}
