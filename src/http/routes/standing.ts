import { Type } from '@sinclair/typebox';
import { isSignupOpen } from '../../db/offers/sponsorships.ts';
import { findPlan } from '../../db/subscriptions/plans.ts';
import { findLiveRegistration } from '../../db/subscriptions/subscriptions.ts';
import { sessionChange } from '../../domain/change/change.ts';
import { observePlan } from '../../domain/plans/plans.ts';
import { blockReasons } from '../../domain/reasons.ts';
import { checkoutSessionOf } from '../../domain/registration/checkout.ts';
import { readStanding } from '../../domain/standing/standing.ts';
import { assertReaches } from '../door/bound.ts';
import { absent, type Api, type ApiDeps, idOf, subscriberOf } from '../door/context.ts';
import { ChangePreview, changeView } from '../shapes/change-schemas.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import {
  Amount,
  Id,
  meaning,
  nullable,
  oneOf,
  PathId,
  Pda,
  replacedApproval,
  Time,
  Wallet,
} from '../shapes/fields.ts';
import { Schedule, scheduleView } from '../shapes/schedule.ts';
import { previewChange, previewsSponsored } from '../shapes/sponsored-schemas.ts';

const Lamports = Type.Unsafe<bigint>({
  type: 'string',
  pattern: '^(0|[1-9][0-9]*)$',
  description: 'Lamports (9 decimals of SOL) as a string.',
  examples: ['2039280'],
});

const Standing = Type.Object(
  {
    subscriptionPda: Pda,
    subscriptionId: nullable({
      ...Id,
      description: 'The live subscription registered for that address.',
    }),
    onChain: oneOf(
      ['none', 'live', 'cancelled', 'ended'],
      'The subscription’s account. cancelled: it runs until endsAt and can be resumed.',
    ),
    endsAt: nullable(Time),
    signingUp: Type.Boolean({
      description:
        'Whether a sponsored transaction that opens the subscription is under way: the service registers it.',
    }),
    rentPayer: nullable({
      ...Wallet,
      description:
        'The wallet that paid the rent of the account and gets it back when it is closed; null without an account.',
    }),
    approval: oneOf(
      ['none', 'given', 'missing', 'replaced'],
      'Of an open subscription. missing: approving again repairs it. replaced: cancel it and subscribe again.',
    ),
    endedByMerchant: Type.Boolean({
      description:
        'Whether the merchant ended the subscription of the running account by force: the wallet cannot subscribe until the merchant reinstates it.',
    }),
    replaces: replacedApproval,
    planOpen: Type.Boolean({
      description:
        'Whether the plan accepts subscribers at the moment: on chain, and because its payments can be collected.',
    }),
    planBlocked: nullable(
      meaning(blockReasons, 'Why payments of the plan cannot be collected; null while they can.'),
    ),
    frozen: Type.Boolean({
      description:
        'Whether the issuer of USDC has frozen the wallet’s token account: it can neither pay nor subscribe.',
    }),
    hasUsdcAccount: Type.Boolean({
      description:
        'Whether the wallet has a USDC account. Closing it ends the approval too; "repair" opens and approves it again.',
    }),
    usdc: { ...Amount, description: 'The wallet’s USDC, base units.' },
    usdcNeeded: {
      ...Amount,
      description:
        'Amount due on subscribing, base units: the first payment, 0 with a trial. Of a live account without a subscription: the amount due on registering it.',
    },
    trialHours: nullable(
      Type.Integer({
        description: 'Trial hours that the wallet would get; null: none, or already used.',
      }),
    ),
    schedule: Schedule,
    change: nullable({
      ...ChangePreview,
      title: 'SessionChange',
      description: 'What the change of plan costs that the session makes; null without one.',
    }),
    lamports: Lamports,
    lamportsNeeded: {
      ...Lamports,
      description:
        'Rent of the missing accounts, the network fee and the minimum balance, together.',
    },
  },
  { title: 'Standing' },
);

/** Registers the route that reads the on-chain state of the caller's wallet for a plan. */
export function standingRoutes(api: Api, deps: ApiDeps): void {
  const { sql, chain, network } = deps;
  api.get(
    '/plans/:planId/standing',
    {
      schema: {
        summary: 'Read the balances and the subscription of your wallet for a plan',
        description:
          'Balances, the amounts that subscribing needs, and whether the wallet is subscribed, read from the chain.',
        tags: ['subscriber'],
        security: [{ walletJwt: [] }],
        params: Type.Object({ planId: PathId }),
        querystring: Type.Object(
          {
            checkoutSessionId: Type.Optional({
              ...Id,
              description:
                'The checkout session in which the wallet would subscribe; its discount is included in usdcNeeded, its trial in trialHours.',
            }),
            sponsored: Type.Optional(previewsSponsored),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(Standing), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const found = await findPlan(sql, idOf(request.params.planId, 'plan'));
      if (found === undefined) throw absent('plan');
      await assertReaches(deps, request, found.appId);
      const plan = await observePlan(sql, chain, network, found);
      const { wallet } = subscriberOf(request);
      const { checkoutSessionId, sponsored: isSponsored } = request.query;
      const session =
        checkoutSessionId === undefined
          ? undefined
          : await checkoutSessionOf(sql, checkoutSessionId, found.id);
      const read = await readStanding(deps, plan, wallet, session);
      const { running, credit, startsAt, terms: live, ...standing } = read;
      // Sign-ups are read before registrations. If a sign-up ends between the two reads, the second
      // read finds the new registration. In the opposite order, both reads could find nothing.
      const signingUp = await isSignupOpen(sql, standing.subscriptionPda);
      const subscriptionId = await findLiveRegistration(sql, standing.subscriptionPda);
      const change = session === undefined ? undefined : await sessionChange(sql, plan, session);
      // While a sponsored change is under way, its costs are fixed and are not computed again. If
      // the account is live, the change has landed, and `live` has the amount that its registration
      // charges.
      const isOpen = change?.old.replacedBy === null && live === null;
      if (change !== undefined && isOpen && !signingUp) {
        const amounts = await previewChange(deps, change, isSponsored);
        const { today: usdcNeeded } = amounts;
        const view = changeView(change.when, amounts);
        const { schedule } = view;
        const walletTerms = { signingUp, usdcNeeded, trialHours: null, schedule, change: view };
        return ok({ ...standing, ...walletTerms, subscriptionId: subscriptionId ?? null });
      }
      const { trialHours } = standing;
      const terms = { ...plan, trialHours };
      const begun = { running, credit, startsAt };
      const schedule = scheduleView(terms, deps.planMinimumAmount, live ?? session, begun);
      const walletTerms = { signingUp, schedule, change: null };
      return ok({ ...standing, ...walletTerms, subscriptionId: subscriptionId ?? null });
    },
  );
}
