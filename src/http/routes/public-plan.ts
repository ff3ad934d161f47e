import { Type } from '@sinclair/typebox';
import { findPublicPlan, type PublicPlanRow } from '../../db/subscriptions/plans.ts';
import type { SessionTerms } from '../../domain/registration/first-payment.ts';
import { absent, type Api, type ApiDeps, idOf } from '../door/context.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Amount, Id, nullable, oneOf, PathId, Pda, Time, Wallet } from '../shapes/fields.ts';
import { logoUrlOf } from '../shapes/logo-url.ts';
import { Schedule, scheduleView } from '../shapes/schedule.ts';
import { ownSubscription } from './subscriber.ts';

const text = (description: string) => Type.String({ description });
export const PublicPlan = Type.Object(
  {
    id: Id,
    appId: Id,
    name: text(
      'The plan’s name. Names of a suspended merchant are `Not available`; its other texts, links and logo are null.',
    ),
    description: nullable(text('The plan’s description, as its merchant wrote it.')),
    status: oneOf(
      ['pending', 'active', 'sunset', 'ended'],
      'Only an active plan takes subscribers.',
    ),
    amount: Amount,
    periodHours: Type.Integer({ description: 'Length of a period.' }),
    trialHours: nullable(
      Type.Integer({
        description:
          'Free hours of a new subscription, once per wallet and app; in a checkout session those of the session, null where its externalId has had a trial.',
      }),
    ),
    endsAt: nullable(Time),
    schedule: Schedule,
    blocked: Type.Boolean({
      description:
        'Whether the plan takes no subscribers at the moment, because its payments cannot be collected.',
    }),
    planPda: Pda,
    appName: text('The app’s name.'),
    appDescription: nullable(text('The app’s description.')),
    websiteUrl: nullable(text('The app’s website.')),
    websiteProven: Type.Boolean({
      description: 'Whether the website named the app; else it is the merchant’s claim.',
    }),
    supportEmail: nullable(text('Address for support.')),
    supportUrl: nullable(text('Page for support.')),
    termsUrl: nullable(text('Terms.')),
    privacyUrl: nullable(text('Privacy notice.')),
    logoUrl: nullable(text('The app’s logo.')),
    merchantName: nullable(text('The merchant’s name.')),
    merchantWallet: Wallet,
    available: Type.Boolean({
      description:
        'Whether the merchant may take subscribers; false while the operator has suspended it.',
    }),
  },
  { title: 'PublicPlan' },
);

/**
 * The name that replaces the name of an app or a plan for strangers while its merchant is
 * suspended.
 */
export const WITHHELD = 'Not available';

/** Values that replace the texts, links and logo of a suspended merchant for strangers. */
const withheld = {
  name: WITHHELD,
  description: null,
  appName: WITHHELD,
  appDescription: null,
  websiteUrl: null,
  websiteProven: false,
  supportEmail: null,
  supportUrl: null,
  termsUrl: null,
  privacyUrl: null,
  logoVersion: null,
  merchantName: null,
};

/** Returns the plan, without the texts, links and logo of a suspended merchant. */
function forStrangers(plan: PublicPlanRow): PublicPlanRow {
  return plan.available ? plan : { ...plan, ...withheld };
}

/**
 * Returns the public fields of a plan. `session` is the checkout session's discount, `trialHours`
 * the trial that the page offers. `isSubscriber`: the caller has a subscription to the plan, and
 * sees the texts of a suspended merchant too.
 */
export function publicPlanView(
  { publicUrl, planMinimumAmount }: ApiDeps,
  found: PublicPlanRow,
  {
    trialHours,
    session,
    isSubscriber = false,
  }: { trialHours: number | null; session?: SessionTerms; isSubscriber?: boolean },
) {
  const plan = isSubscriber ? found : forStrangers(found);
  return {
    ...plan,
    trialHours,
    schedule: scheduleView({ ...plan, trialHours }, planMinimumAmount, session),
    logoUrl: logoUrlOf(publicUrl, plan.appId, plan.logoVersion),
  };
}

/** Registers the route that reads the public terms of a plan, rate limited per address. */
export function publicPlanRoutes(api: Api, deps: ApiDeps): void {
  api.get(
    '/plans/:planId',
    {
      schema: {
        summary: 'Read the public terms of a plan',
        description: 'For pages that show a plan before a wallet is connected.',
        tags: ['plans'],
        params: Type.Object({ planId: PathId }),
        response: { 200: success(PublicPlan), ...failures(404) },
      },
    },
    async (request) => {
      const plan = await findPublicPlan(deps.sql, idOf(request.params.planId, 'plan'));
      if (plan === undefined) throw absent('plan');
      return ok(publicPlanView(deps, plan, { trialHours: plan.trialHours }));
    },
  );
}

/**
 * Registers the route by which a subscriber reads the plan of a subscription, also while the
 * merchant is suspended.
 */
export function subscribedPlanRoutes(api: Api, deps: ApiDeps): void {
  api.get(
    '/subscriptions/:subscriptionId/plan',
    {
      schema: {
        summary: 'Read the plan of your subscription',
        description: 'As its public terms, also while the merchant is suspended.',
        tags: ['subscriber'],
        security: [{ walletJwt: [] }],
        params: Type.Object({ subscriptionId: PathId }),
        response: { 200: success(PublicPlan), ...failures(401, 403, 404) },
      },
    },
    async (request) => {
      const { planId } = await ownSubscription(deps, request);
      const plan = await findPublicPlan(deps.sql, planId);
      if (plan === undefined) throw absent('plan');
      const { trialHours, available } = plan;
      const view = publicPlanView(deps, plan, { trialHours, isSubscriber: true });
      // The service cannot tell whether a request for a logo comes from a subscriber.
      return ok(available ? view : { ...view, logoUrl: null });
    },
  );
}
