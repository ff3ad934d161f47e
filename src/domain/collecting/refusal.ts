// Decisions about a payment that fails before it is sent, by its accounts or in a simulation. Pure.
import type { SubscriberReason } from '../../chain/program/errors.ts';
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { pullPeriod, type PullPeriod } from '../../chain/program/period.ts';
import { timeOf } from '../../chain/time.ts';
import type { ChainView } from './chain-view.ts';
import { type Collectable, type Decision, keeperFailure, type Rules } from './decision.ts';
import { closingDue } from './ending.ts';
import { startOfNext } from './pulls.ts';
import { applyFailure, type SubscriptionUpdate, isLive } from './transitions.ts';

/** A failed try for the subscriber's reason, without a transaction. */
export function failUnsent(
  update: SubscriptionUpdate,
  view: ChainView,
  account: SubscriptionAccount,
  period: PullPeriod,
  { reason, amounts }: Pick<Collectable, 'amounts'> & { readonly reason: SubscriberReason },
  rules: Rules,
): Decision {
  const { now } = view;
  const { start: periodStart, end: periodEnd } = period;
  const nextPeriod = startOfNext(period);
  applyFailure(
    update,
    { reason, now, periodStart, periodEnd, nextPeriod, amounts, signature: null },
    rules.pastDueDays,
  );
  if (!isLive(update.state)) update.state.dueAt = closingDue(view, account, rules);
  return { update };
}

/**
 * A decision to collect and the result of its simulation: the subscriber's reason, or null when it
 * failed for another reason or was not answered.
 */
export interface Refused {
  readonly update: SubscriptionUpdate;
  readonly collect: Collectable;
  readonly reason: SubscriberReason | null;
}

/**
 * The decision after a failed simulation; nothing is sent. It counts as a failed try only if the
 * retry was due. A payment that a top-up made due early waits for its retry, without an event.
 * Without a reason it is a keeper failure, and the top-up is not counted.
 */
export function refuse(
  { update, collect: { amounts }, reason }: Refused,
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
  return failUnsent(update, view, account, period, { reason, amounts }, rules);
}
