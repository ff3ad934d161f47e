// Decides about a payment that is not sent, because the accounts or a simulation show that the
// payment would fail. Pure.
import type { SubscriberReason } from '../../chain/program/errors.ts';
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { pullPeriod, type PullPeriod } from '../../chain/program/period.ts';
import { timeOf } from '../../chain/time.ts';
import type { ChainView } from './chain-view.ts';
import { type Collectable, type Decision, keeperFailure, type Rules } from './decision.ts';
import { type Due, noteTried } from './due-invoice.ts';
import { closingDue, noteRead } from './ending.ts';
import { startOfNext } from './pulls.ts';
import { applyFailure, type SubscriptionUpdate, isLive } from './transitions.ts';

/** Records a failed payment that the subscriber caused. No transaction was sent for it. */
export function failUnsent(
  update: SubscriptionUpdate,
  view: ChainView,
  account: SubscriptionAccount,
  period: PullPeriod,
  {
    reason,
    amounts,
    ...due
  }: Due &
    Pick<Collectable, 'amounts'> & {
      readonly reason: SubscriberReason;
    },
  rules: Rules,
): Decision {
  const { now } = view;
  const { invoice } = due;
  noteTried(update, due, now);
  const { start: periodStart, end: periodEnd } = period;
  const nextPeriod = startOfNext(period);
  applyFailure(
    update,
    { invoice, reason, now, periodStart, periodEnd, nextPeriod, amounts, signature: null },
    rules.pastDueDays,
  );
  if (!isLive(update.state)) {
    update.state.dueAt = closingDue(view, account, rules);
    noteRead(update, view, account);
  }
  return { update };
}

/**
 * A payment whose simulation failed. `reason` is set if the subscriber caused the failure. It is
 * null if the service caused the failure or no RPC endpoint answered.
 */
export interface Refused {
  readonly update: SubscriptionUpdate;
  readonly collect: Collectable;
  readonly reason: SubscriberReason | null;
}

/**
 * Decides after a failed simulation. (1) `reason` is null: counts a keeper failure, and does not
 * count the try as an early try. (2) The subscriber caused the failure and a top-up made the
 * payment due early: the payment waits for its scheduled retry, without an event. (3) Otherwise the
 * payment counts as failed.
 */
export function refuse(
  { update, collect, reason }: Refused,
  view: ChainView,
  account: SubscriptionAccount,
  rules: Rules,
): Decision {
  const { row, state } = update;
  const { nextPaymentDue: retry } = row;
  const isEarly = row.status === 'past_due' && retry !== null && retry > timeOf(view.now);
  if (isEarly) state.nextPaymentDue = retry;
  if (reason === null) {
    state.earlyTries = row.earlyTries;
    return keeperFailure(update, view);
  }
  if (isEarly) {
    state.dueAt = retry;
    return { update };
  }
  const period = pullPeriod(account, view.plan, view.now);
  return failUnsent(update, view, account, period, { ...collect, reason }, rules);
}
