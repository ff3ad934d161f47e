// What the keeper does with a subscription, from its row and one read of its accounts: pure, so that every path can be tried. It is run on the
// locked row, in the transaction that writes the outcome (settlement.ts); the same row and accounts always give the same outcome, and the row
// that it gives, with the same accounts, changes nothing more.
import { periodSeconds, pullPeriod, type PullPeriod } from '../chain/period.ts';
import type { OursReason } from '../chain/errors.ts';
import type { SubscriptionAccount } from '../chain/layouts.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import type { ChainView, Pull } from './chain-view.ts';
import { split, type Split } from './money.ts';
import { timeOf, unixSeconds } from './network.ts';
import { delegationObstacle, missingReceivers, ourObstacle, subscriberObstacle } from './obstacles.ts';
import { setbackUntil } from './setbacks.ts';
import {
  applyCancelSeen,
  applyCover,
  applyDelegation,
  applyEnd,
  applyFailure,
  applyFurther,
  applyPayment,
  applyResume,
  draftOf,
  isLive,
  type Draft,
} from './transitions.ts';

export interface Rules {
  /** The keeper's wallet. */
  readonly keeper: string;
  readonly pastDueDays: number;
  /** The operator's fee, where the merchant has none of its own. */
  readonly feeBps: number;
}

/** What was found out, at some cost, because an earlier decision asked for it. */
export interface Findings {
  /** Pulls on chain that the database may not know of. */
  readonly pulls?: readonly FoundPull[];
  /** More transactions name the account than could be read: what was pulled is not known this time either. */
  readonly tooMany?: true;
  /** What the account counts as pulled is final, or in the books: a history that does not have it by now may never have it. */
  readonly pulledFinally?: true;
  /** The account is gone, but not finally yet: what was pulled before its closing may not be final either, and cannot be told. */
  readonly closingNotFinal?: true;
  /** The on-chain account could not be closed. */
  readonly closingFailed?: true;
}

/** A pull, and whether an earlier registration of the same on-chain subscription has it recorded. */
export interface FoundPull extends Pull {
  readonly recorded: boolean;
}

/** A payment to collect now. Times are Unix seconds. */
export interface Collectable {
  readonly periodStart: bigint;
  readonly periodEnd: bigint;
  readonly amounts: Split;
  readonly createAccountsFor: readonly string[];
}

export interface Decision {
  readonly draft: Draft;
  readonly collect?: Collectable;
  /** To be found out first; the decision is then made again. */
  readonly needs?: 'pulls' | 'closing';
  /** A failure that is ours: operators are told. */
  readonly alert?: { readonly reason: OursReason | 'pull_not_found' | 'period_mismatch'; readonly detail?: string };
}

const DAY = 86_400n;
/** Seconds after which a new registration's account is believed to be missing rather than not yet seen by the endpoint that we asked. */
const YOUNG_SECONDS = 120;
/** Setbacks after which a final pull that no history tells of holds nothing else up: half an hour (setbacks.ts). */
const MOST_LOOKS = 8;
/** Between looks at what the chain shows, but not finally yet (some 13 s on a cluster): it is nobody's failure. */
const FINALITY_LOOK_SECONDS = 4n;

/** The decision for one subscription. `findings` answers an earlier `needs`. */
export function decide(row: HeldSubscription, view: ChainView, rules: Rules, findings: Findings = {}): Decision {
  const draft = draftOf(row);
  const { state } = draft;
  if (view.slot < row.observedSlot) return retrySoon(draft, view, 1n);
  state.observedSlot = view.slot;
  const account = sameInstance(row, view.subscription);
  if (account !== null) state.periodAnchor ??= timeOf(account.periodStart);
  if (!isLive(state)) return afterTheEnd(draft, view, account, rules, findings);
  if (account === null && !missingIsBelieved(row, view)) return retrySoon(draft, view, 10n);

  const period = account === null ? null : pullPeriod(account, view.plan, view.now);
  let unread: Pick<Decision, 'alert'> | undefined;
  if (account !== null && period !== null) {
    if (hasUnknownPull(state, account)) {
      if (findings.tooMany === true) return { ...ourSetback(draft, view), alert: { reason: 'pull_not_found' } };
      if (findings.pulls === undefined) return { draft, needs: 'pulls' };
      recordPulls(draft, findings.pulls, account, period);
      if (hasUnknownPull(state, account)) {
        unread = row.setbacks < 3 ? undefined : { alert: { reason: 'pull_not_found' } };
        if (findings.pulledFinally !== true) return { ...retrySoon(draft, view, FINALITY_LOOK_SECONDS), ...unread };
        // A further pull that nobody can read holds nothing up for long: the period is paid.
        if (row.setbacks >= 3 && isPaid(state, account)) state.periodPulled = account.amountPulled;
        // The endpoint's history does not have the pull yet. An endpoint that keeps no history that long never will: a period that is over does
        // not keep the next one from being paid, which the chain does not count as pulled.
        if (!isGivenUp(row) || account.periodStart >= period.start) return { ...ourSetback(draft, view), ...unread };
      }
    }
    const repaired = observeDelegation(draft, view, account);
    if (repaired && state.status === 'past_due') state.nextPaymentDue = timeOf(view.now);
  }
  observeCancel(draft, view, account, period);

  if (state.cancelRequestedAt !== null) return end(draft, view, account, rules, findings, null);
  const endReason = planEnd(row, view, account, period);
  if (endReason !== null) return end(draft, view, account, rules, findings, endReason);
  // Without an account the subscription was cancelled or has ended: both have returned.
  if (account === null || period === null) throw new Error('a live subscription without an account');
  return { ...unread, ...collection(draft, view, account, period, rules) };
}

