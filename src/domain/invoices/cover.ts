// Computes which part of a period is charged. Only the rest of the period is charged if, inside the
// period, a trial or a pause ends or the wallet resumes or registers. Times are Unix seconds. Pure.
import { periodSeconds } from '../../chain/program/period.ts';
import { unixSeconds } from '../../chain/time.ts';
import type { BillingTerms, ChargeTimes } from './terms.ts';

/** A period on chain. `end` is the plan's end if the plan ends inside the period. */
export interface Period {
  readonly start: bigint;
  readonly end: bigint;
}

/** The charged part of a period. */
export interface Cover {
  readonly from: bigint;
  readonly to: bigint;
  readonly seconds: bigint;
  /** Length of a whole period in seconds. */
  readonly length: bigint;
  readonly isWhole: boolean;
}

/** The part of the period that is charged. `seconds` is 0 if the charge begins after its end. */
export function coverOf(
  terms: ChargeTimes & Pick<BillingTerms, 'periodHours'>,
  { start, end }: Period,
): Cover {
  const from = chargeStart(terms, start);
  const seconds = from < end ? end - from : 0n;
  const length = periodLength(terms);
  return { from, to: end, seconds, length, isWhole: seconds >= length };
}

/** The time from which the period that starts at `start` is charged. */
export const chargeStart = (terms: ChargeTimes, start: bigint): bigint =>
  latest(start, startOfCharge(terms));

/**
 * The time from which the subscriber is charged: the latest of the end of the trial, billedFrom and
 * startsAt. Null when all are null.
 */
function startOfCharge({ trialEndsAt, billedFrom, startsAt = null }: ChargeTimes): bigint | null {
  const times = [trialEndsAt, billedFrom, startsAt].flatMap((time) =>
    time === null ? [] : [unixSeconds(time)],
  );
  return times.reduce<bigint | null>((last, time) => latest(time, last), null);
}

/**
 * Returns the due time of a payment. `next` is the time from which the chain allows the payment.
 * The payment is not due before the trial has ended, and not before `startsAt`, to which a change
 * of plan has deferred the payment.
 */
export function notInTrial(
  { trialEndsAt, startsAt = null }: Pick<ChargeTimes, 'trialEndsAt' | 'startsAt'>,
  next: Date,
): Date {
  return [trialEndsAt, startsAt].reduce<Date>(
    (last, time) => (time !== null && time > last ? time : last),
    next,
  );
}

/** Length of a period in seconds. */
export const periodLength = ({ periodHours }: Pick<BillingTerms, 'periodHours'>): bigint =>
  periodSeconds(BigInt(periodHours));

/** The period that contains the time `at`. `anchor` is the start of any period. */
export function periodAt(
  terms: Pick<BillingTerms, 'periodHours'>,
  anchor: Date,
  at: bigint,
): Period {
  const length = periodLength(terms);
  const first = unixSeconds(anchor);
  const start = first + ((at - first) / length) * length;
  return { start, end: start + length };
}

function latest(time: bigint, other: bigint | null): bigint {
  return other !== null && other > time ? other : time;
}
