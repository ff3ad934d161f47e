// A wrong clock of one endpoint could move a payment into the period before or after its own. The
// program limits the sum of a period, so this is harmless if that period has no room for the
// payment. A wrong clock could also end a wait too early. A payment that is at risk is signed only
// if no endpoint contradicts the clock that it was decided by, and not so near the start of its
// period that a clock which none contradicts could be ahead of it. window.ts guards the end.
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { periodSeconds } from '../../chain/program/period.ts';
import { RpcError, RpcUnreachable } from '../../chain/rpc/errors.ts';
import type { Rpc } from '../../chain/rpc/rpc.ts';
import { unixSeconds } from '../../chain/time.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import type { View } from '../../domain/collecting/chain-view.ts';
import {
  type Collectable,
  type Decision,
  keeperFailure,
  retryAt,
} from '../../domain/collecting/decision.ts';
import type { Context } from '../base/context.ts';
import { fitsBeside } from '../read/dead.ts';
import { alarm } from '../track/reports.ts';

/** Maximum difference (s) between the clocks of two endpoints. */
const MAX_SECONDS_OFF = 30;
/**
 * Seconds after a boundary by which it is past on the chain too: by MAX_SECONDS_OFF a clock may be
 * ahead, and by 10 s the readings of the others may be older (times.clocks.recentMs).
 */
const OPENING_SECONDS = 40n;

/**
 * Compares a clock with the clocks of all endpoints that respond, or with the newest block of one
 * that does not return its clock. An endpoint whose clock is not believed
 * (chain/rpc/trusted-clock.ts) counts as one that does not respond.
 */
export class ClockWitness {
  readonly #parts: Pick<Context, 'rpc' | 'log' | 'metrics' | 'times'>;
  #readings: readonly number[] = [];
  #readAt = -Infinity;
  #disputedSince: number | undefined;
  #alarmedAt = -Infinity;

  constructor(parts: Pick<Context, 'rpc' | 'log' | 'metrics' | 'times'>) {
    this.#parts = parts;
  }

  /** Whether one endpoint is configured, which none can contradict. */
  get isAlone(): boolean {
    return this.#parts.rpc.endpoints() === 1;
  }

  /**
   * Returns the latest clock of all endpoints (Unix seconds) if one of them contradicts `seconds`,
   * else undefined. Readings from before `startedAt` (ms of performance.now()) contradict nothing:
   * the clocks are read again first.
   */
  async contradiction(seconds: bigint, startedAt: number): Promise<bigint | undefined> {
    const passed = performance.now() - this.#readAt;
    const isFar = (reading: number) => Math.abs(reading - Number(seconds)) > MAX_SECONDS_OFF;
    if (
      passed < this.#parts.times.clocks.recentMs &&
      !this.#readings.some((one) => isFar(one + passed / 1000))
    )
      return undefined;
    if (this.#readAt < startedAt) {
      this.#readings = await readClocks(this.#parts.rpc);
      this.#readAt = performance.now();
    }
    const other = this.#readings.find(isFar);
    if (other === undefined) {
      this.#disputedSince = undefined;
      return undefined;
    }
    this.#report(Number(seconds), other);
    return BigInt(Math.max(Number(seconds), ...this.#readings));
  }

  #report(seconds: number, expected: number): void {
    const now = performance.now();
    this.#disputedSince ??= now;
    const { disputeMs, alarmMs } = this.#parts.times.clocks;
    if (now - this.#disputedSince < disputeMs || now - this.#alarmedAt < alarmMs) return;
    this.#alarmedAt = now;
    alarm(this.#parts, 'clock_not_believed', { seconds, expected });
  }
}

async function readClocks(rpc: Pick<Rpc, 'getTimesEverywhere'>): Promise<number[]> {
  try {
    return (await rpc.getTimesEverywhere()).map(Number);
  } catch (error) {
    if (error instanceof RpcError || error instanceof RpcUnreachable) return [];
    throw error;
  }
}

/**
 * Whether a wrong clock does harm to the payment. (1) It is below the plan's whole amount, so it
 * may fit beside another pull of any period. (2) The account's period before has room, and the
 * program books a pull there if a clock was ahead: after a trial, a period that was paid with
 * credit, or one without a keeper. (3) It waits for the wallet's own registration.
 */
function isAtRisk(
  { amounts: { gross }, periodStart }: Collectable,
  row: KeeperSubscription,
  account: SubscriptionAccount | null,
): boolean {
  if (account === null || fitsBeside(gross, row)) return true;
  if (row.isWithoutOffer && row.paidThrough === null) return true;
  if (account.periodStart >= periodStart) return false;
  const isBefore = account.periodStart + periodSeconds(account.periodHours) === periodStart;
  return !isBefore || account.amountPulled < account.amount;
}

/**
 * The time (Unix seconds) from which a payment is in its period on the chain, and after the trial,
 * by any clock that is believed. Null where it cannot be too early: the account is in that period
 * already, or its period before has no room for the payment, so the program refuses it there.
 */
function safeFrom(
  { amounts: { gross }, periodStart }: Collectable,
  { trialEndsAt }: KeeperSubscription,
  account: SubscriptionAccount | null,
): bigint | null {
  const trialEnd = trialEndsAt === null ? 0n : unixSeconds(trialEndsAt);
  if (account === null) return null;
  const isBefore = account.periodStart + periodSeconds(account.periodHours) === periodStart;
  const room = account.amount - (isBefore ? account.amountPulled : 0n);
  const isFitting = account.periodStart < periodStart && gross <= room;
  const boundary = isFitting && periodStart > trialEnd ? periodStart : trialEnd;
  return boundary === 0n ? null : boundary + OPENING_SECONDS;
}

/**
 * Puts off the payments that are at risk: (1) those that could land before their period or before
 * the trial's end, for OPENING_SECONDS, unless a single endpoint is configured; (2) those whose
 * clock an endpoint contradicts, which counts as a failure of the keeper. The clocks are read only
 * for payments at risk. `viewOf` returns the accounts that a payment was decided from.
 */
export async function withWitnessedClock<Row extends KeeperSubscription>(
  witness: ClockWitness,
  decided: readonly { readonly row: Row; readonly decision: Decision }[],
  viewOf: (row: Row) => View,
): Promise<{ row: Row; decision: Decision }[]> {
  const startedAt = performance.now();
  const checked: { row: Row; decision: Decision }[] = [];
  for (const { row, decision } of decided) {
    const { collect, update, alert } = decision;
    const view = viewOf(row);
    if (collect === undefined || view instanceof Error) {
      checked.push({ row, decision });
      continue;
    }
    const from = witness.isAlone ? null : safeFrom(collect, row, view.subscription);
    if (from !== null && view.now < from) {
      checked.push({ row, decision: { ...retryAt(update, from), ...(alert && { alert }) } });
      continue;
    }
    const latest = isAtRisk(collect, row, view.subscription)
      ? await witness.contradiction(view.now, startedAt)
      : undefined;
    if (latest === undefined) checked.push({ row, decision });
    else {
      // The delay counts from the latest clock, so that the payment is not due again at once.
      const putOff = keeperFailure(update, { ...view, now: latest });
      checked.push({ row, decision: { ...putOff, ...(alert && { alert }) } });
    }
  }
  return checked;
}
