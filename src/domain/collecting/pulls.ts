// Records on-chain payments (pulls) that the database lacks.
import type { SubscriptionAccount, SubscriptionTerms } from '../../chain/program/layouts.ts';
import { periodSeconds, pullPeriod, type PullPeriod } from '../../chain/program/period.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { Invoice } from '../../db/invoices/invoices.ts';
import { readPulled } from '../../db/money/payments.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import { attemptInvoice } from '../invoices/allocate.ts';
import type { ChainView, Pull } from './chain-view.ts';
import { applyAfterEnd, applyCover, applyFurther, applyPayment, applyUnmatched } from './paying.ts';
import { isLive, type SubscriptionUpdate } from './transitions.ts';

/**
 * An on-chain payment, and what the database has recorded about the payment and its period
 * (books.ts).
 */
export interface KnownPull extends Pull {
  /**
   * Whether this payment is recorded, by this or an earlier registration of the same on-chain
   * subscription.
   */
  readonly recorded: boolean;
  /** Whether a recorded payment (this payment or another) has paid the period. */
  readonly isPeriodPaid: boolean;
  /** Whether this recorded payment was refunded in full. Set only by findInBooks(). */
  readonly isRefunded?: boolean;
  /** Whether a change of plan has taken the unused part of the period's payment as a credit. */
  readonly isCredited?: boolean;
  /** The invoice of its period, of any registration of the account. */
  readonly billed?: Invoice;
  /**
   * Time at which this service committed its attempt of the payment; null if there is no attempt.
   * Undefined if the time does not matter, because the attempt's end records the payment.
   */
  readonly committedAt?: Date | null;
}

/**
 * Number of failed look-ups after which the keeper stops looking for a finalized payment that no
 * RPC history shows. The payment then no longer delays other payments. With the backoff
 * (keeper-backoff.ts), this is about 36 minutes after the first failure.
 */
const MAX_FAILED_LOOKUPS = 8;

/** Whether the keeper has stopped looking for a finalized payment that no RPC history shows. */
export const isGivenUp = ({ failedLookups }: KeeperSubscription) =>
  failedLookups >= MAX_FAILED_LOOKUPS;

/**
 * What is known about the on-chain payments of a subscription, from the database and the account's
 * transaction history.
 */
export type PullLookup =
  /** The on-chain payments have not been looked up yet. */
  | { readonly kind: 'needed' }
  /**
   * The account was closed, and the closing is not finalized. The last payments before the closing
   * may not be finalized either, so they cannot be read yet.
   */
  | { readonly kind: 'not_final' }
  /**
   * The transaction history is too long to read, and the keeper has not given up yet (isGivenUp).
   */
  | { readonly kind: 'too_long' }
  | {
      readonly kind: 'known';
      readonly pulls: readonly KnownPull[];
      /** Whether the history is whole, and all of its transactions could be read. */
      readonly isComplete: boolean;
      /** Whether all payments in the account's `amountPulled` are finalized or recorded. */
      readonly isFinal: boolean;
    };

/** The on-chain payments that were looked up. */
type KnownPulls = Extract<PullLookup, { kind: 'known' }>;

/**
 * Derives what is known about the subscription's on-chain payments from the results of look-ups. If
 * a history is too long to read and the keeper has stopped reading it (isGivenUp), the history
 * counts as empty. Otherwise anyone could delay a subscription's payments by making its history
 * long.
 */
export function pullLookup(row: KeeperSubscription, result: LookupResult): PullLookup {
  const { pulls, tooMany, unreadable, pulledFinally, closingNotFinal } = result;
  if (closingNotFinal === true) return { kind: 'not_final' };
  if (tooMany === true && !isGivenUp(row)) return { kind: 'too_long' };
  const knownPulls = tooMany === true ? [] : pulls;
  if (knownPulls === undefined) return { kind: 'needed' };
  const [isComplete, isFinal] = [unreadable !== true, pulledFinally === true];
  return { kind: 'known', pulls: knownPulls, isComplete, isFinal };
}

/**
 * End of the last period whose pulls are recorded. If other pullers pull after the subscription's
 * end, their pulls are recorded, but paidThrough stays unchanged.
 */
export function bookedThrough({
  paidThrough,
  pulledThrough,
}: Pick<KeeperSubscription, 'paidThrough' | 'pulledThrough'>): Date | null {
  if (paidThrough === null || pulledThrough === null) return paidThrough ?? pulledThrough;
  return pulledThrough > paidThrough ? pulledThrough : paidThrough;
}

/**
 * Returns whether the on-chain account counts a payment that is not recorded: the database has no
 * payment for the account's current period, or payments with a smaller sum.
 */
