import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { findPlan, type PlanRow } from '../../db/plans.ts';
import {
  findSubscription,
  listSubscriptionsOfWallet,
  type SubscriptionRow,
} from '../../db/registrations.ts';
import { anyTransaction, listTransactions } from '../../db/payments.ts';
import { openCheckoutSession } from '../../domain/checkout.ts';
import { observePlan } from '../../domain/plans.ts';
import { checkRegistration, storeRegistration } from '../../domain/registration.ts';
import { offerTransaction } from '../../domain/relay.ts';
import { readStanding, type Shortage, shortagesOf } from '../../domain/standing.ts';
import {
  cancellingTransaction,
  closingTransaction,
  openingTransaction,
  repairingTransaction,
  resumingTransaction,
} from '../../domain/subscribing.ts';
import { absent, type Api, type ApiDeps, foreign, idOf, subscriberOf } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import {
  Amount,
  ExternalId,
  Id,
  meaning,
  MetadataInput,
  NoBody,
  nullable,
  PathId,
  Pda,
  refuseLongMetadata,
  UnsignedTransaction,
} from '../fields.ts';
import { answerOnce, idempotencyHeaders } from '../idempotency.ts';
import { pageQuery, type Pages } from '../pages.ts';
import { subscriptionView } from '../subscription-view.ts';
import { Plan, planView } from '../plan-input.ts';
import { OwnSubscription } from './subscriptions.ts';
import { OwnTransaction } from './transactions.ts';

const params = Type.Object({ subscriptionId: PathId });
const tags = ['subscriber'];
const security = [{ walletJwt: [] }];

const shortages = {
  sol_missing: 'Too little SOL for the rent and the network fee: the transaction will fail.',
  usdc_missing: 'Too little USDC for the first payment: it will be tried again later.',
} as const satisfies Record<Shortage['code'], string>;
const warnings = Type.Array(
  Type.Object({
    code: meaning(shortages, 'For programs.'),
    message: Type.String({ description: 'For people.' }),
    missing: {
      ...Amount,
      description: 'USDC base units, or lamports, as a string.',
    },
  }),
  { description: 'What the wallet lacks; empty when nothing.', examples: [[]] },
);

