import { Type } from '@sinclair/typebox';
import { findPublicPlan, type PublicPlanRow } from '../../db/plans.ts';
import type { SessionTerms } from '../../domain/subscribing/first-payment.ts';
import { absent, type Api, type ApiDeps, idOf } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import { Amount, Id, nullable, oneOf, PathId, Pda, Time, Wallet } from '../fields.ts';
import { logoUrlOf } from '../logo-url.ts';
import { Schedule, scheduleView } from '../schedule.ts';

const text = (description: string) => Type.String({ description });
export const PublicPlan = Type.Object(
  {
    id: Id,
    appId: Id,
    name: text('The plan’s name, as its merchant wrote it.'),
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
 * Returns the public fields of a plan. `session` is the checkout session's discount, `trialHours`
 * the trial that the page offers.
 */
export function publicPlanView(
  { publicUrl, planMinimumAmount }: ApiDeps,
  plan: PublicPlanRow,
  { trialHours, session }: { trialHours: number | null; session?: SessionTerms },
) {
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
      return ok(publicPlanView(deps, plan, plan));
    },
  );
}
