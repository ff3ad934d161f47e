// What the keeper writes of a subscription.
import type { CancelRequester } from './merchant-edits.ts';
import type { SubscriptionStatus } from './subscriptions.ts';

/** The columns that the keeper writes. All times are chain time. */
export interface SubscriptionState {
  status: SubscriptionStatus;
  paidThrough: Date | null;
  nextPaymentDue: Date | null;
  /** The next_payment_due that was announced by the last renewal_upcoming event. */
  announcedDue: Date | null;
  /** Number of notices sent so far about the payment due at announcedDue. */
  announcedNotices: number;
  cancelRequestedAt: Date | null;
  cancelRequestedBy: CancelRequester | null;
  cancelledAt: Date | null;
  pastDueSince: Date | null;
  failedAttempts: number;
  delegationRevokedAt: Date | null;
  endReason: string | null;
  dueAt: Date | null;
  periodAnchor: Date | null;
  /** Identity of the account from which a live registration collects. Null if it was not read. */
  chainInitId: bigint | null;
  chainPeriodStart: Date | null;
  /** The newest slot at which any registration's account was read. Older states are ignored. */
  observedSlot: bigint;
  /** Base units of all pulls that the keeper knows for the period that ends at paidThrough. */
  periodPulled: bigint;
  /**
   * End of a paid period that gives no access, because the period's payment was refunded or turned
   * into credit before the wallet resumed. Null when there is no such period.
   */
  refundedThrough: Date | null;
  setbacks: number;
  /** Look-ups that did not find every payment that the on-chain account counts. */
  failedLookups: number;
  /**
   * Number of consecutive transactions that failed because of another subscription's payment. One
   * transaction can contain payments of several subscriptions.
   */
  failedPacks: number;
  /** Start of the period of the last payment that failed on chain because of the subscriber. */
  chainFailurePeriod: Date | null;
  /**
   * Number of early attempts to pay the period that starts at chainFailurePeriod. An early attempt
   * is made before the scheduled retry, because the wallet was topped up.
   */
  earlyTries: number;
  /** Latest time of a registration, a resume, the end of a pause or a late first try. */
  billedFrom: Date | null;
  /**
   * False when nothing can be pulled any more for an ended subscription: its account is gone,
   * expired or registered anew, or its plan is gone. Until then the sweep reads the account.
   */
  pullable: boolean;
  /**
   * End of the last period in which another puller pulled after the end. Null while no keeper has
   * read the account since the end.
   */
  pulledThrough: Date | null;
}

/**
 * The types of the columns that the keeper writes, and of refundedThrough, which credit notes tell
 * (db/invoices/notes.ts).
 */
export const stateTypes: Readonly<Record<keyof SubscriptionState, string>> = {
  ...{ status: 'text', paidThrough: 'timestamptz', nextPaymentDue: 'timestamptz' },
  ...{ announcedDue: 'timestamptz', announcedNotices: 'int', cancelRequestedAt: 'timestamptz' },
  ...{ cancelRequestedBy: 'text', cancelledAt: 'timestamptz', pastDueSince: 'timestamptz' },
  ...{ failedAttempts: 'int', delegationRevokedAt: 'timestamptz', endReason: 'text' },
  ...{ dueAt: 'timestamptz', periodAnchor: 'timestamptz', chainInitId: 'int8' },
  ...{ chainPeriodStart: 'timestamptz', observedSlot: 'int8', setbacks: 'int' },
  ...{ failedLookups: 'int', failedPacks: 'int', chainFailurePeriod: 'timestamptz' },
  ...{ earlyTries: 'int', periodPulled: 'int8' },
  ...{ refundedThrough: 'timestamptz', billedFrom: 'timestamptz' },
  ...{ pullable: 'bool', pulledThrough: 'timestamptz' },
};

/** The state of a row that was read. */
export const stateOf = (row: SubscriptionState): SubscriptionState =>
  Object.fromEntries(
    (Object.keys(stateTypes) as (keyof SubscriptionState)[]).map((field) => [field, row[field]]),
  ) as unknown as SubscriptionState;
