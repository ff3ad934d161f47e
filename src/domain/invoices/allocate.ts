// Which invoice a pull pays. Pure.
//
//   a pull with an attempt          -> the attempt's invoice
//   a pull of ours without one      -> the open invoice of its period with this amount due
//   any other pull of an unpaid period -> a new invoice, as of the pull; the open one is replaced
import { timeOf } from '../../chain/time.ts';
import type { Invoice, Line } from '../../db/invoices/invoices.ts';
import {
  asChanged,
  closeUnpaid,
  freeFrom,
  givenBack,
  type Invoicing,
  isOf,
  newInvoice,
  openInvoice,
  pay,
} from './closing.ts';
import { coverOf, type Period } from './cover.ts';
import { drawUp, totalOf } from './draw-up.ts';
import { type BillingTerms, NO_DISCOUNT } from './terms.ts';

/** A pull in the period from `periodStart` to `periodEnd` (Unix seconds). */
interface PaidBy {
  readonly at: bigint;
  readonly periodStart: bigint;
  readonly periodEnd: bigint;
  /** Base units. */
  readonly gross: bigint;
  readonly source: 'keeper' | 'foreign';
  /** The invoice of its attempt. */
  readonly invoice?: Invoice;
  /** The invoice of its period, if it has no attempt. */
  readonly billed?: Invoice;
}

/**
 * Returns the invoice that a pull pays, closed as paid. `terms` are those at the pull. It covers
 * the period that the pull paid, which is later than the signed one if the pull landed late.
 */
export function allocate(
  update: Invoicing,
  terms: BillingTerms & { readonly credit: bigint },
  pull: PaidBy,
): Invoice {
  const period = { start: pull.periodStart, end: pull.periodEnd };
  const at = timeOf(pull.at);
  const open = openInvoice(update);
  const end = open?.periodEnd ?? null;
  const isOver = end !== null && end <= timeOf(period.start);
  const attempted = attemptInvoice(update, pull);
  if (open !== null && isOver && open.id !== attempted?.id)
    closeUnpaid(update, open, 'uncollectible', at);
  const paid = pay(update, attempted ?? withoutAttempt(update, terms, pull, period), at);
  if (isOf(paid, period)) return paid;
  const cover = coveredPart(update, terms, period);
  paid.periodStart = timeOf(period.start);
  paid.periodEnd = timeOf(period.end);
  paid.coversFrom = timeOf(cover.from);
  paid.coversTo = timeOf(cover.to);
  return paid;
}

/**
 * The invoice of the pull's attempt, as the update has changed it. Undefined if it has no attempt,
 * or that of another registration of the account: its invoice stays with that one.
 */
export function attemptInvoice(
  update: Invoicing,
  { invoice }: Pick<PaidBy, 'invoice'>,
): Invoice | undefined {
  if (invoice === undefined) return undefined;
  const { subscriptionId } = invoice;
  const isOwn = subscriptionId === null || subscriptionId === update.row.id;
  return isOwn ? asChanged(update, invoice) : undefined;
}

/**
 * The part of the period that is charged, or the whole period if no part of it is. It begins where
 * no other invoice of the period does (freeFrom).
 */
function coveredPart(update: Invoicing, terms: BillingTerms, period: Period, billed?: Invoice) {
  const { from: charged, to, seconds } = coverOf(terms, period);
  return { from: freeFrom(update, period, seconds === 0n ? period.start : charged, billed), to };
}

function withoutAttempt(
  update: Invoicing,
  terms: BillingTerms & { readonly credit: bigint },
  pull: PaidBy,
  period: Period,
): Invoice {
  const open = openOf(update, period) ?? pull.billed;
  let { credit } = terms;
  if (open?.state === 'open' && open.subscriptionId === update.row.id) {
    if (pull.source === 'keeper' && open.amountDue === pull.gross) return open;
    closeUnpaid(update, open, 'replaced', timeOf(pull.at));
    credit += givenBack(update, open);
  }
  return newInvoice(foundInvoice(update, { ...terms, credit }, pull, period), period, pull.at);
}

/** The row's open invoice, if it is that of the period. */
export function openOf(update: Invoicing, period: Period): Invoice | null {
  const open = openInvoice(update);
  return open !== null && isOf(open, period) ? open : null;
}

/**
 * The invoice of a pull that was found: the price as of the pull. A pull by another puller, or one
 * of ours above the discounted price, got no discount. Credit pays what a pull of ours lacks of the
 * price. An adjustment makes up the rest of the difference.
 */
function foundInvoice(
  update: Invoicing,
  terms: BillingTerms & { readonly credit: bigint },
  { gross, source, billed }: PaidBy,
  period: Period,
) {
  const isDiscounted =
    source === 'keeper' && gross <= totalOf({ ...terms, billedFrom: null }, period);
  const given = isDiscounted ? terms : { ...terms, ...NO_DISCOUNT };
  const { lines, total: price, discountId } = drawUp(given, period, { minimum: 0n });
  const missing = source === 'keeper' && price > gross ? price - gross : 0n;
  const creditApplied = missing < terms.credit ? missing : terms.credit;
  const total = gross + creditApplied;
  const adjustment: Line[] =
    total === price ? [] : [{ kind: 'adjustment', amount: total - price, source: 'pull' }];
  const cover = coveredPart(update, terms, period, billed);
  const sums = { total, creditApplied, amountDue: gross, discountId };
  return { cover, lines: [...lines, ...adjustment], ...sums };
}

/** The invoice of a pull by another puller that pays for no time. */
export function foreignInvoice({ gross, at, periodStart, periodEnd }: PaidBy): Invoice {
  return {
    ...{ id: null, subscriptionId: null, customerId: null, reason: 'foreign' },
    ...{ state: 'paid', voidReason: null },
    ...{ periodStart: timeOf(periodStart), periodEnd: timeOf(periodEnd) },
    ...{ coversFrom: null, coversTo: null, dueAt: timeOf(at), drawnUpAt: timeOf(at) },
    ...{ failedTries: 0, nextTryAt: null, closedAt: timeOf(at) },
    lines: [{ kind: 'adjustment', amount: gross, source: 'pull' }],
    ...{ total: gross, creditApplied: 0n, amountDue: gross, discountId: null },
  };
}