/** A final pull was looked for often enough. */
const isGivenUp = ({ setbacks }: HeldSubscription) => setbacks >= MOST_LOOKS;

/** The account as long as it is the one that was registered: an address can be closed and subscribed anew, with other period boundaries or terms. */
export function sameInstance(row: HeldSubscription, account: SubscriptionAccount | null): SubscriptionAccount | null {
  if (account === null) return null;
  if (account.amount !== row.amount || account.periodHours !== BigInt(row.periodHours)) return null;
  if (row.planCreatedAt !== null && account.planCreatedAt !== unixSeconds(row.planCreatedAt)) return null;
  if (row.periodAnchor === null) return account;
  const apart = account.periodStart - unixSeconds(row.periodAnchor);
  return apart >= 0n && apart % periodSeconds(account.periodHours) === 0n ? account : null;
}

/** An account that was never seen may only be unknown to the endpoint; one that was seen, or another in its place, is not there any more. */
function missingIsBelieved(row: HeldSubscription, view: ChainView): boolean {
  if (view.subscription !== null) return true;
  return row.observedSlot > 0n ? view.slot > row.observedSlot : row.ageSeconds > YOUNG_SECONDS;
}

/** Money was pulled in the account's period that the database does not know of: the period is not paid there, or with less. */
export function hasUnknownPull(state: Pick<HeldSubscription, 'paidThrough' | 'periodPulled'>, account: SubscriptionAccount): boolean {
  if (account.amountPulled === 0n) return false;
  if (!isPaid(state, account)) return true;
  // An account that an endpoint behind shows may be of an earlier period than the one that is paid.
  const paidFor = state.paidThrough === null ? 0n : unixSeconds(state.paidThrough) - account.periodStart;
  return paidFor <= periodSeconds(account.periodHours) && account.amountPulled > state.periodPulled;
}

/** Whether the period that the account counts is paid in the database. */
function isPaid({ paidThrough }: Pick<HeldSubscription, 'paidThrough'>, account: SubscriptionAccount): boolean {
  return paidThrough !== null && unixSeconds(paidThrough) > account.periodStart;
}

const oldestFirst = (pulls: readonly FoundPull[]) => [...pulls].sort((a, b) => Number(a.periodStart - b.periodStart));

/** Records a pull that was found. Only the first one of a period pays it; what somebody else pulls after that is further. */
export function recordPull(draft: Draft, pull: FoundPull, next: Date | null): void {
  const { paidThrough } = draft.state;
  if (paidThrough === null || unixSeconds(paidThrough) <= pull.periodStart) {
    if (pull.recorded) applyCover(draft, pull, next);
    else applyPayment(draft, pull, next);
  } else if (!pull.recorded && pull.source === 'foreign') applyFurther(draft, pull);
}

/** Records what was found, oldest period first. */
function recordPulls(draft: Draft, pulls: readonly FoundPull[], account: SubscriptionAccount, period: PullPeriod): void {
  for (const pull of oldestFirst(pulls)) recordPull(draft, pull, nextAfter(pull.periodStart, account, period));
  if (!isPaid(draft.state, account)) return;
  const found = pulls.reduce((sum, { periodStart, gross }) => (periodStart === account.periodStart ? sum + gross : sum), 0n);
  if (found > draft.state.periodPulled) draft.state.periodPulled = found;
}

/**
 * The last look at an account that is gone: records what was pulled since the one before. Gives the decision to wait for, as long as that cannot be
 * told. A subscription that was opened anew at the same address has other period boundaries: what it paid is not this one's.
 */
