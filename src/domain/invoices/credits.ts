// The credit of a change of plan: the unused part of what was paid to the replaced subscription.
// Pure.
//
//   paid period -> unused part (by seconds) -> credit of the new subscription
//   credit -> spent on its next payments, before anything is pulled -> 0
//
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { coveredUntil } from '../accounts/access.ts';
import { floorTo, unitOf } from './terms.ts';

/** A payment from which a change of plan may take the unused part. Amounts are base units. */
interface PaidPart {
  readonly amountGross: bigint;
  readonly amountNet: bigint;
  /** Credit that was spent on the payment's period. */
  readonly creditSpent: bigint;
  /** Refunds whose transfers are finalized. */
  readonly refunded: bigint;
  /** Whether the transfer of a further refund may still land. */
  readonly isRefundPending: boolean;
  /** The payment covers the time from `coversFrom` to `periodEnd`. */
  readonly coversFrom: Date;
  readonly periodEnd: Date;
  /** What the invoice charges for the time: its plan lines with their discount and tax. */
  readonly planTotal: bigint;
  /** The plan's amount, which decides the rounding (unitOf). */
  readonly planAmount: bigint;
}

/**
 * Returns the unused part of a payment at the time `at` (Unix seconds). It is rounded up to whole
 * cents if the plan's amount is whole cents, but is never above the value of the payment.
 * Otherwise it is rounded down. The unused part is the value of the payment times the unused share
 * of the covered time. The value is the collected amount minus refunds, plus the spent credit, but
 * at most what the invoice charges for the time. If the net amount was refunded in full, the
 * collected amount counts as 0. The platform fee, which is not refunded, then gives no credit.
 */
export function unusedPart(paid: Omit<PaidPart, 'isRefundPending'>, at: bigint): bigint {
  const [from, end] = [unixSeconds(paid.coversFrom), unixSeconds(paid.periodEnd)];
  const isReturned = paid.amountNet > 0n && paid.refunded >= paid.amountNet;
  const cash = isReturned ? 0n : paid.amountGross - paid.refunded;
  const value = lesser(cash + paid.creditSpent, paid.planTotal);
  if (at >= end || value <= 0n) return 0n;
  if (at <= from) return value;
  const unused = value * (end - at);
  const [length, unit] = [end - from, unitOf(paid.planAmount)];
  if (unit === 1n) return unused / length;
  const above = (unused + length - 1n) / length + unit - 1n;
  return lesser(floorTo(unit, above), value);
}

const lesser = (one: bigint, other: bigint): bigint => (one < other ? one : other);

/** A subscription that this change of plan or an earlier change of plan replaces. */
interface ReplacedTerms {
  readonly id: string;
  readonly status: string;
  readonly paidThrough: Date | null;
  readonly trialEndsAt: Date | null;
  readonly startsAt: Date | null;
  readonly credit: bigint;
}

/** What the new subscription takes over. Amounts are base units. */
export interface Taken {
  /** The unused part of each payment, by the payment's id. */
  readonly parts: readonly { readonly id: string; readonly amount: bigint }[];
  readonly credit: bigint;
  /** Time to which the first payment is deferred; null if it is due at once. */
  readonly startsAt: Date | null;
  /** Time at which the replaced subscription ends. */
  readonly endsAt: Date;
}

/**
 * Returns what a change of plan at the time `at` (Unix seconds) takes over. `rows` begins with the
 * replaced subscription. While the first payment of a row is deferred, the next row is the
 * subscription that this row replaced. `paid` has the payments for the time after `at`, by the id
 * of the row; `period_end` needs only those of the first row. For `now`, returns undefined while a
 * refund of such a payment is pending, because the credit depends on whether the refund's transfer
 * lands.
 */
export function takenFrom(
  rows: readonly ReplacedTerms[],
  paid: ReadonlyMap<string, readonly (PaidPart & { readonly id: string })[]>,
  { when, at }: { when: 'now' | 'period_end'; at: bigint },
): Taken | undefined {
  const [first] = rows;
  if (first === undefined) throw new Error('a change of plan replaces nothing');
  const now = timeOf(at);
  if (when === 'period_end') {
    const paidThrough = (paid.get(first.id) ?? []).reduce<Date | null>(
      (end, { periodEnd }) => latest(end, periodEnd),
      first.paidThrough,
    );
    const covered = latest(coveredUntil({ ...first, paidThrough }), first.startsAt);
    const startsAt = covered !== null && covered > now ? covered : null;
    return { parts: [], credit: first.credit, startsAt, endsAt: startsAt ?? now };
  }
  const running = rows
    .flatMap((row) => paid.get(row.id) ?? [])
    .filter(({ periodEnd }) => periodEnd > now);
  if (running.some(({ isRefundPending }) => isRefundPending)) return undefined;
  // Two registrations of one account share its payments, so each payment is counted once.
  const byId = new Map(running.map((part) => [part.id, part]));
  const parts = [...byId.values()].map((part) => ({ id: part.id, amount: unusedPart(part, at) }));
  const credit = parts.reduce((sum, { amount }) => sum + amount, first.credit);
  return { parts, credit, startsAt: null, endsAt: now };
}

/** The later of two times; null if both are null. */
export function latest(one: Date | null, other: Date | null): Date | null {
  if (one === null || other === null) return one ?? other;
  return one > other ? one : other;
}
