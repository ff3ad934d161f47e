import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { isWithheld } from '../../db/accounts/suspensions.ts';
import { reserveOffer } from '../../db/offers/offers.ts';
import type { CheckoutSessionRow } from '../../db/subscriptions/checkout-sessions.ts';
import { findPlan, type PlanRow } from '../../db/subscriptions/plans.ts';
import { refuseSuspended } from '../../domain/accounts/suspended.ts';
import { lastHeightOfNew } from '../../domain/chain-reads.ts';
import { changeTransaction, sessionChange } from '../../domain/change/change.ts';
import { type Offer, offerTransaction } from '../../domain/offers/relay.ts';
import { observePlan } from '../../domain/plans/plans.ts';
import { openCheckoutSession } from '../../domain/registration/checkout.ts';
import {
  readReservations,
  refuseTaken,
  reserveCustomer,
} from '../../domain/registration/one-per-customer.ts';
import { type Opening, openingTransaction } from '../../domain/registration/opening.ts';
import { readStanding, type Shortage, shortagesOf } from '../../domain/standing/standing.ts';
import { addressSubject } from '../door/addresses.ts';
import { assertReaches } from '../door/bound.ts';
import { absent, type Api, type ApiDeps, idOf, subscriberOf } from '../door/context.ts';
import { ChangePreview, changeView } from '../shapes/change-schemas.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Amount, Id, meaning, nullable, PathId, Pda, offerFields } from '../shapes/fields.ts';
import { Plan, planView } from '../shapes/plan-schemas.ts';
import {
  askChange,
  askSponsor,
  paidByWallet,
  shownAsOf,
  sponsored,
  sponsoredFields,
} from '../shapes/sponsored-schemas.ts';
import { WITHHELD } from './public-plan.ts';

const tags = ['subscriber'];
const security = [{ walletJwt: [] }];

const shortages = {
  sol_missing: 'Too little SOL for the rent and the network fee: the transaction will fail.',
  usdc_missing: 'Too little USDC for the first payment: it will be tried again later.',
  approval_replaced:
    'Another program has an approval of the USDC account: subscribing replaces it.',
} as const satisfies Record<Shortage['code'], string>;
const warnings = Type.Array(
  Type.Object({
    code: meaning(shortages, 'Machine-readable.'),
    message: Type.String({ description: 'Human-readable; may change.' }),
    missing: Type.Optional({
      ...Amount,
      description: 'USDC base units, or lamports, as a string.',
    }),
  }),
  { description: 'What the wallet lacks or would lose; empty if nothing.', examples: [[]] },
);

const walletSendsField = Type.Boolean({
  description:
    'Whether your wallet sends the transaction itself, instead of the service (/subscriber/transactions). The customer of the checkout session is then reserved at once. Default: false.',
});

const OpeningOffer = Type.Object({
  ...offerFields,
  ...sponsoredFields,
  subscriptionPda: Pda,
  warnings,
  change: nullable({
    ...ChangePreview,
    title: 'SessionChange',
    description: 'What the change of plan costs that the session makes; null without one.',
  }),
});

export function subscribeRoutes(api: Api, deps: ApiDeps): void {
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
    async (request) => {
      const { wallet } = subscriberOf(request);
      const plan = await anyPlan(deps, request);
      const view = planView(plan);
      const withheld = await isWithheld(deps.sql, { wallet, planId: plan.id });
      return ok(withheld ? { ...view, name: WITHHELD, description: null } : view);
    },
  );
  subscribeRoute(api, deps);
}

async function anyPlan(
  deps: ApiDeps,
  request: FastifyRequest<{ Params: { planId: string } }>,
): Promise<PlanRow> {
  const { sql, chain, network } = deps;
  const plan = await findPlan(sql, idOf(request.params.planId, 'plan'));
  if (plan === undefined) throw absent('plan');
  await assertReaches(deps, request, plan.appId);
  return observePlan(sql, chain, network, plan);
}

