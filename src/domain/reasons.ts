// Reason codes in the API and in events, each with its meaning. The API's schemas and a table in
// docs/merchants.md are generated from these codes.
import type { OursReason, SubscriberReason } from '../chain/program/errors.ts';

/** `failureReason` of a failed payment. The subscriber has to remove the cause. */
export const failureReasons = {
  insufficient_funds: 'The wallet holds less USDC than the payment takes.',
  allowance_exhausted: 'The wallet’s approval covers less than the payment.',
  account_frozen: 'The wallet’s USDC account is frozen by the issuer.',
  account_closed: 'The wallet has no USDC account any more; its approval ended with it.',
  account_owner_changed: 'The USDC account belongs to another wallet now.',
  delegate_replaced: 'The wallet approved another program, or revoked its approval.',
  authority_closed: 'The wallet closed the account that authorizes payments.',
  authority_replaced:
    'The wallet closed the account that authorizes payments and opened a new one: it has to subscribe again.',
} as const satisfies Record<SubscriberReason, string>;

/** `reason` of a delegation_revoked event. */
export const revocationReasons = {
  delegate_replaced: failureReasons.delegate_replaced,
  authority_closed: failureReasons.authority_closed,
  authority_replaced: failureReasons.authority_replaced,
} as const;

/** `issue` of a renewal_upcoming event: why the wallet could not pay now. */
export const renewalIssues = {
  insufficient_balance: failureReasons.insufficient_funds,
  approval_missing:
    'The wallet revoked its approval, or the approval covers less than the payment.',
  account_frozen: failureReasons.account_frozen,
  account_closed: failureReasons.account_closed,
  account_owner_changed: failureReasons.account_owner_changed,
} as const;

/**
 * `endReason` of a subscription. Null while the subscription has not ended. Also null if the
 * subscription was cancelled and then ended with its paid time.
 */
export const endReasons = {
  past_due: 'The payment failed until the plan’s limit for unpaid subscriptions.',
  forced: 'The merchant ended it immediately.',
  plan_ended: 'The plan has reached its end time.',
  plan_closed: 'The plan was closed on chain.',
  plan_recreated: 'The plan was closed on chain and created again with other terms.',
  replaced: 'Another subscription replaced it in a change of plan (replacedBy).',
  resubscribed: 'The wallet closed it and subscribed again: the new registration replaces it.',
} as const;

/**
 * `collectionBlockedReason` of a plan. No payment of the plan can be collected until the merchant
 * or the operator removes the cause.
 */
export const blockReasons = {
  not_a_puller: 'The plan no longer names the keeper of the service as a puller.',
  destination_refused:
    'The plan does not name your wallet as a destination, or your USDC account belongs to another wallet now.',
  receiver_account_missing: 'Your wallet has no USDC account any more.',
  receiver_frozen: 'Your USDC account is frozen by the issuer.',
  wrong_program_or_mint: 'The plan collects another token.',
} as const satisfies Partial<Record<OursReason, string>>;

export type BlockReason = keyof typeof blockReasons;

/** `state` of an invoice. */
export const invoiceStates = {
  open: 'It is due, and is collected from its dueAt on.',
  paid: 'A payment or credit paid it, or there was nothing to pay.',
  void: 'It is not collected: voidReason says why.',
  uncollectible: 'It failed until its period or its retries were over. It is never charged later.',
} as const;

/** `reason` of an invoice. */
export const invoiceReasons = {
  period: 'It is for a period.',
  foreign: 'Another puller of the plan collected in a paid period. It pays for no time.',
} as const;

/** `voidReason` of an invoice. */
export const voidReasons = {
  forgiven: 'The merchant forgave it. Its time counts as covered.',
  replaced: 'Another invoice took its place, for example after a change of the discount.',
  ended: 'The subscription ended, was paused, or changed its plan before it was paid.',
} as const;

/** `kind` of an invoice's line. */
export const lineKinds = {
  plan: 'The amount of the plan, or the part of it for the time that is charged.',
  discount: 'What a discount takes off.',
  adjustment: 'What is not charged, or was collected beyond the price: source says why.',
} as const;

/** `source` of an adjustment line. */
export const adjustmentSources = {
  minimum: 'A part of a period below the minimum amount of a plan is not collected.',
  room: 'The program on chain allows no more in this period.',
  pull: 'A payment that was found on chain moved another amount.',
} as const;

/** `reason` of a change of a customer's credit. */
export const creditReasons = {
  granted: 'The merchant granted it.',
  taken_back: 'The merchant took it back.',
  change_of_plan: 'The unused part of what was paid to a replaced subscription.',
  unmatched_pull: 'A payment that was found pays no invoice.',
} as const;

/** `reason` of a movement of a customer's credit. Events tell of those in creditReasons alone. */
export const movementReasons = {
  ...creditReasons,
  spent: 'An invoice takes it when it is drawn up.',
  reversed: 'An invoice gives it back that is closed without a payment.',
} as const;

/** `cancelRequestedBy` of a subscription. */
export const cancelRequesters = {
  subscriber: 'The wallet cancelled.',
  merchant: 'The merchant cancelled in the API or in the dashboard.',
} as const;
