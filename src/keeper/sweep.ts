// The sweep behind the stream: every subscription is looked at at least every ten minutes, sooner near its due time and after the stream broke
// off. What needs doing is only noted here, by making the subscription due: it is done under a claim, like everything else (collect.ts).
import { setTimeout as pause } from 'node:timers/promises';
import { periodSeconds } from '../chain/period.ts';
import { RpcUnreachable } from '../chain/rpc-errors.ts';
import { outageOf } from '../db/outage.ts';
import { lastPlace, stepSweeps, type SweepPace, type SweepStep } from '../db/sweeps.ts';
import { readUnderWay, type UnderWay } from '../db/payment-attempts.ts';
import type { DuePlace } from '../db/subscription-leases.ts';
import { makeDue, readSubscriptions, type HeldSubscription } from '../db/subscriptions.ts';
import { decide, sameInstance } from '../domain/decide.ts';
import type { Rules } from '../domain/decision.ts';
import { timeOf, unixSeconds } from '../domain/network.ts';
import type { ChainClock } from './clock.ts';
import type { Context } from './context.ts';
import { readViews, type View } from './read.ts';

/** Three requests' worth: each has its subscription, authority and token account, and shares plan and receivers. */
const BATCH = 96;
/**
 * Ten minutes is the promise: a lap through all of them that takes five leaves room for a keeper that dies with a batch in hand. An approval is the token
 * program's business, and no notice of our program tells of it.
 */
const PACES: readonly SweepPace[] = [
  { name: 'near', everySeconds: 30, withinSeconds: 120 },
  { name: 'revoked', everySeconds: 3, withinSeconds: 300 },
  { name: 'all', everySeconds: 15, withinSeconds: 300 },
];
const NEAR_MS = 15 * 60_000;
/** Between batches that are caught up with: collecting comes first. */
const CATCH_UP_PAUSE_MS = 50;

/** A place in the walk through all subscriptions, lap by lap. */
interface Mark extends DuePlace {
  lap: bigint;
}

/**
 * Once the walk that stands behind `after` in this lap has come to here, everything has been looked at, where `last` was the last place of all when it
 * set out. What is paid meanwhile moves on beyond that place, and was looked at for it: a lap that ran after it would never end. Pure.
 */
function allRound({ lap, after }: SweepStep, last: DuePlace): Mark {
  return after.dueAt.getTime() === 0 ? { lap, ...last } : { lap: lap + 1n, ...after };
}

/** Whether the walk has come to `mark`. Pure. */
function isPast({ nextLap, place }: SweepStep, mark: Mark): boolean {
  if (nextLap !== mark.lap) return nextLap > mark.lap;
  const byTime = place.dueAt.getTime() - mark.dueAt.getTime();
  return byTime > 0 || (byTime === 0 && place.id >= mark.id);
}

/** Whether a look at the chain tells something that the row does not know yet. Pure. */
function isNews(row: HeldSubscription, view: View, rules: Rules): boolean {
  if (view instanceof Error) return false;
  const { draft, needs } = decide(row, view, rules);
  // A pull that was looked up in vain is looked up again when its setback is over.
  const isKnown = needs === 'pulls' && row.setbacks > 0 && sameInstance(row, view.subscription) !== null;
  if (needs !== undefined) return !isKnown;
  const told = draft.happenings.some(({ type }) => type !== 'payment_failed');
  const repaired = row.delegationRevokedAt !== null && draft.state.delegationRevokedAt === null;
  return told || repaired;
}

/**
 * The row as it will be once the payment that is under way is recorded, when that and nothing else was pulled: whoever has it in hand settles it from the
 * same account, and what else the account tells is judged as if that were done. Otherwise the row as it is. Pure.
 */