/** What a subscriber's page needs: a plan's terms, the transactions to sign, and the wallet's own subscriptions. */
export function subscriberRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql, chain, network, wakeDispatchers, wakeKeepers } = deps;

  const anyPlan = async (planId: string): Promise<PlanRow> => {
    const plan = await findPlan(sql, idOf(planId, 'plan'));
    if (plan === undefined) throw absent('plan');
    return observePlan(sql, chain, network, plan);
  };

  const ownSubscription = async (
    request: FastifyRequest<{ Params: { subscriptionId: string } }>,
  ): Promise<SubscriptionRow> => {
    const found = await findSubscription(sql, idOf(request.params.subscriptionId, 'subscription'));
    if (found === undefined) throw absent('subscription');
    if (found.subscriberWallet !== subscriberOf(request).wallet) throw foreign('subscription');
    return found;
  };

  api.get(
    '/plans/:planId',
    {
      schema: {
        summary: 'Read a plan’s terms',
        tags,
        security,
        params: Type.Object({ planId: PathId }),
        response: { 200: success(Plan), ...failures(401, 403, 404) },
      },
    },
    async (request) => ok(planView(await anyPlan(request.params.planId))),
  );

  api.post(
    '/plans/:planId/subscribe',
    {
      schema: {
        summary: 'Get the transaction that subscribes your wallet to a plan',
        description:
          'Sign it, send it, and register the subscription once it is confirmed. warnings says what the wallet lacks just now.',
        tags,
        security,
        params: Type.Object({ planId: PathId }),
        body: nullable(
          Type.Object({ checkoutSessionId: Type.Optional(Id) }, { additionalProperties: false }),
        ),
        response: {
          200: success(
            Type.Object({ transaction: UnsignedTransaction, subscriptionPda: Pda, warnings }),
          ),
          ...failures(400, 401, 403, 404, 409),
        },
      },
    },
    async (request) => {
      const plan = await anyPlan(request.params.planId);
      const { wallet } = subscriberOf(request);
      const checkoutSessionId = request.body?.checkoutSessionId ?? null;
      if (checkoutSessionId !== null)
        await openCheckoutSession(sql, checkoutSessionId, { planId: plan.id, wallet });
      const [opening, standing] = await Promise.all([
        openingTransaction(chain, network, plan, wallet),
        readStanding(chain, network, plan, wallet),
      ]);
      const { transaction, subscriptionPda } = opening;
      await offerTransaction(sql, opening, {
        wallet,
        purpose: 'subscribe',
        planId: plan.id,
        subscriptionPda,
        checkoutSessionId,
      });
      return ok({ transaction, subscriptionPda, warnings: shortagesOf(standing) });
    },
  );

  api.post(
    '/subscriptions',
    {
      schema: {
        summary: 'Register a subscription that is on chain',
        description: 'From then on the keeper collects its payments, the first one at once.',
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
                'The checkout in which you subscribed; it gives externalId and metadata.',
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
      await answerOnce(deps, request, reply, 201, async () => {
        const registration = await checkRegistration(sql, chain, network, {
          ...request.body,
          wallet,
        });
        return async (tx) => {
          const stored = await findSubscription(tx, await storeRegistration(tx, registration));
          if (stored === undefined) throw absent('subscription');
          return subscriptionView(stored);
        };
      });
      wakeDispatchers(request.body.appId.toLowerCase());
      wakeKeepers();
      return reply;
    },
  );

  api.get(
    '/subscriptions',
    {
      schema: {
        summary: 'List your subscriptions',
        tags,
        security,
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: success(Type.Array(OwnSubscription)), ...failures(400, 401, 403) },
      },
    },
    async (request, reply) =>
      pages.send(
        request,
        reply,
        (
          await listSubscriptionsOfWallet(sql, subscriberOf(request).wallet, pages.read(request))
        ).map(subscriptionView),
      ),
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
    async (request) => ok(subscriptionView(await ownSubscription(request))),
  );

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
      const { id, appId } = await ownSubscription(request);
      return pages.send(
        request,
        reply,
        await listTransactions(sql, appId, { ...anyTransaction, subscriptionId: id }, page),
      );
    },
  );

  const transactions = {
    cancel: {
      summary: 'Get the transaction that cancels at the end of the period',
      make: cancellingTransaction,
    },
    repair: {
      summary: 'Get the transaction that approves the payments again',
      make: repairingTransaction,
    },
    resume: {
      summary: 'Get the transaction that takes a cancellation back',
      make: resumingTransaction,
    },
    close: {
      summary: 'Get the transaction that closes the account of an ended subscription',
      make: closingTransaction,
    },
  };
  for (const purpose of ['cancel', 'repair', 'resume', 'close'] as const) {
    const { summary, make } = transactions[purpose];
    api.post(
      `/subscriptions/:subscriptionId/${purpose}`,
      {
        schema: {
          summary,
          description:
            'Sign it and send it: the chain stays the truth, and the service sees it there.',
          tags,
          security,
          params,
          body: NoBody,
          response: {
            200: success(Type.Object({ transaction: UnsignedTransaction })),
            ...failures(400, 401, 403, 404, 409),
          },
        },
      },
      async (request) => {
        const subscription = await ownSubscription(request);
        const plan = await findPlan(sql, subscription.planId);
        if (plan === undefined) throw absent('plan');
        const unsigned = await make(chain, network, plan, subscription);
        await offerTransaction(sql, unsigned, {
          wallet: subscription.subscriberWallet,
          purpose,
          planId: plan.id,
          subscriptionPda: subscription.subscriptionPda,
        });
        return ok({ transaction: unsigned.transaction });
      },
    );
  }
}
