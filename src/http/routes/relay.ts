import { Type } from '@sinclair/typebox';
import { recordRelayed } from '../../db/offers/offers.ts';
import { findPlan } from '../../db/subscriptions/plans.ts';
import { takeSigned } from '../../domain/offers/hand-over.ts';
import { refusePaidRefund } from '../../domain/offers/paid-refund.ts';
import { findSignedOffer } from '../../domain/offers/relay.ts';
import { otherMayLand, readTakeable } from '../../domain/offers/relayed-before.ts';
import { relayOnce } from '../../domain/offers/relayed-once.ts';
import { registerRelayed } from '../../domain/offers/relayed-registration.ts';
import { observePlan } from '../../domain/plans/plans.ts';
import { assertReachesPlan } from '../door/bound.ts';
import { type Api, type ApiDeps, merchantOf, subscriberOf } from '../door/context.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Id, nullable, oneOf } from '../shapes/fields.ts';
import { Plan, planView } from '../shapes/plan-schemas.ts';
import { signedTransaction } from '../shapes/sponsored-schemas.ts';
import { subscriptionView } from '../shapes/subscription-view.ts';
import { OwnSubscription } from './subscriptions.ts';

const body = Type.Object(
  {
    transaction: signedTransaction(
      'A signed transaction in Base64 that the service built for this wallet.',
    ),
    offerId: Type.Optional({
      ...Id,
      description:
        'The offer that the transaction came from; without it exactly one open offer of the wallet must fit.',
    }),
  },
  { title: 'SentTransaction', additionalProperties: false },
);
const outcome = {
  signature: Type.String({ description: 'The transaction’s signature in Base58.' }),
  status: oneOf(
    ['confirmed', 'pending', 'lapsed', 'failed'],
    'pending: send the same request again. lapsed: it never landed; ask for a new transaction.',
  ),
  reason: nullable(Type.String({ description: 'The reason of the failure.' })),
};
const DESCRIPTION =
  'Compared with what the service built for your wallet, within ten minutes. Your wallet may set the compute limit and price (fee up to 0.01 SOL), take a newer blockhash (not for a refund), encode it as version 0 without lookup tables, and add instructions of the assertion program; any other change is VALIDATION_ERROR and named. ' +
  'While another transaction of the same offer may land, it is CONFLICT; so is, unless it has landed already, what asking for it again would refuse by now (such as a change of a subscription that has ended or was replaced), and a refund that another transaction has paid. ' +
  'Answers when the transaction is confirmed, has failed or has lapsed, after 8 seconds at the latest.';

/**
 * Registers the relay route for subscribers. The route sends a transaction that the wallet signed,
 * and registers the subscription that a subscribe transaction created.
 */
export function subscriberRelayRoutes(api: Api, deps: ApiDeps): void {
  const { sql, planMinimumAmount, wakeDispatchers, wakeKeepers } = deps;
  const relay = relayOnce(deps.chain);
  api.post(
    '/transactions',
    {
      // A suspended wallet may send transactions of some purposes. takeSigned refuses the others.
      config: { openToSuspended: true, waits: 'paying' },
      schema: {
        summary: 'Send a transaction signed by your wallet',
        description: `${DESCRIPTION} A subscription that it creates is registered, with the terms of the newest transaction that opened or resumed its account.`,
        tags: ['subscriber'],
        security: [{ walletJwt: [] }],
        body,
        response: {
          200: success(
            Type.Object({
              ...outcome,
              subscription: nullable(OwnSubscription),
            }),
          ),
          ...failures(400, 401, 403, 404, 409),
        },
      },
    },
    async (request) => {
      const { wallet } = subscriberOf(request);
      const signed = await findSignedOffer(sql, wallet, request.body);
      await assertReachesPlan(deps, request, signed.offer.planId);
      const result = await relay(await takeSigned(deps, signed));
      const landed = result.status === 'confirmed';
      const subscription = landed ? await registerRelayed(deps, signed) : undefined;
      if (landed) {
        wakeDispatchers(subscription?.appId);
        wakeKeepers();
      }
      const { signature } = signed;
      return ok({
        signature,
        ...result,
        subscription:
          subscription === undefined ? null : subscriptionView(subscription, planMinimumAmount),
      });
    },
  );
}

/**
 * Registers the relay route for merchants. The route sends a transaction that the wallet signed,
 * and activates the plan that the transaction published.
 */
export function merchantRelayRoutes(api: Api, { sql, chain, network }: ApiDeps): void {
  const relay = relayOnce(chain);
  api.post(
    '/transactions',
    {
      config: { waits: 'paying' },
      schema: {
        summary: 'Send a transaction signed by your wallet',
        description: `${DESCRIPTION} A plan that it publishes becomes active. A refund may take four seconds more, while too few Solana nodes answer to show that nothing has paid it: then it is 503, and nothing was sent.`,
        tags: ['plans'],
        body,
        response: {
          200: success(Type.Object({ ...outcome, plan: nullable(Plan) })),
          ...failures(400, 401, 403, 409),
        },
      },
    },
    async (request) => {
      const { wallet } = merchantOf(request);
      const signed = await findSignedOffer(sql, wallet, request.body);
      const { taken, dead } = await readTakeable(sql, chain, signed);
      if (signed.offer.purpose === 'refund') await refusePaidRefund(sql, chain, signed);
      const relayed = { signature: signed.signature, ...taken.lifetime };
      const take = () => recordRelayed(sql, signed.offer, relayed, dead);
      // A refund whose simulation failed costs its wallet nothing, so it stays open.
      const result = await relay(taken, async () => {
        if ((await take()) === 'other') throw otherMayLand();
      });
      // The wallet may have sent the transaction itself, so that the relay did not send it.
      if (result.status === 'confirmed' || result.status === 'pending') await take();
      const { planId } = signed.offer;
      const plan =
        result.status === 'confirmed' && planId !== null ? await findPlan(sql, planId) : undefined;
      return ok({
        signature: signed.signature,
        ...result,
        plan: plan === undefined ? null : planView(await observePlan(sql, chain, network, plan)),
      });
    },
  );
}
