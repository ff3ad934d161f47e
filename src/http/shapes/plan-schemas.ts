// Schemas of plans: the view that the API returns and the input of a merchant.
import { Type, type Static } from '@sinclair/typebox';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import type { OwnTerms, PlanDraft } from '../../domain/plans/plans.ts';
import type { PriceWarning } from '../../domain/plans/price-warnings.ts';
import { blockReasons } from '../../domain/reasons.ts';
import { type Fault, invalidField, ServiceError } from '../../errors.ts';
import { amountDisplay } from '../../format.ts';
import {
  Amount,
  AmountInput,
  Id,
  meaning,
  Name,
  NameInput,
  nullable,
  oneOf,
  Pda,
  Time,
  TimeInput,
  Offer,
  Wallet,
} from './fields.ts';

const hours = { minimum: 1, maximum: 8760, examples: [730] };
const periodHours = Type.Integer({ ...hours, description: 'Length of a period.' });
const metadataUri = Type.String({
  format: 'metadata-uri',
  description: 'At most 128 bytes; stored on chain.',
  examples: ['https://coffee.example/plan.json'],
});

const description = Type.String({
  format: 'text',
  minLength: 1,
  description: 'Shown on the plan’s page instead of the app’s description.',
  examples: ['A bag of beans every month.'],
});
const graceHours = Type.Integer({
  minimum: 0,
  maximum: 72,
  description:
    'Hours of access after paidThrough while a payment is due. null: a tenth of the period, at most 72.',
});
const retryHours = Type.Array(Type.Integer({ minimum: 1, maximum: 2160 }), {
  minItems: 1,
  maxItems: 10,
  uniqueItems: true,
  description:
    'Hours after the first failure at which the payment is retried, ascending. null: 1, 6, 24, 72, 120.',
  examples: [[1, 12, 48]],
});
const noticeHours = Type.Array(Type.Integer({ minimum: 1, maximum: 2160 }), {
  minItems: 1,
  maxItems: 3,
  uniqueItems: true,
  description:
    'Hours before a payment, or the end of a trial, at which renewal_upcoming is sent, one event for each, descending. null: once, a quarter of the period, at most 72.',
  examples: [[720, 72]],
});
const pastDueDays = Type.Integer({
  minimum: 1,
  maximum: 90,
  description:
    'Days from the first failure of a payment until the unpaid subscription expires. null: the setting of the operator (default 7).',
});
export const TrialHours = Type.Integer({
  minimum: 1,
  maximum: 8760,
  description:
    'Free hours of a new subscription, once per wallet and app, and per externalId that a session or the merchant set. null: no trial.',
  examples: [168],
});
/** Terms that are not on chain. A merchant can change them at any time. */
export const ownTerms = {
  description: Type.Optional(nullable(description)),
  graceHours: Type.Optional(nullable(graceHours)),
  retryHours: Type.Optional(nullable(retryHours)),
  noticeHours: Type.Optional(nullable(noticeHours)),
  pastDueDays: Type.Optional(nullable(pastDueDays)),
  trialHours: Type.Optional(nullable(TrialHours)),
};

const planFields = {
  id: Id,
  appId: Id,
  name: Name,
  description: nullable(description),
  status: oneOf(
    ['pending', 'active', 'sunset', 'ended'],
    'pending: not seen on chain yet. sunset: takes no new registrations.',
  ),
  planPda: Pda,
  mint: Wallet,
  amount: Amount,
  amountDisplay: Type.String({
    description: 'The amount in human-readable form.',
    examples: ['10.00 USDC'],
  }),
  periodHours,
  endsAt: nullable(Time),
  metadataUri: Type.String({ description: 'As stored on chain; empty if there is none.' }),
  graceHours: nullable(graceHours),
  retryHours: nullable(retryHours),
  noticeHours: nullable(noticeHours),
  pastDueDays: nullable(pastDueDays),
  collectionBlockedReason: nullable(
    meaning(
      blockReasons,
      'Why no payment of the plan can be collected; null while they can. It is looked at again every five minutes.',
      'CollectionBlockedReason',
    ),
  ),
  trialHours: nullable(TrialHours),
  createdAt: Time,
  updatedAt: Time,
};
export const Plan = Type.Object(planFields, { title: 'Plan' });
const priceCodes = {
  amount_far_below: 'Per hour it costs a tenth of the app’s cheapest other plan, or less.',
  amount_far_above: 'Per hour it costs ten times the app’s dearest other plan, or more.',
} as const satisfies Record<PriceWarning['code'], string>;
const ownFields = {
  ...planFields,
  warnings: Type.Array(
    Type.Object(
      {
        code: meaning(priceCodes, 'Machine-readable.'),
        message: Type.String({ description: 'Human-readable; may change.' }),
      },
      { title: 'PlanWarning' },
    ),
    {
      description: 'Likely misplaced decimal points. The plan is valid regardless.',
      examples: [[]],
    },
  ),
};
/** A plan as its merchant sees it. */
export const OwnPlan = Type.Object(ownFields, { title: 'OwnPlan' });
export const NewPlan = Type.Object(
  { ...ownFields, ...Type.Partial(Offer).properties },
  { title: 'NewPlan' },
);
export function planView(row: PlanRow): PlanRow & { amountDisplay: string } {
  return { ...row, amountDisplay: amountDisplay(row.amount) };
}