function lastLook(draft: Draft, view: ChainView, { pulls, tooMany, closingNotFinal }: Findings): Decision | undefined {
  const { row } = draft;
  if (closingNotFinal === true) return retrySoon(draft, view, FINALITY_LOOK_SECONDS);
  if (tooMany === true) return { ...ourSetback(draft, view), alert: { reason: 'pull_not_found' } };
  // Never seen: nothing is known that could have been pulled from.
  if (row.periodAnchor === null) return undefined;
  if (pulls === undefined) return { draft, needs: 'pulls' };
  const [anchor, length] = [unixSeconds(row.periodAnchor), periodSeconds(BigInt(row.periodHours))];
  for (const pull of oldestFirst(pulls)) {
    if (pull.periodStart < anchor || (pull.periodStart - anchor) % length !== 0n) continue;
    recordPull(draft, pull, null);
  }
  return undefined;
}

/** When the period after the one that began at `periodStart` can be collected; null when it never can. */
export function nextAfter(periodStart: bigint, account: SubscriptionAccount, period: PullPeriod): Date | null {
  return periodStart < period.start ? timeOf(periodStart + periodSeconds(account.periodHours)) : startOfNext(period);
}

function startOfNext(period: PullPeriod): Date | null {
  return period.next === null ? null : timeOf(period.next);
}

function observeDelegation(draft: Draft, view: ChainView, account: SubscriptionAccount): boolean {
  const repaired = applyDelegation(draft, delegationObstacle(view, account), view.now);
  return repaired && subscriberObstacle(view, account, draft.row.amount) === undefined;
}

function observeCancel(draft: Draft, view: ChainView, account: SubscriptionAccount | null, period: PullPeriod | null): void {
  const { state, row } = draft;
  if (account?.expiresAt === 0n) {
    // A merchant's request is not on chain, so a live account says nothing against it.
    if (state.cancelRequestedBy === 'subscriber' && period !== null) applyResume(draft, dueAgain(draft, period));
    return;
  }
  if (state.cancelRequestedAt !== null) return;
  // A missing account was closed: after a cancellation that we did not see, or because its plan is no more.
  if (account !== null || planEnd(row, view, account, period) === null) applyCancelSeen(draft, view.now);
}

/** When a resumed subscription is collected next: in the period that runs, unless it is paid. */
function dueAgain({ state }: Draft, period: PullPeriod): Date | null {
  const { paidThrough } = state;
  return paidThrough !== null && unixSeconds(paidThrough) > period.start ? startOfNext(period) : timeOf(period.start);
}

/** Why nothing can be collected any more for the plan's sake; null when it can. */
function planEnd(
  row: HeldSubscription,
  { plan, now }: ChainView,
  account: SubscriptionAccount | null,
  period: PullPeriod | null,
): string | null {
  if (plan === null) return 'plan_closed';
  if (row.planCreatedAt !== null && plan.createdAt !== unixSeconds(row.planCreatedAt)) return 'plan_recreated';
  if (period?.verdict === 'plan_changed') return 'plan_recreated';
  if (plan.endTs !== 0n && now > plan.endTs) return 'plan_ended';
  // The last period is paid up to the plan's end.
  if (period?.verdict === 'collected' && period.next === null && account?.expiresAt === 0n && now >= period.end) return 'plan_ended';
  return null;
}

/** Nothing is collected any more: the end comes at paidThrough, at once when nothing is paid. */
function end(
  draft: Draft,
  view: ChainView,
  account: SubscriptionAccount | null,
  rules: Rules,
  findings: Findings,
  endReason: string | null,
): Decision {
  const { state } = draft;
  const prepaid = () => state.paidThrough !== null && unixSeconds(state.paidThrough) > view.now;
  const waiting = account === null && (findings.closingNotFinal === true || !prepaid()) ? lastLook(draft, view, findings) : undefined;
  if (waiting !== undefined) return waiting;
  if (prepaid()) {
    state.nextPaymentDue = null;
    state.dueAt = state.paidThrough;
    return { draft };
  }
  if (account !== null && closable(view, account, rules) && findings.closingFailed !== true) return { draft, needs: 'closing' };
  applyEnd(draft, { now: view.now, endReason, accountClosed: account === null, dueAt: closingDue(view, account, rules) });
  return { draft };
}

/** The program lets the rent payer close an account that expired or whose plan is over; only then the rent is ours to fetch. */
function closable({ now, plan }: ChainView, account: SubscriptionAccount, { keeper }: Rules): boolean {
  if (account.payer !== keeper) return false;
  if (account.expiresAt !== 0n && account.expiresAt <= now) return true;
  const verdict = pullPeriod(account, plan, now).verdict;
  return verdict === 'plan_closed' || verdict === 'plan_ended' || verdict === 'plan_changed';
}

