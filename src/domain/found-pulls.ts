// Pulls that were found on chain, of which the database may not know: which they are, and what recording them does.
import type { SubscriptionAccount } from '../chain/layouts.ts';
import { periodSeconds, type PullPeriod } from '../chain/period.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import type { Pull } from './chain-view.ts';
import { timeOf, unixSeconds } from './network.ts';
import { applyCover, applyFurther, applyPayment, type Draft } from './transitions.ts';

/** A pull, and whether an earlier registration of the same on-chain subscription has it recorded. */
export interface FoundPull extends Pull {
  readonly recorded: boolean;
}

/** Setbacks after which a final pull that no history tells of holds nothing else up: half an hour (setbacks.ts). */
const MOST_LOOKS = 8;

/** A final pull was looked for often enough. */
export const isGivenUp = ({ setbacks }: HeldSubscription) => setbacks >= MOST_LOOKS;

/** Money was pulled in the account's period that the database does not know of: the period is not paid there, or with less. */
export function hasUnknownPull(state: Pick<HeldSubscription, 'paidThrough' | 'periodPulled'>, account: SubscriptionAccount): boolean {
  if (account.amountPulled === 0n) return false;
  if (!isPaid(state, account)) return true;
  // An account that an endpoint behind shows may be of an earlier period than the one that is paid.
  const paidFor = state.paidThrough === null ? 0n : unixSeconds(state.paidThrough) - account.periodStart;
  return paidFor <= periodSeconds(account.periodHours) && account.amountPulled > state.periodPulled;
}

/** Whether the period that the account counts is paid in the database. */
export function isPaid({ paidThrough }: Pick<HeldSubscription, 'paidThrough'>, account: SubscriptionAccount): boolean {
  return paidThrough !== null && unixSeconds(paidThrough) > account.periodStart;
}

/** As they happened: within a period by block time, and those of one second in the order that the chain's history has, which is newest first. */
export const oldestFirst = (pulls: readonly FoundPull[]) =>
  [...pulls].reverse().sort((a, b) => Number(a.periodStart - b.periodStart) || Number(a.at - b.at));

/** Records a pull that was found. Only the first one of a period pays it; what somebody else pulls after that is further. */
export function recordPull(draft: Draft, pull: FoundPull, next: Date | null): void {
  const { paidThrough } = draft.state;
  if (paidThrough === null || unixSeconds(paidThrough) <= pull.periodStart) {
    if (pull.recorded) applyCover(draft, pull, next);
    else applyPayment(draft, pull, next);
  } else if (!pull.recorded && pull.source === 'foreign') applyFurther(draft, pull);
}

/** Records what was found, oldest period first. */
export function recordPulls(draft: Draft, pulls: readonly FoundPull[], account: SubscriptionAccount, period: PullPeriod): void {
  for (const pull of oldestFirst(pulls)) recordPull(draft, pull, nextAfter(pull.periodStart, account, period));
  if (!isPaid(draft.state, account)) return;
  const found = pulls.reduce((sum, { periodStart, gross }) => (periodStart === account.periodStart ? sum + gross : sum), 0n);
  if (found > draft.state.periodPulled) draft.state.periodPulled = found;
}

/** When the period after the one that began at `periodStart` can be collected; null when it never can. */
export function nextAfter(periodStart: bigint, account: SubscriptionAccount, period: PullPeriod): Date | null {
  return periodStart < period.start ? timeOf(periodStart + periodSeconds(account.periodHours)) : startOfNext(period);
}

/** When the period after the one that runs can be collected; null when it never can. */
export function startOfNext(period: PullPeriod): Date | null {
  return period.next === null ? null : timeOf(period.next);
}
