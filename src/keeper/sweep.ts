// The sweep behind the streams: one walk through all subscriptions in SWEEP_MINUTES, at once after
// a stream broke off. What it finds is only noted, by making the subscription due: the rest happens
// under a claim (claim.ts).
import { setTimeout as pause } from 'node:timers/promises';
import { RpcUnreachable } from '../chain/rpc/errors.ts';
import { timeOf } from '../chain/time.ts';
import { readUnderWay } from '../db/payment-attempts.ts';
import { outageOf } from '../db/postgres/outage.ts';
import type { DuePlace } from '../db/subscription-leases.ts';
import { type KeeperSubscription, makeDue, readSubscriptions } from '../db/subscription-work.ts';
import { lastPlace, stepSweep, type SweepStep } from '../db/sweeps.ts';
import { hasChanged, withPayment } from '../domain/collecting/changes.ts';
import type { Context } from './context.ts';
import { readSnapshot } from './snapshot.ts';

/**
 * Four requests' worth: each subscription has three accounts of its own and shares the others. They
 * are read at once.
 */
const BATCH = 128;
/** The part of SWEEP_MINUTES that a lap takes: the rest is for a keeper that dies with a batch. */
const SPREAD = 0.8;
/**
 * Seconds after which the position of the sweep is read again, though no step is due: another
 * keeper may have begun a lap.
 */
const MAX_WAIT_SECONDS = 30;
/** Between steps of a lap whose length is unknown. */
const STEP_SECONDS = 1;
/** Between steps that are late: collecting comes first. */
const CATCH_UP_PAUSE_MS = 50;

/** A place in the walk through all subscriptions, lap by lap. */
interface Mark extends DuePlace {
  lap: bigint;
}

/**
 * Where a walk that begins behind `after` has seen everything, `last` being the last place of all
 * when it began. A subscription that is paid meanwhile moves beyond that place, and was read for
 * its payment: following it would never end. Pure.
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

/** The walk of this keeper through all subscriptions. */
export class Sweep {
  readonly #context: Context;
  /** Seconds in which every subscription is read once. */
  readonly #everySeconds: number;
  #isGap = false;
  /** When the sweep has come round to here, every subscription was read after the gap. */
  #goal: Mark | undefined;
  /**
   * A batch that was taken and could not be read: the sweep does not come by again before its
   * next lap.
   */
  #missed: readonly string[] = [];
  #waitSeconds = 0;

  constructor(context: Context, { minutes }: { readonly minutes: number }) {
    this.#context = context;
    this.#everySeconds = 60 * minutes;
  }

  /** Takes the next step when it is due; resolves with true while the walk is late. */
  async turn(): Promise<boolean> {
    const step = this.#missed.length === 0 ? await this.#step() : undefined;
    const isAgain = this.#missed.length > 0 && step === undefined;
    try {
      if (this.#missed.length > 0) await this.readNow(this.#missed);
    } catch (error) {
      // A bug or an odd account must not stop the walk: the next lap reads the account again.
      if (!(error instanceof RpcUnreachable) && outageOf(error) === undefined) this.#missed = [];
      throw error;
    }
    this.#missed = [];
    if (isAgain) return true;
    if (this.#goal !== undefined && step !== undefined && isPast(step, this.#goal))
      this.#goal = undefined;
    const isLate =
      this.#isGap || this.#goal !== undefined || (step !== undefined && this.#waitSeconds <= 0);
    if (isLate) await pause(CATCH_UP_PAUSE_MS);
    return isLate;
  }

  /** Milliseconds until the next step. */
  waitMs(): number {
    return Math.min(MAX_WAIT_SECONDS, this.#waitSeconds) * 1000;
  }

  /** A stream was interrupted: every subscription is to be read soon. */
  gap(): void {
    this.#isGap = true;
  }

  /**
   * Reads these now, as of `minSlot` or later: an endpoint that is behind the notification would
   * show nothing new.
   */
  async readNow(ids: readonly string[], minSlot?: bigint): Promise<void> {
    const { sql, rules, log, clock, absence, onRead } = this.#context;
    const rows = await readSubscriptions(sql, [...ids]);
    if (rows.length === 0) return;
    onRead(rows);
    const snapshot = await readSnapshot(this.#context, rows, { minSlot });
    clock.heard(snapshot.now);
    absence.read(rows.length);
    const isChanged = (row: KeeperSubscription) => hasChanged(row, snapshot.of(row), rules);
    const seen = rows.filter(isChanged).map(({ id }) => id);
    if (seen.length === 0) return;
    // Most changes are the keeper's own payments, which are recorded once they are final. One that
    // was settled meanwhile shows in the rows as they are now.
    const underWay = new Map(
      (await readUnderWay(sql, seen)).map((one) => [one.subscriptionId, one]),
    );
    const again = await readSubscriptions(sql, seen);
    const changed = again
      .filter((row) => {
        const view = snapshot.of(row);
        const account = view instanceof Error ? null : view.subscription;
        return isChanged(withPayment(row, account, underWay.get(row.id)));
      })
      .map(({ id }) => id);
    if (changed.length === 0) return;
    log.debug({ subscriptions: changed.length }, 'subscriptions changed on chain');
    await makeDue(sql, changed, { chainNow: timeOf(snapshot.now), slot: snapshot.slot });
  }

  async #step(): Promise<SweepStep | undefined> {
    const { sql } = this.#context;
    const everySeconds = this.#everySeconds;
    const last = this.#isGap ? await lastPlace(sql) : undefined;
    const step = await stepSweep(sql, {
      pace: { everySeconds, withinSeconds: SPREAD * everySeconds },
      hurry: this.#isGap || this.#goal !== undefined,
      limit: BATCH,
    });
    this.#waitSeconds = step === undefined ? MAX_WAIT_SECONDS : (step.waitSeconds ?? STEP_SECONDS);
    if (step !== undefined && last !== undefined) {
      this.#goal = allRound(step, last);
      this.#isGap = false;
    }
    this.#missed = step?.ids ?? [];
    return step;
  }
}
