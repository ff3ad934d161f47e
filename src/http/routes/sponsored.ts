// Routes of sponsored transactions. If the wallet is not signed in, a page asks for an offer and
// posts the signed transaction with the offer's secret. If the wallet is signed in, it posts the
// signed transaction with its JWT.
import { setTimeout as pause } from 'node:timers/promises';
import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { findPlan } from '../../db/subscriptions/plans.ts';
import { ownOrigins, refuseKeyless, signInPage } from '../../domain/accounts/sign-in.ts';
import { refuseSuspended } from '../../domain/accounts/suspended.ts';
import type { Tokens } from '../../domain/accounts/tokens.ts';
import {
  findOwnOffer,
  handOver,
  offersProgress,
  type OfferHolder,
  type OfferProgress,
} from '../../domain/offers/hand-over.ts';
import { offerSponsored } from '../../domain/offers/offer.ts';
import { observePlan } from '../../domain/plans/plans.ts';
import { openCheckoutSession } from '../../domain/registration/checkout.ts';
import { ServiceError } from '../../errors.ts';
import { addressSubject } from '../door/addresses.ts';
import { createBatch } from '../door/batch.ts';
import { assertReachesPlan } from '../door/bound.ts';
import { absent, type Api, type ApiDeps, idOf, subscriberOf } from '../door/context.ts';
import { ProgressCache } from '../door/progress-cache.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import {
  Id,
  nullable,
  offerFields,
  PathId,
  Pda,
  replacedApproval,
  Time,
  Wallet,
} from '../shapes/fields.ts';
import {
  notSponsored,
  Progress,
  progressQuery,
  SignedTransaction,
  sponsoredFields,
} from '../shapes/sponsored-schemas.ts';

/** Interval at which a waiting request reads the progress. */
const POLL_MS = 250;
const params = Type.Object({ offerId: PathId });
const tags = ['sponsored'];
const SECRET =
  'Send the offer’s secret as "Authorization: Bearer", from the page that asked for it.';
const tokenFields = {
  token: nullable(
    Type.String({
      description:
        'A subscriber’s JWT. Given once, to the first request with the signed transaction.',
    }),
  ),
  expiresAt: nullable({ ...Time, description: 'When the token expires.' }),
};

/** Registers the checkout page's routes for offers. The wallet has not signed in. */
export function checkoutOfferRoutes(api: Api, deps: ApiDeps, tokens: Tokens): void {
  const { sql, wakeKeepers } = deps;
  const progressCache = createProgressCache(deps);
  offersRoute(api, deps);

  api.post(
    '/checkout/offers/:offerId/transaction',
    {
      schema: {
        summary: 'Hand over a sponsored transaction that the wallet signed',
        description: `${SECRET} The service checks, signs and sends it. A token comes with the first such response only, and never for a transaction that the service has signed.`,
        tags,
        params,
        body: SignedTransaction,
        response: {
          200: success(
            Type.Object({ ...Progress.properties, ...tokenFields }, { title: 'HandedOver' }),
          ),
          ...failures(400, 401, 403, 404, 409),
        },
      },
    },
    async (request) => {
      const offer = await findOwnOffer(sql, offerIdOf(request), holderOf(request));
      const isFirst = await handOver(deps, offer, request.body.transaction);
      if (isFirst) wakeKeepers();
      const { wallet, origin: page } = offer;
      const issued = isFirst ? await tokens.issue({ wallet, role: 'subscriber', page }) : undefined;
      const { token = null, expiresAt = null } = issued ?? {};
      return ok({ ...(await progressCache.read(request, offer.id)), token, expiresAt });
    },
  );
  // A browser sends the header Origin with a GET to another origin, but not with a GET to the
  // page's own origin. A page of the service is therefore accepted with and without the header.
  const pageOrigins = ownOrigins(deps.publicUrl);
  progressRoute(api, deps, progressCache, '/checkout/offers/:offerId', (request) => {
    const { secret, origins } = holderOf(request);
    return {
      secret,
      origins: origins.flatMap((one) => (one === null ? [null, ...pageOrigins] : [one])),
    };
  });
}