export function hasUnknownPull(
  state: Pick<KeeperSubscription, 'paidThrough' | 'pulledThrough' | 'periodPulled'>,
  account: SubscriptionTerms,
): boolean {
  if (account.amountPulled === 0n) return false;
  const booked = bookedThrough(state);
  if (booked === null || unixSeconds(booked) <= account.periodStart) return true;
  // If the database has recorded a payment of a later period, the account came from an RPC endpoint
  // that lags behind. The amount in such an account is out of date.
  const paidFor = unixSeconds(booked) - account.periodStart;
  return paidFor <= periodSeconds(account.periodHours) && account.amountPulled > state.periodPulled;
}

/** Returns whether the current period of the on-chain account is paid in the database. */
export function isPaid(
  { paidThrough }: Pick<KeeperSubscription, 'paidThrough'>,
  account: SubscriptionTerms,
): boolean {
  return paidThrough !== null && unixSeconds(paidThrough) > account.periodStart;
}

/**
 * Sorts on-chain payments by period, then by block time. `pulls` begins with the newest payment, as
 * in the chain's history. The reversal puts payments of the same second in order, too.
 */
export const oldestFirst = (pulls: readonly KnownPull[]) =>
  [...pulls].reverse().sort((a, b) => Number(a.periodStart - b.periodStart) || Number(a.at - b.at));

/**
 * Whether a keeper's pull has no attempt that was committed before the registration ended or was
 * replaced. `billing reconcile` reports such a pull, and only its repair records it.
 */
export const isLeftToReconcile = (
  { stoppedAt }: Pick<KeeperSubscription, 'stoppedAt'>,
  { source, committedAt }: Pick<KnownPull, 'source' | 'committedAt'>,
): boolean =>
  source === 'keeper' &&
  stoppedAt !== null &&
  committedAt !== undefined &&
  (committedAt === null || committedAt > stoppedAt);

/**
 * Whether another puller made this payment after the subscription had ended. The first read of the
 * account after the end (pulledThrough is null) counts every payment as made before the end,
 * because the end may have been recorded by the database's clock.
 */
const isAfterEnd = ({ row, state }: SubscriptionUpdate, { source, at }: KnownPull): boolean =>
  source === 'foreign' &&
  !isLive(row) &&
  row.endedAt !== null &&
  at >= unixSeconds(row.endedAt) &&
  state.pulledThrough !== null;

/**
 * Records an on-chain payment of any puller in `update`. The first payment of a period pays the
 * period, whatever its amount. Every other payment of the same period is recorded as `further`. A
 * payment by another puller after the end pays no period. A pull that is left to `billing
 * reconcile` is not recorded. `next` is the due time of the following payment.
 */
export function recordPull(update: SubscriptionUpdate, pull: KnownPull, next: Date | null): void {
  const { paidThrough } = update.state;
  const isCovered = paidThrough !== null && unixSeconds(paidThrough) > pull.periodStart;
  const isPaidHere = update.payments.some(
    ({ status, periodStart }) =>
      status === 'succeeded' && unixSeconds(periodStart) === pull.periodStart,
  );
  const isLeft = !pull.recorded && isLeftToReconcile(update.row, pull);
  if (isLeft || isAfterEnd(update, pull))
    applyAfterEnd(update, pull, pull.isPeriodPaid || isPaidHere);
  else if (!pull.recorded && !pull.isPeriodPaid && isUnmatched(update, pull))
    applyUnmatched(update, pull);
  else if (pull.recorded || pull.isPeriodPaid || isPaidHere) {
    if (!isCovered) applyCover(update, pull, next);
    if (!pull.recorded) applyFurther(update, pull);
  } else applyPayment(update, pull, next);
}

/**
 * Whether no invoice is left that the pull could pay: the invoice of its attempt is closed, or else
 * that of its period. Exceptions: (1) An uncollectible invoice of its attempt, whose credit is
 * still spent, is paid after all. (2) After an invoice that ended with a pause, the pull pays a new
 * one. (3) An invoice of another registration counts only if it covers the period without a
 * payment.
 */
function isUnmatched(update: SubscriptionUpdate, pull: KnownPull): boolean {
  const { row } = update;
  const invoice = attemptInvoice(update, pull);
  if (invoice !== undefined) {
    const { state, isReleased = false } = invoice;
    return state !== 'open' && (state !== 'uncollectible' || isReleased);
  }
  const { billed } = pull;
  if (billed === undefined || billed.state === 'open') return false;
  if (billed.subscriptionId !== row.id) return billed.state === 'paid' && billed.total === 0n;
  return billed.state === 'paid' || !isLive(row) || billed.voidReason !== 'ended';
}

/** Records on-chain payments in `update`, from the oldest period to the newest. */
export function recordPulls(
  update: SubscriptionUpdate,
  { pulls }: Pick<KnownPulls, 'pulls'>,
  account: SubscriptionAccount,
  period: PullPeriod,
): void {
  for (const pull of oldestFirst(pulls))
    recordPull(update, pull, nextAfter(pull.periodStart, account, period));
  const booked = bookedThrough(update.state);
  if (booked === null || unixSeconds(booked) <= account.periodStart) return;
  const found = pulls.reduce(
    (sum, { periodStart, gross }) => (periodStart === account.periodStart ? sum + gross : sum),
    0n,
  );
  if (found > update.state.periodPulled) update.state.periodPulled = found;
}