/** When to look again whether an account that we pay the rent of can be closed; null when there is nothing to fetch. */
export function closingDue(
  { now }: Pick<ChainView, 'now'>,
  account: Pick<SubscriptionAccount, 'payer' | 'expiresAt'> | null,
  { keeper }: Pick<Rules, 'keeper'>,
): Date | null {
  if (account === null || account.payer !== keeper) return null;
  return timeOf(account.expiresAt > now ? account.expiresAt : now + DAY);
}

/** The last look, and those at an account that is to be closed. What was pulled until the end, while no keeper looked, is recorded even now. */
function afterTheEnd(draft: Draft, view: ChainView, account: SubscriptionAccount | null, rules: Rules, findings: Findings): Decision {
  if (account === null) {
    const waiting = lastLook(draft, view, findings);
    if (waiting !== undefined) return waiting;
  } else if (hasUnknownPull(draft.state, account)) {
    if (findings.tooMany === true) return ourSetback(draft, view);
    if (findings.pulls === undefined) return { draft, needs: 'pulls' };
    recordPulls(draft, findings.pulls, account, pullPeriod(account, view.plan, view.now));
    if (hasUnknownPull(draft.state, account)) {
      if (findings.pulledFinally !== true) return retrySoon(draft, view, FINALITY_LOOK_SECONDS);
      if (!isGivenUp(draft.row)) return ourSetback(draft, view);
    }
  }
  const { paidThrough } = draft.state;
  if (account?.payer === rules.keeper && paidThrough !== null && unixSeconds(paidThrough) > view.now) {
    draft.state.dueAt = paidThrough;
    return { draft };
  }
  if (account !== null && closable(view, account, rules) && findings.closingFailed !== true) return { draft, needs: 'closing' };
  draft.state.dueAt = closingDue(view, account, rules);
  return { draft };
}

function collection(draft: Draft, view: ChainView, account: SubscriptionAccount, period: PullPeriod, rules: Rules): Decision {
  const { state, row } = draft;
  const { now } = view;
  const paidUntil = state.paidThrough === null ? null : unixSeconds(state.paidThrough);
  if (paidUntil !== null && paidUntil > period.start) {
    state.nextPaymentDue = startOfNext(period);
    state.dueAt = state.nextPaymentDue ?? state.paidThrough;
    state.setbacks = 0;
    return { draft };
  }
  if (period.verdict === 'not_started') return retryAt(draft, account.periodStart);
  // Whatever the chain counts in this period was recorded above, so a period that is not paid has nothing pulled.
  if (period.verdict !== 'collectable' || period.pulled !== 0n) {
    return {
      ...ourSetback(draft, view),
      alert: { reason: 'period_mismatch', detail: `${period.verdict}, ${period.pulled.toString()} pulled` },
    };
  }
  if (state.nextPaymentDue !== null && state.nextPaymentDue > timeOf(now)) {
    state.dueAt = state.nextPaymentDue;
    return { draft };
  }

  const amounts = split(row.amount, row.feeBps ?? rules.feeBps);
  const receivers = { keeper: rules.keeper, merchant: row.merchantWallet, treasury: row.treasury, mint: row.mint };
  const ours = ourObstacle(view, amounts, receivers);
  if (ours !== undefined) return { ...ourSetback(draft, view), alert: { reason: ours } };
  const obstacle = subscriberObstacle(view, account, amounts.gross);
  if (obstacle !== undefined) {
    const { start: periodStart, end: periodEnd } = period;
    applyFailure(
      draft,
      { reason: obstacle, now, periodStart, periodEnd, nextPeriod: startOfNext(period), amounts, signature: null },
      rules.pastDueDays,
    );
    if (!isLive(state)) state.dueAt = closingDue(view, account, rules);
    return { draft };
  }
  return {
    draft,
    collect: { periodStart: period.start, periodEnd: period.end, amounts, createAccountsFor: missingReceivers(view, amounts, receivers) },
  };
}

function ourSetback(draft: Draft, { now }: ChainView): Decision {
  draft.state.setbacks += 1;
  draft.state.dueAt = setbackUntil(now, draft.state.setbacks);
  return { draft };
}

function retrySoon(draft: Draft, { now }: ChainView, seconds: bigint): Decision {
  return retryAt(draft, now + seconds);
}

function retryAt(draft: Draft, at: bigint): Decision {
  draft.state.dueAt = timeOf(at);
  return { draft };
}