/** Registers the routes for the offers of a signed-in wallet. */
export function subscriberOfferRoutes(api: Api, deps: ApiDeps): void {
  const { wakeKeepers } = deps;
  const progressCache = createProgressCache(deps);
  api.post(
    '/offers/:offerId/transaction',
    {
      // A suspended wallet may sign offers of some purposes. handOver refuses the other purposes.
      config: { openToSuspended: true },
      schema: {
        summary: 'Hand over a sponsored transaction that your wallet signed',
        description: 'The service checks, signs and sends it. Read the progress afterwards.',
        tags,
        security: [{ walletJwt: [] }],
        params,
        body: SignedTransaction,
        response: { 200: success(Progress), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request) => {
      const offer = await findReached(deps, request, subscriberOf(request));
      if (await handOver(deps, offer, request.body.transaction)) wakeKeepers();
      return ok(await progressCache.read(request, offer.id));
    },
  );
  progressRoute(api, deps, progressCache, '/offers/:offerId', subscriberOf, [{ walletJwt: [] }]);
}

function offersRoute(api: Api, deps: ApiDeps): void {
  const { sql, chain, network } = deps;
  api.post(
    '/checkout/plans/:planId/offers',
    {
      schema: {
        summary: 'Get a sponsored transaction that subscribes a wallet and makes the first payment',
        description:
          'Needs no sign-in. The wallet signs the transaction without sending it; then post it with the secret. "offer" is null where the service does not sponsor it: then the wallet signs in and pays for its transaction.',
        tags,
        params: Type.Object({ planId: PathId }),
        body: Type.Object(
          { wallet: Wallet, checkoutSessionId: Type.Optional(Id) },
          { additionalProperties: false },
        ),
        response: {
          200: success(
            Type.Object({
              offer: nullable(
                Type.Object(
                  {
                    ...offerFields,
                    subscriptionPda: Pda,
                    secret: Type.String({
                      description: 'Stands for the wallet in the next requests. Given once.',
                    }),
                    replaces: replacedApproval,
                  },
                  { title: 'CheckoutOffer' },
                ),
              ),
              notSponsored: sponsoredFields.notSponsored,
            }),
          ),
          ...failures(400, 403, 404, 409),
        },
      },
    },
    async (request) => {
      const { wallet, checkoutSessionId } = request.body;
      const origin = originOf(request, deps);
      refuseKeyless(wallet);
      const found = await findPlan(sql, idOf(request.params.planId, 'plan'));
      if (found === undefined) throw absent('plan');
      const plan = await observePlan(sql, chain, network, found);
      const parties = { planId: plan.id, wallet };
      await refuseSuspended(sql, parties);
      const session = await openCheckoutSession(sql, checkoutSessionId, parties);
      const outcome = await offerSponsored(deps, {
        purpose: 'subscribe',
        wallet,
        plan,
        session,
        address: addressSubject(request.ip),
        page: { origin },
      });
      if ('refusal' in outcome)
        return ok({ offer: null, notSponsored: notSponsored(outcome.refusal) });
      const { secret, subscriptionPda, ...offer } = outcome.offer;
      const given = { secret: secret ?? '', subscriptionPda: subscriptionPda ?? '' };
      return ok({ offer: { ...offer, ...given }, notSponsored: null });
    },
  );
}

/** Creates the cache of progress for one kind of holders. */
function createProgressCache({ sql, publicUrl }: ApiDeps): ProgressCache {
  // All waiting requests read their progress at the same moments (multiples of POLL_MS), so one
  // statement reads the progress of all these requests.
  const progressOf = createBatch<{ id: string }, OfferProgress & { id: string }>(
    (offers) =>
      offersProgress(
        sql,
        offers.map(({ id }) => id),
      ),
    ({ id }) => id,
  );
  const read = async (id: string) => {
    const progress = await progressOf({ id });
    if (progress === undefined) throw absent('offer');
    return progress;
  };
  return new ProgressCache(read, ownOrigins(publicUrl));
}

function progressRoute(
  api: Api,
  deps: ApiDeps,
  progressCache: ProgressCache,
  path: string,
  holder: (request: FastifyRequest) => OfferHolder,
  security?: { walletJwt: [] }[],
): void {
  api.get(
    path,
    {
      config: { waits: 'polling', answersKnown: true },
      schema: {
        summary: 'Read how far a sponsored transaction has come',
        ...(security === undefined ? { description: SECRET } : { security }),
        tags,
        params,
        querystring: progressQuery,
        response: { 200: success(Progress), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      if (request.refusal !== null) {
        const progress = await progressCache.find(request, offerIdOf(request));
        if (progress === undefined) throw request.refusal;
        return ok(progress);
      }
      const { id } = await findReached(deps, request, holder(request));
      const { wait = 0, known: last } = request.query;
      const deadline = performance.now() + (request.mayWait ? wait * 1000 : 0);
      for (;;) {
        const progress = await progressCache.read(request, id);
        const isLate = performance.now() >= deadline || reply.raw.destroyed;
        if (progress.state !== last || isLate) return ok(progress);
        await pause(Math.ceil(POLL_MS - (performance.now() % POLL_MS)));
      }
    },
  );
}

/** Finds an offer of the holder. Throws FORBIDDEN if the caller's token is bound to other apps. */
async function findReached(deps: ApiDeps, request: FastifyRequest, holder: OfferHolder) {
  const offer = await findOwnOffer(deps.sql, offerIdOf(request), holder);
  if ('wallet' in holder) await assertReachesPlan(deps, request, offer.planId);
  return offer;
}

const offerIdOf = ({ params: given }: FastifyRequest) =>
  idOf((given as { offerId: string }).offerId, 'offer');

/**
 * Returns the Origin of the request, or null if the request has no Origin. Throws FORBIDDEN if
 * pages of this Origin must not ask for offers.
 */
function originOf({ headers: { origin } }: FastifyRequest, deps: ApiDeps): string | null {
  if (origin === undefined) return null;
  if (new URL(signInPage(origin, deps)).origin !== origin)
    throw new ServiceError('FORBIDDEN', 'Pages of this origin get no offers: see CORS_ORIGINS.');
  return origin;
}

function holderOf({ headers }: FastifyRequest): { secret: string; origins: (string | null)[] } {
  const [, secret] = /^Bearer +(\S{1,4096})$/i.exec(headers.authorization ?? '') ?? [];
  if (secret === undefined) throw new ServiceError('UNAUTHORIZED', SECRET);
  return { secret, origins: [headers.origin ?? null] };
}
