// Guards payments against an endpoint's wrong clock, which could move a payment into the period
// before or after its own, or end a wait too early. The program limits the sum of a period, so a
// period without room for the payment is safe. A payment at risk is signed only if (1) no endpoint
// contradicts the clock used, and (2) its period began so long ago that an uncontradicted clock
// error does not matter. window.ts guards the end of the period.
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { periodSeconds } from '../../chain/program/period.ts';
import { RpcError, RpcUnreachable } from '../../chain/rpc/errors.ts';
import type { Rpc } from '../../chain/rpc/rpc.ts';
import { unixSeconds } from '../../chain/time.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import type { ViewOrError } from '../../domain/collecting/chain-view.ts';
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
 * Safety margin (s) after a boundary: MAX_SECONDS_OFF for a clock that is ahead, and 10 s for older
 * readings of other endpoints (times.clocks.recentMs).
 */
const OPENING_SECONDS = 40n;

/**
 * Compares a clock with the clocks of all endpoints that respond. For an endpoint that does not
 * return its clock, its newest block is used. An endpoint with an implausible clock
 * (chain/rpc/trusted-clock.ts) counts as not responding.
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

  /** Whether only one endpoint is configured, so that no other can contradict it. */
  get isAlone(): boolean {
    return this.#parts.rpc.endpoints() === 1;
  }

  /**
   * Returns the latest clock of all endpoints (Unix seconds) if one of them contradicts `seconds`,
   * else undefined. If the readings are from before `startedAt` (ms of performance.now()), the
   * clocks are read again first.
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
 * Whether a wrong clock could harm the payment: (1) The payment is below the plan's whole amount,
 * so it may fit beside another pull of any period. (2) The account's previous period has room, so
 * the program would book the pull there if a clock was ahead. This happens after a trial, a period
 * that was paid with credit, or a period without a keeper. (3) The payment waits for the wallet's
 * own registration.
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
 * The time (Unix seconds) from which the payment is in its period, and after the trial, by every
 * trusted clock. Null if the payment cannot be too early: the account is already in that period, or
 * its previous period has no room for the payment.
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
 * Postpones the payments at risk. (1) If the payment could land before its period or the trial's
 * end: by OPENING_SECONDS, unless only one endpoint is configured. (2) If an endpoint contradicts
 * the clock: as a keeper failure. The clocks are read only for payments at risk. `viewOf` returns
 * the accounts from which a payment was decided.
 */
export async function withWitnessedClock<Row extends KeeperSubscription>(
  witness: ClockWitness,
  decided: readonly { readonly row: Row; readonly decision: Decision }[],
  viewOf: (row: Row) => ViewOrError,
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
      // The delay starts at the latest clock, so that the payment is not due again at once.
      const putOff = keeperFailure(update, { ...view, now: latest });
      checked.push({ row, decision: { ...putOff, ...(alert && { alert }) } });
    }
  }
  return checked;
}
