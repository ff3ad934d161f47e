// Decides about subscriptions that end or have ended. The keeper reads the on-chain account until
// all its payments are recorded. If a keeper paid the account's rent, the keeper then closes the
// account.
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import {
  isEndedByPlan,
  periodSeconds,
  pullPeriod,
  type PullPeriod,
} from '../../chain/program/period.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import type { ChainView } from './chain-view.ts';
import {
  awaitFinality,
  type Decision,
  lookupFailure,
  pullNotFound,
  retrySoon,
  type Rules,
} from './decision.ts';
import {
  hasUnknownPull,
  isGivenUp,
  oldestFirst,
  type PullLookup,
  recordPull,
  recordPulls,
} from './pulls.ts';
import { applyEnd, CHANGE_SECONDS, coverOf, type SubscriptionUpdate } from './transitions.ts';

const DAY = 86_400n;

/** What end() and afterTheEnd() need besides the update and the ChainView. */
interface Ending {
  readonly account: SubscriptionAccount | null;
  readonly rules: Rules;
  readonly lookup: PullLookup;
  /**
   * Whether the on-chain account may be closed now. False when an attempt to close it has just
   * failed.
   */
  readonly isClosable: boolean;
}

/**
 * Returns the reason why the plan ends the subscription, or null when the plan lets the
 * subscription continue.
 */
export function planEnd(
  row: KeeperSubscription,
  { plan, now }: ChainView,
  account: SubscriptionAccount | null,
  period: PullPeriod | null,
): string | null {
  if (plan === null) return 'plan_closed';
  if (row.planCreatedAt !== null && plan.createdAt !== unixSeconds(row.planCreatedAt))
    return 'plan_recreated';
  if (period?.verdict === 'plan_changed') return 'plan_recreated';
  if (plan.endTs !== 0n && now > plan.endTs) return 'plan_ended';
  // The plan has no further period, and the paid time has passed.
  if (
    period?.verdict === 'collected' &&
    period.next === null &&
    account?.expiresAt === 0n &&
    now >= period.end
  )
    return 'plan_ended';
  return null;
}

/**
 * Decides about a subscription from which no further payment is collected. The subscription ends
 * when its paid time or its trial ends, or at once if neither is running.
 */
export function end(
  update: SubscriptionUpdate,
  view: ChainView,
  ending: Ending,
  endReason: string | null,
): Decision {
  const { account, rules, lookup, isClosable } = ending;
  const { state } = update;
  const isCovered = () => {
    const cover = coverOf(update);
    return cover !== null && unixSeconds(cover) > view.now;
  };
  const waiting =
    account === null && (lookup.kind === 'not_final' || !isCovered())
      ? recordLastPulls(update, view, lookup)
      : undefined;
  if (waiting !== undefined) return waiting;
  if (isCovered()) {
    state.nextPaymentDue = null;
    state.dueAt = coverOf(update);
    return { update };
  }
  // The landed change of plan is about to be registered as the replacement of this subscription.
  // The end waits, because the registration determines the end reason.
  if (account !== null && update.row.isChanging && update.row.replacedBy === null)
    return retrySoon(update, view, CHANGE_SECONDS);
  if (account !== null && isClosable && closable(view, account, rules))
    return { update, needs: 'closing' };
  applyEnd(update, {
    now: view.now,
    endReason,
    accountClosed: account === null,
    dueAt: closingDue(view, account, rules),
  });
  noteRead(update, view, account);
  return { update };
}

/**
 * Records two facts about an ended subscription: its account was read, and its pulls are recorded.
 * Also records whether anything can still be pulled from the account for this subscription.
 */
export function noteRead(
  { row, state }: SubscriptionUpdate,
  { plan, now }: Pick<ChainView, 'plan' | 'now'>,
  account: SubscriptionAccount | null,
): void {
  state.pulledThrough ??= state.paidThrough ?? timeOf(account === null ? now : account.periodStart);
  state.pullable =
    account !== null &&
    row.successor !== 'same_account' &&
    !NEVER_AGAIN.has(pullPeriod(account, plan, now).verdict);
}

/** Verdicts after which the program never allows another pull from the account. */
const NEVER_AGAIN: ReadonlySet<PullPeriod['verdict']> = new Set([
  'plan_closed',
  'plan_ended',
  'plan_changed',
  'cancelled',
]);

