// Decides when the keeper next reads a subscription with nothing due, and whether the next payment
// is announced. Pure.
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { pullPeriod, type PullPeriod } from '../../chain/program/period.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { drawUp } from '../invoices/draw-up.ts';
import type { ChainView } from './chain-view.ts';
import { type Decision, retryAt, type Rules } from './decision.ts';
import {
  isDueSoon,
  nextRead,
  noticesUntil,
  renewalIssue,
  type RenewalIssue,
} from './look-ahead.ts';
import { subscriberObstacle } from './obstacles.ts';
import { startOfNext } from './pulls.ts';
import { type SubscriptionUpdate, setNextDue, termsOf } from './transitions.ts';

/** `owed`: base units that the wallet owes to other plans before the next payment. */
export type Ahead = Pick<Rules, 'minimumAmount'> & { readonly owed: bigint };

/**
 * Waits for nextPaymentDue. Shortly before that time, announces the payment and whether the wallet
 * could pay it now.
 */
export function awaitDue(
  update: SubscriptionUpdate,
  view: ChainView,
  account: SubscriptionAccount,
  { minimumAmount, owed }: Ahead,
): Decision {
  const { state, row } = update;
  const { nextPaymentDue: due } = state;
  const [{ periodHours, noticeHours }, now] = [row, timeOf(view.now)];
  if (due !== null && isDueSoon(state, periodHours, now, noticeHours)) {
    const period = pullPeriod(account, view.plan, unixSeconds(due));
    const { amountDue } = drawUp(termsOf(update), period, { minimum: minimumAmount });
    const obstacle = subscriberObstacle(view, account, owed + amountDue);
    const issue = obstacle === undefined ? null : renewalIssue(obstacle);
    applyUpcoming(update, amountDue, issue, noticesUntil(now, due, periodHours, noticeHours));
  }
  state.dueAt = nextRead(state, row) ?? state.paidThrough;
  return { update };
}

/**
 * Waits for the next period. Used when nothing is charged for the current period, or when a payment
 * signed now could land in the next period.
 */
export function awaitNextPeriod(
  update: SubscriptionUpdate,
  view: ChainView,
  account: SubscriptionAccount,
  period: PullPeriod,
  ahead: Ahead,
): Decision {
  setNextDue(update, startOfNext(period));
  return update.state.nextPaymentDue === null
    ? retryAt(update, period.end + 1n)
    : awaitDue(update, view, account, ahead);
}

/**
 * Announces the next payment, unless `amount` is 0. `issue`: why the wallet could not pay now.
 * `notices`: number of notices whose time has come. Several such notices are sent as one event.
 */
function applyUpcoming(
  { state, events }: SubscriptionUpdate,
  amount: bigint,
  issue: RenewalIssue | null,
  notices: number,
): void {
  state.announcedDue = state.nextPaymentDue;
  state.announcedNotices = notices;
  if (amount > 0n)
    events.push({
      type: 'renewal_upcoming',
      extra: { dueAt: state.nextPaymentDue, amount, canPay: issue === null, issue },
    });
}