function withPayment(row: HeldSubscription, view: View, underWay: UnderWay | undefined): HeldSubscription {
  const account = view instanceof Error ? null : sameInstance(row, view.subscription);
  if (account === null || underWay === undefined) return row;
  const isIt = account.periodStart === unixSeconds(underWay.periodStart) && account.amountPulled === underWay.amountGross;
  if (!isIt || (row.paidThrough !== null && row.paidThrough > underWay.periodStart)) return row;
  const paidThrough = timeOf(account.periodStart + periodSeconds(account.periodHours));
  return { ...row, paidThrough, periodPulled: account.amountPulled };
}

export interface Sweep {
  /** Goes on by one batch in each walk; resolves with true while one is behind its time. */
  turn(): Promise<boolean>;
  /** The stream was off: everything is to be looked at soon. */
  gap(): void;
  /** Looks at these now, as of `minSlot` or later: an endpoint that is behind what was heard would see nothing new. */
  look(ids: readonly string[], minSlot?: bigint): Promise<void>;
}

/** Sweeps for `context`; `onRead` is told of every subscription that is looked at. */
export function createSweep(context: Context, clock: ChainClock, onRead?: (rows: readonly HeldSubscription[]) => void): Sweep {
  const { sql, rules, log } = context;
  let isGap = false;
  /** Once the walk has come round to here, everything has been looked at since the gap. */
  let goal: Mark | undefined;
  /** What was taken and could not be looked at: the walk does not come by again before its next lap. */
  let missed: readonly string[] = [];

  async function look(ids: readonly string[], minSlot?: bigint): Promise<void> {
    const rows = await readSubscriptions(sql, [...ids]);
    if (rows.length === 0) return;
    onRead?.(rows);
    const reading = await readViews(context, rows, { minSlot });
    clock.heard(reading.now);
    const isNew = (row: HeldSubscription) => isNews(row, reading.of(row), rules);
    const seen = rows.filter(isNew).map(({ id }) => id);
    if (seen.length === 0) return;
    // Mostly our own payments, which are recorded once they are final. What is not under way any more may have been since these rows were read.
    const underWay = new Map((await readUnderWay(sql, seen)).map((one) => [one.subscriptionId, one]));
    const again = await readSubscriptions(sql, seen);
    const news = again.filter((row) => isNew(withPayment(row, reading.of(row), underWay.get(row.id)))).map(({ id }) => id);
    if (news.length === 0) return;
    log.debug({ subscriptions: news.length }, 'the chain has news');
    await makeDue(sql, news, { chainNow: timeOf(reading.now), slot: reading.slot });
  }

  async function step(): Promise<SweepStep[]> {
    const now = await clock.now();
    const hurry = isGap || goal !== undefined;
    const last = isGap ? await lastPlace(sql) : undefined;
    const steps = await stepSweeps(sql, { paces: PACES, from: now, to: new Date(now.getTime() + NEAR_MS), hurry, limit: BATCH });
    const all = steps.find(({ name }) => name === 'all');
    if (all !== undefined && last !== undefined) {
      goal = allRound(all, last);
      isGap = false;
    }
    missed = [...new Set(steps.flatMap(({ ids }) => ids))];
    return steps;
  }

  return {
    async turn() {
      const steps = missed.length === 0 ? await step() : undefined;
      try {
        if (missed.length > 0) await look(missed);
      } catch (error) {
        // What a bug of ours or the oddity of one account stops is left for the next lap: it must not stop the walk.
        if (!(error instanceof RpcUnreachable) && outageOf(error) === undefined) missed = [];
        throw error;
      }
      missed = [];
      if (steps === undefined) return true;
      const all = steps.find(({ name }) => name === 'all');
      if (goal !== undefined && all !== undefined && isPast(all, goal)) goal = undefined;
      const goesOn = isGap || goal !== undefined || steps.some(({ isBehind }) => isBehind);
      if (goesOn) await pause(CATCH_UP_PAUSE_MS);
      return goesOn;
    },
    gap() {
      isGap = true;
    },
    look,
  };
}