function subscribeRoute(api: Api, deps: ApiDeps): void {
  const { sql } = deps;
  api.post(
    '/plans/:planId/subscribe',
    {
      schema: {
        summary: 'Get the transaction that subscribes your wallet to a plan',
        description:
          'Sign it, send it, and register the subscription once it is confirmed. If the wallet has a cancelled account that still runs and whose subscription has ended, the transaction resumes it, and the rest of the running period is charged. "warnings" lists what the wallet lacks at the moment.',
        tags,
        security,
        params: Type.Object({ planId: PathId }),
        body: nullable(
          Type.Object(
            {
              checkoutSessionId: Type.Optional(Id),
              sponsored: Type.Optional(sponsored),
              asOf: Type.Optional(shownAsOf),
              walletSends: Type.Optional(walletSendsField),
            },
            { additionalProperties: false },
          ),
        ),
        response: { 200: success(OpeningOffer), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request) => {
      const plan = await anyPlan(deps, request);
      const { wallet } = subscriberOf(request);
      await refuseSuspended(sql, { wallet, planId: plan.id });
      const options = request.body ?? {};
      const { checkoutSessionId = null, walletSends = false } = options;
      const { sponsored: isAsked, asOf } = options;
      const from = addressSubject(request.ip);
      const session =
        checkoutSessionId === null
          ? undefined
          : await openCheckoutSession(sql, checkoutSessionId, { planId: plan.id, wallet });
      if (session !== undefined && session.replaces !== null)
        return ok(
          await changeInSession(deps, plan, session, { wallet, isAsked, from, shown: asOf }),
        );
      const [opening, standing] = await Promise.all([
        openingTransaction(deps, plan, wallet),
        readStanding(deps, plan, wallet, session),
      ]);
      const { subscriptionPda } = opening;
      const { made, ...unsponsored } = await askSponsor(deps, isAsked, {
        ...{ purpose: 'subscribe', wallet, plan, subscriptionPda, session, address: from },
      });
      const response = { subscriptionPda, change: null };
      // The sponsor pays the SOL, so the response has no warning about missing SOL.
      if (made !== undefined)
        return ok({ ...made, ...response, warnings: shortagesOf(standing).filter(isNotSol) });
      const trialHours = standing.trialHours ?? 0;
      const target = { wallet, planId: plan.id, session, walletSends, trialHours };
      const offer = await offerOpening(deps, opening, target);
      return ok({
        ...offer,
        ...paidByWallet(unsponsored),
        ...response,
        warnings: shortagesOf(standing),
      });
    },
  );
}

/** Stores the offer. Reserves the session's customer if the wallet sends the transaction itself. */
async function offerOpening(
  parts: Pick<ApiDeps, 'sql' | 'chain'>,
  opening: Opening,
  {
    wallet,
    planId,
    session,
    walletSends,
    trialHours,
  }: {
    wallet: string;
    planId: string;
    session: CheckoutSessionRow | undefined;
    walletSends: boolean;
    trialHours: number;
  },
): Promise<Offer> {
  const { subscriptionPda, resumes, cancels, blockHeight } = opening;
  const purpose = 'subscribe';
  const effects = { purpose, resumes, cancels } as const;
  const target = { wallet, planId, subscriptionPda, ...effects, trialHours };
  const reservations = await readReservations(parts, session, subscriptionPda);
  return parts.sql.begin(async (tx) => {
    if (session === undefined) return offerTransaction(tx, opening, target);
    await (walletSends ? reserveCustomer : refuseTaken)(tx, session, reservations);
    const offer = await offerTransaction(tx, opening, { ...target, checkoutSessionId: session.id });
    if (walletSends) await reserveOffer(tx, offer.offerId, lastHeightOfNew(blockHeight));
    return offer;
  });
}

/** Offers the transaction for a checkout session that changes the plan of a subscription. */
async function changeInSession(
  deps: ApiDeps,
  plan: PlanRow,
  session: CheckoutSessionRow,
  {
    wallet,
    isAsked,
    from,
    shown,
  }: {
    wallet: string;
    isAsked: boolean | undefined;
    from: string;
    shown: string | undefined;
  },
) {
  const { sql } = deps;
  const change = await sessionChange(sql, plan, session);
  if (change === undefined) throw absent('subscription');
  const { when, old } = change;
  const [{ opening, amounts }, standing] = await Promise.all([
    changeTransaction(deps, change, deps.planMinimumAmount),
    readStanding(deps, plan, wallet, session),
  ]);
  const { subscriptionPda, resumes, cancels } = opening;
  const { made, ...unsponsored } = await askChange(deps, isAsked, change, { opening, from, shown });
  if (made !== undefined) {
    const { transaction, offerId, minContextSlot, sponsored: pays, notSponsored, ...view } = made;
    const warnings = shortagesOf({ ...standing, usdcNeeded: view.today }).filter(isNotSol);
    const offer = { transaction, offerId, minContextSlot, sponsored: pays, notSponsored };
    return { ...offer, subscriptionPda, warnings, change: view };
  }
  const offer = await offerTransaction(sql, opening, {
    wallet,
    purpose: 'subscribe',
    planId: plan.id,
    subscriptionPda,
    resumes,
    cancels,
    checkoutSessionId: session.id,
    replaces: old.id,
    changeWhen: when,
  });
  const needed = { ...standing, usdcNeeded: amounts.today };
  return {
    ...offer,
    ...paidByWallet(unsponsored),
    subscriptionPda,
    warnings: shortagesOf(needed),
    change: changeView(when, amounts),
  };
}

const isNotSol = ({ code }: Shortage) => code !== 'sol_missing';
