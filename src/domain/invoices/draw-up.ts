// Draws up the invoice of a period: its lines, its sums, and the parts that credit and wallet pay.
// Pure.
//
//   plan line (the charged part of the plan's amount, rounded down)
//   - discount (rounded up)
//   - adjustment (what is not charged: a part below the minimum, or beyond the room)
//   = total = credit applied + amount due (what is pulled)
//
// Where the plan's amount is whole cents, all lines are.
import type { InvoiceSums, Line } from '../../db/invoices/invoices.ts';
import { type Cover, coverOf, type Period } from './cover.ts';
import { type BillingTerms, discountOf, floorTo, priceOf, unitOf } from './terms.ts';

/** An invoice of a period as it is drawn up. */
export interface DrawnUp extends InvoiceSums {
  readonly cover: Cover;
}

/** What limits an invoice, in base units. */
export interface Limits {
  /** Minimum amount to pull, because each pull costs the operator lamports. */
  readonly minimum: bigint;
  /** What the chain still allows to be pulled in the period. Default: the plan's amount. */
  readonly room?: bigint;
}

/** Draws up the invoice of a period. If nothing of the period is charged, its total is 0. */
export function drawUp(
  terms: BillingTerms,
  period: Period,
  { minimum, room = terms.amount }: Limits,
): DrawnUp {
  const cover = coverOf(terms, period);
  const unit = unitOf(terms.amount);
  const charged = (amount: bigint) =>
    cover.isWhole ? amount : floorTo(unit, (amount * cover.seconds) / cover.length);
  const plan = charged(terms.amount);
  const price = charged(priceOf(terms));
  const isUncollected = !cover.isWhole && price < minimum;
  const { creditApplied, amountDue } = isUncollected
    ? { creditApplied: 0n, amountDue: 0n }
    : payable(price, { credit: terms.credit ?? 0n, minimum, room, unit });
  const total = creditApplied + amountDue;
  const lines: Line[] = [
    { kind: 'plan', amount: plan },
    { kind: 'discount', amount: price - plan },
    { kind: 'adjustment', amount: total - price, source: isUncollected ? 'minimum' : 'room' },
  ];
  const shown = lines.filter(({ kind, amount }) => kind === 'plan' || amount !== 0n);
  const isReduced = total > 0n && discountOf(terms) !== null;
  const discountId = isReduced ? (terms.discountId ?? null) : null;
  return { cover, lines: shown, total, creditApplied, amountDue, discountId };
}

/**
 * The price of a period in base units: the total of its invoice without a minimum, paid by credit
 * or wallet.
 */
export const totalOf = (terms: BillingTerms, period: Period): bigint =>
  drawUp(terms, period, { minimum: 0n }).total;

/**
 * Divides `price` into the part that the credit pays and the part to pull. The credit pays first,
 * and leaves nothing or at least `minimum` to pull. Leaves out what neither the credit nor the room
 * can pay, in multiples of `unit`.
 */
export function payable(
  price: bigint,
  { credit, minimum, room, unit }: { credit: bigint; minimum: bigint; room: bigint; unit: bigint },
): { creditApplied: bigint; amountDue: bigint } {
  const creditApplied = creditFor(credit, price, minimum);
  if (price - creditApplied <= room) return { creditApplied, amountDue: price - creditApplied };
  const left = floorTo(unit, room);
  const byCredit = floorTo(unit, credit < price ? credit : price);
  return { creditApplied: byCredit, amountDue: left < minimum ? 0n : left };
}

/**
 * Returns the part of `due` that the credit pays. The rest of `due` is pulled. A credit that cannot
 * pay all of `due` leaves at least `minimum` to pull. If `due` is at most `minimum`, the credit
 * pays all of `due` or nothing.
 */
export function creditFor(credit: bigint, due: bigint, minimum: bigint): bigint {
  if (credit >= due) return due;
  if (due - credit >= minimum) return credit;
  return due > minimum ? due - minimum : 0n;
}