/**
 * Decides about a subscription that has ended. The keeper still records on-chain payments. If the
 * same account has a newer registration, that registration records these payments instead. If the
 * account was closed, the payments are read from the history of the account's address.
 */
export function afterTheEnd(
  update: SubscriptionUpdate,
  view: ChainView,
  { account, rules, lookup, isClosable }: Ending,
): Decision {
  const { successor } = update.row;
  if (account === null) {
    const waiting =
      successor === 'same_account' ? undefined : recordLastPulls(update, view, lookup);
    if (waiting !== undefined) return waiting;
  } else if (successor === null && hasUnknownPull(update.state, account)) {
    if (lookup.kind === 'too_long') return lookupFailure(update, view);
    if (lookup.kind === 'not_final') return awaitFinality(update, view);
    if (lookup.kind === 'needed') return { update, needs: 'pulls' };
    recordPulls(update, lookup, account, pullPeriod(account, view.plan, view.now));
    if (hasUnknownPull(update.state, account)) {
      if (!lookup.isFinal) return awaitFinality(update, view);
      if (!isGivenUp(update.row)) return lookupFailure(update, view);
    }
  }
  noteRead(update, view, account);
  const { paidThrough } = update.state;
  if (
    account !== null &&
    rules.keepers.includes(account.payer) &&
    paidThrough !== null &&
    unixSeconds(paidThrough) > view.now
  ) {
    update.state.dueAt = paidThrough;
    return { update };
  }
  if (account !== null && isClosable && closable(view, account, rules))
    return { update, needs: 'closing' };
  update.state.dueAt = closingDue(view, account, rules);
  return { update };
}

/**
 * Records the last payments of a closed on-chain account and returns undefined. While the payments
 * cannot be read, returns a decision to wait. Payments with other period boundaries belong to a
 * later subscription at the same address and are skipped.
 */
function recordLastPulls(
  update: SubscriptionUpdate,
  view: ChainView,
  lookup: PullLookup,
): Decision | undefined {
  const { row } = update;
  if (lookup.kind === 'not_final') return awaitFinality(update, view);
  if (lookup.kind === 'too_long') return { ...lookupFailure(update, view), ...pullNotFound(row) };
  // Without periodAnchor, no keeper read the account while the account existed. The account's
  // period boundaries are then unknown, so no payment can be assigned to the account.
  if (row.periodAnchor === null) return undefined;
  if (lookup.kind === 'needed') return { update, needs: 'pulls' };
  const [anchor, length] = [unixSeconds(row.periodAnchor), periodSeconds(BigInt(row.periodHours))];
  for (const pull of oldestFirst(lookup.pulls)) {
    if (pull.periodStart < anchor || (pull.periodStart - anchor) % length !== 0n) continue;
    recordPull(update, pull, null);
  }
  // An unreadable transaction may contain the last payment, so the history is read again later. The
  // number of retries is limited, because anyone can send an unreadable transaction to the address.
  return !lookup.isComplete && !isGivenUp(row) ? lookupFailure(update, view) : undefined;
}

/**
 * Returns whether the keeper can close an on-chain account and get its rent back. A keeper must
 * have paid the rent, and the account must have expired or its plan must have ended.
 */
function closable(
  { now, plan }: ChainView,
  account: SubscriptionAccount,
  { keepers }: Rules,
): boolean {
  if (!keepers.includes(account.payer)) return false;
  const isExpired = account.expiresAt !== 0n && account.expiresAt <= now;
  return isExpired || isEndedByPlan(account, plan, now);
}

/**
 * Returns when to check again whether the keeper can close an on-chain account. Returns null when
 * no keeper paid the account's rent, because closing then returns nothing to the keeper.
 */
export function closingDue(
  { now }: Pick<ChainView, 'now'>,
  account: Pick<SubscriptionAccount, 'payer' | 'expiresAt'> | null,
  { keepers }: Pick<Rules, 'keepers'>,
): Date | null {
  if (account === null || !keepers.includes(account.payer)) return null;
  return timeOf(account.expiresAt > now ? account.expiresAt : now + DAY);
}
