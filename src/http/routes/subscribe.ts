import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { isWithheld } from '../../db/accounts/suspensions.ts';
import type { CheckoutSessionRow } from '../../db/subscriptions/checkout-sessions.ts';
import { findPlan, type PlanRow } from '../../db/subscriptions/plans.ts';
import { refuseSuspended } from '../../domain/accounts/suspended.ts';
import { readChangeOpening, sessionChange } from '../../domain/change/change.ts';
import { offerOpening } from '../../domain/offers/subscribe.ts';
import { observePlan } from '../../domain/plans/plans.ts';
import { openCheckoutSession } from '../../domain/registration/checkout.ts';
import { readOpening } from '../../domain/registration/opening.ts';
import { readStanding, type Shortage, shortagesOf } from '../../domain/standing/standing.ts';
import { addressSubject } from '../door/addresses.ts';
import { assertReaches } from '../door/bound.ts';
import { absent, type Api, type ApiDeps, idOf, subscriberOf } from '../door/context.ts';
import { ChangePreview } from '../shapes/change-schemas.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Amount, Id, meaning, nullable, PathId, Pda, offerFields } from '../shapes/fields.ts';
import { Plan, planView } from '../shapes/plan-schemas.ts';
import {
  askSponsor,
  offerChange,
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
      const options = request.body ?? {};
      const { checkoutSessionId, walletSends = false } = options;
      const { sponsored: isAsked, asOf } = options;
      const from = addressSubject(request.ip);
      const parties = { planId: plan.id, wallet };
      await refuseSuspended(sql, parties);
      const session = await openCheckoutSession(sql, checkoutSessionId, parties);
      if (session !== undefined && session.replaces !== null)
        return ok(
          await changeInSession(deps, plan, session, { wallet, isAsked, from, shown: asOf }),
        );
      const [opening, standing] = await Promise.all([
        readOpening(deps, plan, wallet),
        readStanding(deps, plan, wallet, session),
      ]);
      const { made, ...unsponsored } = await askSponsor(deps, isAsked, {
        ...{ purpose: 'subscribe', wallet, plan, session, address: from },
      });
      const response = { subscriptionPda: opening.subscriptionPda, change: null };
      // The sponsor pays the SOL, so the response has no warning about missing SOL.
      if (made !== undefined)
        return ok({ ...made, ...response, warnings: shortagesOf(standing).filter(isNotSol) });
      const terms = { session, walletSends, trialHours: standing.trialHours ?? 0 };
      const offer = await offerOpening(deps, opening, terms);
      return ok({
        ...offer,
        ...paidByWallet(unsponsored),
        ...response,
        warnings: shortagesOf(standing),
      });
    },
  );
}

/** Offers the transaction for a checkout session that changes the plan of a subscription. */
async function changeInSession(
  deps: ApiDeps,
  plan: PlanRow,
  session: CheckoutSessionRow,
  {
    wallet,
    isAsked,
    ...asked
  }: {
    wallet: string;
    isAsked: boolean | undefined;
    from: string;
    shown: string | undefined;
  },
) {
  const request = await sessionChange(deps.sql, plan, session);
  if (request === undefined) throw absent('subscription');
  const [opening, standing] = await Promise.all([
    readChangeOpening(deps, request),
    readStanding(deps, plan, wallet, session),
  ]);
  const { offer, costs: change } = await offerChange(deps, isAsked, request, { opening, ...asked });
  const all = shortagesOf({ ...standing, usdcNeeded: change.today });
  const warnings = offer.sponsored ? all.filter(isNotSol) : all;
  return { ...offer, subscriptionPda: opening.subscriptionPda, warnings, change };
}

const isNotSol = ({ code }: Shortage) => code !== 'sol_missing';