/**
 * Returns the start of the next collectable period after the period that starts at `periodStart`,
 * or null when no further period can be collected.
 */
export function nextAfter(
  periodStart: bigint,
  account: SubscriptionAccount,
  period: PullPeriod,
): Date | null {
  return periodStart < period.start
    ? timeOf(periodStart + periodSeconds(account.periodHours))
    : startOfNext(period);
}

/**
 * Returns the due time of the payment after `pull`. If the account could not be read, the payment
 * is due at the end of the paid period. A later read of the account corrects this time.
 */
export const nextDueAfter = (
  { periodStart, periodEnd }: Pull,
  account: SubscriptionAccount | null,
  { plan, now }: Pick<ChainView, 'plan' | 'now'>,
): Date | null =>
  account === null
    ? timeOf(periodEnd)
    : nextAfter(periodStart, account, pullPeriod(account, plan, now));

/**
 * Returns the start of the collectable period after `period`, or null when no further period can be
 * collected.
 */
export function startOfNext(period: PullPeriod): Date | null {
  return period.next === null ? null : timeOf(period.next);
}

/**
 * Finds the on-chain payments of newly registered subscriptions in the database, because the RPC
 * history may not reach back far enough. The result contains a subscription only if earlier
 * registrations have recorded the account's full `amountPulled`. The RPC history is then not
 * needed.
 */
export async function findInBooks(
  sql: Sql,
  rows: readonly KeeperSubscription[],
  accountOf: (row: KeeperSubscription) => SubscriptionAccount | null,
): Promise<LookupEntry[]> {
  const accounts = rows.flatMap((row) => {
    const account = accountOf(row);
    return row.paidThrough !== null || account === null
      ? []
      : [{ row, account, periodStart: timeOf(account.periodStart) }];
  });
  if (accounts.length === 0) return [];
  const recorded = await readPulled(
    sql,
    accounts.map(({ row, periodStart }) => ({ subscriptionPda: row.subscriptionPda, periodStart })),
  );
  return accounts.flatMap(({ row, account }): LookupEntry[] => {
    const rowPulls = recorded.filter(
      ({ subscriptionPda }) => subscriptionPda === row.subscriptionPda,
    );
    const pulls = rowPulls.map((one) => ({
      signature: one.txSignature,
      at: unixSeconds(one.occurredAt),
      periodStart: unixSeconds(one.periodStart),
      periodEnd: unixSeconds(one.periodEnd),
      gross: one.amountGross,
      fee: one.platformFee,
      net: one.amountNet,
      source: one.source,
      recorded: true,
      isPeriodPaid: true,
      isRefunded: one.isRefunded,
      isCredited: one.isCredited,
    }));
    const isAll = pulls.reduce((sum, { gross }) => sum + gross, 0n) === account.amountPulled;
    return isAll ? [[row.id, { pulls, pulledFinally: true }]] : [];
  });
}

/** The results of slow RPC look-ups that an earlier decision asked for. */
export interface LookupResult {
  /** On-chain payments of the subscription, some of which may not be recorded. */
  readonly pulls?: readonly KnownPull[];
  /**
   * True if the account's transaction history is too long to read. The account's payments are then
   * unknown.
   */
  readonly tooMany?: true;
  /**
   * True if some transactions of the account cannot be read, or if the history lacks the closing of
   * an account that is gone. A payment may then be missing in `pulls`.
   */
  readonly unreadable?: true;
  /**
   * True if every payment that the account's `amountPulled` counts is finalized or recorded. An RPC
   * history that still lacks such a payment may never show the payment.
   */
  readonly pulledFinally?: true;
  /**
   * True if the account was closed and the closing is not finalized. Payments before the closing
   * may not be finalized either, so they cannot be read yet.
   */
  readonly closingNotFinal?: true;
  /**
   * True if the RPC endpoint that was read lacks an account of the subscription, but the account
   * may still exist at another endpoint.
   */
  readonly absenceDoubted?: true;
  /**
   * True if the RPC endpoint that was read lacks the token account of the merchant or the treasury,
   * but the token account may still exist at another endpoint.
   */
  readonly receiverDoubted?: true;
  /**
   * Sum (base units) of the wallet's payments for other subscriptions that come before this
   * subscription's next payment (owed.ts). Undefined means 0.
   */
  readonly owed?: bigint;
  /**
   * True if a change of plan that replaces the subscription has landed (the account that it opens
   * is live) but no keeper has registered it yet.
   */
  readonly hasChanged?: true;
  /** True if the keeper tried to close the on-chain subscription account and failed. */
  readonly closingFailed?: true;
}

/** The look-up results of the subscription with this id. */
export type LookupEntry = readonly [id: string, result: LookupResult];
