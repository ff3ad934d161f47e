// The sweep finds changes that the streams missed. It reads every subscription once per
// SWEEP_MINUTES, or sooner after a stream was interrupted or lost messages (stream-check.ts). Ended
// subscriptions are read too, while something can still be pulled from their accounts. The sweep
// only marks changed subscriptions as due. A collect loop then claims each due subscription and
// decides what to do (claim.ts).
import { setTimeout as pause } from 'node:timers/promises';
import { RpcUnreachable } from '../../chain/rpc/errors.ts';
import { timeOf } from '../../chain/time.ts';
import { readUnderWay } from '../../db/money/payment-attempts.ts';
import { outageOf } from '../../db/postgres/outage.ts';
import type { DuePlace } from '../../db/subscriptions/leases.ts';
import { lastPlace, stepSweep, type SweepStep } from '../../db/subscriptions/sweeps.ts';
import {
  type KeeperSubscription,
  makeDue,
  readSubscriptions,
} from '../../db/subscriptions/work.ts';
import { hasChanged, withPayment } from '../../domain/collecting/account-changed.ts';
import { isLive } from '../../domain/collecting/transitions.ts';
import { chunks } from '../../each.ts';
import type { Context } from '../base/context.ts';
import { readSnapshot } from '../read/snapshot.ts';

/**
 * Number of subscriptions per step of the sweep. The accounts of one step are read in about four
 * concurrent requests of 100 accounts. Each subscription has three accounts of its own and shares
 * its other accounts.
 */
const BATCH = 128;
/**
 * Fraction of SWEEP_MINUTES in which one pass reads all subscriptions. The remaining time is a
 * reserve for delays, such as the death of a keeper that has not read its batch yet.
 */
const SPREAD = 0.8;

/**
 * A position of the sweep: the number of the pass (`lap`), and the place in the order of due times.
 */
interface Mark extends DuePlace {
  lap: bigint;
}

/**
 * Returns the position that the sweep must reach to read every subscription once, beginning with
 * this step. If this step starts a pass, this is `last`, the place of the last subscription.
 * Otherwise it is the start of this step, but in the next pass. A subscription that a payment moves
 * to a place after `last` need not be read, because the keeper has read its accounts for the
 * payment.
 */
function allRound({ lap, after }: SweepStep, last: DuePlace): Mark {
  return after.dueAt.getTime() === 0 ? { lap, ...last } : { lap: lap + 1n, ...after };
}

/** Whether this step of the sweep has reached the position `mark`. */
function isPast({ nextLap, place }: SweepStep, mark: Mark): boolean {
  if (nextLap !== mark.lap) return nextLap > mark.lap;
  const byTime = place.dueAt.getTime() - mark.dueAt.getTime();
  return byTime > 0 || (byTime === 0 && place.id >= mark.id);
}

/** This keeper's part of the sweep. All keepers share one position of the sweep, in Postgres. */
export class Sweep {
  readonly #context: Context;
  /** Seconds in which every subscription is read once. */
  readonly #everySeconds: number;
  #isGap = false;
  /**
   * After an interruption of a stream: the position at which the sweep has read every subscription
   * since the interruption. Undefined once the sweep has reached this position.
   */
  #goal: Mark | undefined;
  /**
   * Ids of a batch that this keeper took but could not read yet. The next turn reads this batch
   * first, because the sweep returns to these subscriptions only in its next pass.
   */
  #missed: readonly string[] = [];
  #waitMs = 0;

  constructor(context: Context, { sweepMinutes }: { sweepMinutes: number }) {
    this.#context = context;
    this.#everySeconds = 60 * sweepMinutes;
  }

  /**
   * Runs the next step of the sweep if this step is due. Resolves with true while the sweep is
   * late.
   */
  async turn(): Promise<boolean> {
    const step = this.#missed.length === 0 ? await this.#step() : undefined;
    const isAgain = this.#missed.length > 0 && step === undefined;
    try {
      if (this.#missed.length > 0) await this.#read(this.#missed);
    } catch (error) {
      // After an outage of the chain or of Postgres, the next turn reads the batch again. After any
      // other error the batch is skipped, so that an unusual account cannot stop the sweep.
      if (!(error instanceof RpcUnreachable) && outageOf(error) === undefined) this.#missed = [];
      throw error;
    }
    this.#missed = [];
    if (isAgain) return true;
    if (this.#goal !== undefined && step !== undefined && isPast(step, this.#goal))
      this.#goal = undefined;
    const isLate =
      this.#isGap || this.#goal !== undefined || (step !== undefined && this.#waitMs <= 0);
    if (isLate) await pause(this.#context.times.sweep.catchUpMs);
    return isLate;
  }

  /** Milliseconds until turn() should run again. */
  waitMs(): number {
    return Math.min(this.#context.times.sweep.maxWaitMs, this.#waitMs);
  }

  /** Called after a stream was interrupted. The sweep then reads every subscription soon. */
  gap(): void {
    this.#isGap = true;
  }

  /**
   * Reads the accounts of these subscriptions now. If an account changed, marks its subscription as
   * due. `minSlot` is the slot of a notification. The accounts are read at this slot or later,
   * because an older state would not show the notified change.
   */
  async readNow(ids: readonly string[], minSlot?: bigint): Promise<void> {
    const { sql, rules, log, clock, absence, onRead } = this.#context;
    const rows = await readSubscriptions(sql, [...ids]);
    if (rows.length === 0) return;
    onRead(rows.filter(({ dueAt }) => dueAt !== null));
    const periodsOnly = (row: KeeperSubscription) => !isLive(row);
    const snapshot = await readSnapshot(this.#context, rows, { minSlot, periodsOnly });
    clock.observe(snapshot.now);
    absence.read(rows.length);
    const isChanged = (row: KeeperSubscription) => hasChanged(row, snapshot.of(row), rules);
    const changedIds = rows.filter(isChanged).map(({ id }) => id);
    if (changedIds.length === 0) return;
    // Most changes come from payments in flight. These changes are left out here, because the
    // keeper records them when the payments are final. The rows are read again, because a payment
    // may have been settled since the first read.
    const underWay = new Map(
      (await readUnderWay(sql, changedIds)).map((one) => [one.subscriptionId, one]),
    );
    const again = await readSubscriptions(sql, changedIds);
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

  async #read(ids: readonly string[]): Promise<void> {
    for (const batch of chunks(ids, BATCH)) await this.readNow(batch);
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
    const { maxWaitMs, stepMs } = this.#context.times.sweep;
    const { waitSeconds = null } = step ?? {};
    this.#waitMs =
      step === undefined ? maxWaitMs : waitSeconds === null ? stepMs : waitSeconds * 1000;
    if (step !== undefined && last !== undefined) {
      this.#goal = allRound(step, last);
      this.#isGap = false;
    }
    this.#missed = step?.ids ?? [];
    return step;
  }
}