export const PlanInput = Type.Object(
  {
    name: NameInput,
    amount: Type.Optional(AmountInput),
    periodHours: Type.Optional(periodHours),
    endsAt: Type.Optional(nullable(TimeInput)),
    metadataUri: Type.Optional(metadataUri),
    planPda: Type.Optional({
      ...Pda,
      description:
        'Address of a plan that already is on chain; amount, periodHours, endsAt and metadataUri are then read from it.',
    }),
    ...ownTerms,
  },
  {
    additionalProperties: false,
    examples: [{ name: 'Coffee club', amount: '10000000', periodHours: 730 }],
  },
);
/**
 * The body has either the terms of a new plan or the address of a plan on chain. Throws
 * VALIDATION_ERROR when the body has both or neither.
 */
export function refuseMixture(body: Static<typeof PlanInput>): void {
  const terms = ['amount', 'periodHours', 'endsAt', 'metadataUri'] as const;
  const faults: Fault[] =
    body.planPda === undefined
      ? (['amount', 'periodHours'] as const)
          .filter((path) => body[path] === undefined)
          .map((path) => ({
            path,
            message: 'is required, unless planPda names a plan that is on chain',
          }))
      : terms
          .filter((path) => body[path] !== undefined)
          .map((path) => ({ path, message: 'must be left out with planPda: it is read on chain' }));
  const [first] = faults;
  if (first !== undefined)
    throw new ServiceError('VALIDATION_ERROR', `${first.path} ${first.message}.`, faults);
}

/** Throws VALIDATION_ERROR when `amount` is below the operator's minimum. */
export function refuseSmall(path: string, amount: bigint, minimum: bigint): void {
  if (amount >= minimum) return;
  throw invalidField(path, `must collect at least ${minimum} base units per period`);
}

/**
 * Returns the off-chain terms of the input. A missing term becomes null, which means its default.
 */
export function ownTermsOf(body: Static<typeof PlanInput>): OwnTerms {
  const { graceHours: grace = null, retryHours: retries = null, pastDueDays: days = null } = body;
  const { trialHours: trial = null, noticeHours: notices = null } = body;
  const { description: about = null } = body;
  const inputFields = {
    description: about,
    graceHours: grace,
    retryHours: retries,
    noticeHours: notices,
  };
  return { ...inputFields, pastDueDays: days, trialHours: trial };
}

/** Throws VALIDATION_ERROR unless retryHours ascend and noticeHours descend. */
export function refuseUnordered({
  retryHours: delays,
  noticeHours: notices,
}: {
  retryHours?: readonly number[] | null | undefined;
  noticeHours?: readonly number[] | null | undefined;
}): void {
  const ascends = (hours: readonly number[]) =>
    hours.every((one, index) => index === 0 || one > (hours[index - 1] ?? 0));
  if (!ascends(delays ?? [])) throw invalidField('retryHours', 'must ascend');
  if (!ascends((notices ?? []).toReversed())) throw invalidField('noticeHours', 'must descend');
}

export function draftOf(body: Static<typeof PlanInput>): PlanDraft {
  const {
    name,
    amount = '0',
    periodHours: length = 0,
    endsAt = null,
    metadataUri: uri = '',
  } = body;
  return {
    ...ownTermsOf(body),
    name,
    amount: BigInt(amount),
    periodHours: length,
    endsAt: endsAt === null ? null : new Date(endsAt),
    metadataUri: uri,
  };
}
