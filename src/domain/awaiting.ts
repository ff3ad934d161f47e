// Decisions about a subscription with nothing due now: when the keeper reads it next, and whether to announce the next payment.
import type { SubscriptionAccount } from '../chain/layouts.ts';
import { pullPeriod, type PullPeriod } from '../chain/period.ts';
import { timeOf, unixSeconds } from '../chain/time.ts';
import type { ChainView } from './chain-view.ts';
import { type Decision, retryAt, type Rules } from './decision.ts';
import { isDueSoon, nextLook, renewalIssue, type RenewalIssue } from './look-ahead.ts';
import { subscriberObstacle } from './obstacles.ts';
import { amountToCollect } from './price.ts';
import { startOfNext } from './pulls.ts';
import { type Draft, setNextDue } from './transitions.ts';

/** Waits for nextPaymentDue. Shortly before it, announces the payment and whether the wallet could pay it now. */
export function awaitDue(
  draft: Draft,
  view: ChainView,
  account: SubscriptionAccount,
  rules: Pick<Rules, 'minimumAmount'>,
): Decision {
  const { state, row } = draft;
  const { nextPaymentDue: due, discountPeriods } = state;
  if (due !== null && isDueSoon(state, row.periodHours, timeOf(view.now))) {
    const period = pullPeriod(account, view.plan, unixSeconds(due));
    const gross = amountToCollect({ ...row, discountPeriods }, period, rules.minimumAmount);
    const obstacle = subscriberObstacle(view, account, gross);
    applyUpcoming(draft, gross, obstacle === undefined ? null : renewalIssue(obstacle));
  }
  state.dueAt = nextLook(state, row.periodHours) ?? state.paidThrough;
  return { draft };
}

/** Waits for the next period, when a payment signed now could land in it or nothing is left to charge for this period. */
export function awaitNextPeriod(
  draft: Draft,
  view: ChainView,
  account: SubscriptionAccount,
  period: PullPeriod,
  rules: Pick<Rules, 'minimumAmount'>,
): Decision {
  setNextDue(draft, startOfNext(period));
  return draft.state.nextPaymentDue === null
    ? retryAt(draft, period.end + 1n)
    : awaitDue(draft, view, account, rules);
}

/** Announces the next payment of `amount` once, unless none is collected. `issue`: why the wallet could not pay it now. */
function applyUpcoming(
  { state, happenings }: Draft,
  amount: bigint,
  issue: RenewalIssue | null,
): void {
  state.announcedDue = state.nextPaymentDue;
  if (amount > 0n)
    happenings.push({
      type: 'renewal_upcoming',
      extra: { dueAt: state.nextPaymentDue, amount, canPay: issue === null, issue },
    });
}
