// The states of invoices: drawn up, open, closed. Pure.
//
//   open -> paid
//   open -> void (forgiven | replaced | ended | offer)
//   open -> uncollectible -> paid (only if its pull is found after all)
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { Invoice } from '../../db/invoices/invoices.ts';
import type { Period } from './cover.ts';
import type { DrawnUp } from './draw-up.ts';

/** The invoices of a subscription's update. */
export interface Invoicing {
  /**
   * `invoice`: the invoice of the newest period, unless it is paid or an attempt may still pay it.
   */
  readonly row: {
    readonly id: string;
    readonly customerId: string;
    readonly invoice: Invoice | null;
  };
  /** The invoices that the update draws up or changes. */
  readonly invoices: Invoice[];
}

/** An open invoice of `period` that is drawn up at the chain time `at` (Unix seconds). */
export function newInvoice(
  {
    cover,
    ...sums
  }: Omit<DrawnUp, 'cover'> & { readonly cover: Pick<DrawnUp['cover'], 'from' | 'to'> },
  period: Period,
  at: bigint,
): Invoice {
  return {
    ...sums,
    ...{ id: null, subscriptionId: null, customerId: null, reason: 'period' },
    ...{ state: 'open', voidReason: null },
    ...{ periodStart: timeOf(period.start), periodEnd: timeOf(period.end) },
    ...{ coversFrom: timeOf(cover.from), coversTo: timeOf(cover.to), dueAt: timeOf(cover.from) },
    ...{ failedTries: 0, nextTryAt: null, drawnUpAt: timeOf(at), closedAt: null },
  };
}

/** The invoice as the update has changed it. */
export const asChanged = <I extends Invoice | null>(
  { invoices }: Invoicing,
  invoice: I,
): Invoice | I =>
  invoices.find((one) => one === invoice || (one.id !== null && one.id === invoice?.id)) ?? invoice;

/** Enters an invoice into the update, as a copy that the update may change. */
function enter(update: Invoicing, invoice: Invoice): Invoice {
  const known = asChanged(update, invoice);
  if (update.invoices.includes(known)) return known;
  const copy = { ...invoice };
  update.invoices.push(copy);
  return copy;
}

/** The row's invoice if it is open. */
export function openInvoice(update: Invoicing): Invoice | null {
  const invoice = asChanged(update, update.row.invoice);
  return invoice?.state === 'open' ? invoice : null;
}

/**
 * The first time from `from` on (Unix seconds) from which another invoice may cover the period:
 * `from`, or the second after the start of a cover that another invoice of the period has. That is
 * the row's invoice, which ended with a pause, or `billed`, which may be of another registration.
 */
export function freeFrom(
  update: Invoicing,
  period: Period,
  from: bigint,
  billed: Invoice | null = null,
): bigint {
  return [update.row.invoice, billed].reduce((free, one) => {
    const invoice = asChanged(update, one);
    const covers = invoice?.coversFrom ?? null;
    if (invoice === null || covers === null) return free;
    if (!isStanding(invoice) || !isOf(invoice, period)) return free;
    const taken = unixSeconds(covers);
    return taken >= free ? taken + 1n : free;
  }, from);
}

/** Whether no other invoice may have its cover: it is neither replaced nor of a dead offer. */
const isStanding = ({ voidReason }: Invoice): boolean =>
  voidReason !== 'replaced' && voidReason !== 'offer';

/** Whether it is the invoice of the period. */
export const isOf = ({ periodStart }: Pick<Invoice, 'periodStart'>, { start }: Period): boolean =>
  periodStart?.getTime() === timeOf(start).getTime();

/** Whether the subscription is paused, or was since the start of the invoice's cover. */
export const isInterrupted = (
  { pausedAt, billedFrom }: { readonly pausedAt: Date | null; readonly billedFrom: Date | null },
  { coversFrom }: Invoice,
): boolean =>
  pausedAt !== null || (billedFrom !== null && coversFrom !== null && billedFrom > coversFrom);

/** How an invoice is closed without a payment. */
export type Unpaid = 'uncollectible' | 'replaced' | 'ended';

/** Closes an invoice without a payment, at the chain time `at`. */
export function closeUnpaid(update: Invoicing, invoice: Invoice, how: Unpaid, at: Date): void {
  const closed = enter(update, invoice);
  closed.state = how === 'uncollectible' ? how : 'void';
  closed.voidReason = how === 'uncollectible' ? null : how;
  closed.nextTryAt = null;
  closed.closedAt = at;
}

/**
 * The credit (base units) that the row's customer gets back when the invoice is closed without a
 * payment. If the merchant has given the subscription to another customer since, that is nothing.
 */
export const givenBack = (
  { row }: Pick<Invoicing, 'row'>,
  { id, customerId, creditApplied }: Invoice,
): bigint => (id !== null && customerId === row.customerId ? creditApplied : 0n);

/** Closes the row's open invoice, if there is one. */
export function closeOpen(update: Invoicing, how: Unpaid, at: Date): void {
  const open = openInvoice(update);
  if (open !== null) closeUnpaid(update, open, how, at);
}

/** Closes an invoice as paid, at the chain time `at`. Returns the entered invoice. */
export function pay(update: Invoicing, invoice: Invoice, at: Date): Invoice {
  const paid = enter(update, invoice);
  paid.state = 'paid';
  paid.nextTryAt = null;
  paid.closedAt = at;
  return paid;
}

/** Counts a failed try. The next one is at `next`; null: this was the last one. */
export function countFailure(
  update: Invoicing,
  invoice: Invoice,
  { at, next }: { at: Date; next: Date | null },
): Invoice {
  const failed = enter(update, invoice);
  failed.failedTries += 1;
  failed.nextTryAt = next;
  if (next === null) closeUnpaid(update, failed, 'uncollectible', at);
  return failed;
}
