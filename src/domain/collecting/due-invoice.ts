// The invoice that is collected for a period: the one that stands, or one that is drawn up now.
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { Invoice } from '../../db/invoices/invoices.ts';
import { openOf } from '../invoices/allocate.ts';
import {
  closeOpen,
  closeUnpaid,
  freeFrom,
  givenBack,
  isInterrupted,
  newInvoice,
  openInvoice,
} from '../invoices/closing.ts';
import { chargeStart, type Period } from '../invoices/cover.ts';
import { drawUp } from '../invoices/draw-up.ts';
import { billedFromOf } from './late.ts';
import { type SubscriptionUpdate, termsOf } from './transitions.ts';

/** Seconds (72 h) after which an untried invoice is replaced: access has ended by then. */
const UNTRIED_SECONDS = 259_200n;

/** The invoice to collect for a period, and what changes once it is written and tried. */
export interface Due {
  /** The update does not have it yet if it is new. */
  readonly invoice: Invoice;
  /** The open invoice that a new one replaces as soon as that is written. */
  readonly replaces: Invoice | null;
}

/** Returns what to collect for a period. `minimum` is the minimum amount in base units. */
export function dueInvoice(
  update: SubscriptionUpdate,
  period: Period,
  { now, minimum }: { now: bigint; minimum: bigint },
): Due {
  const open = openOf(update, period);
  const isLeft = open !== null && isUntried(update, open, now);
  if (open !== null && !isLeft) return { invoice: open, replaces: null };
  const terms = termsOf(update);
  const late = isLeft ? timeOf(now) : billedFromOf(terms, period.start, now);
  // Another invoice may have ended in the second from which the period is charged.
  const from = chargeStart({ ...terms, billedFrom: late }, period.start);
  const free = open === null ? freeFrom(update, period, from) : from;
  const billedFrom = free > from ? timeOf(free) : late;
  const credit = terms.credit + (open === null ? 0n : givenBack(update, open));
  const drawn = drawUp({ ...terms, billedFrom, credit }, period, { minimum });
  return { invoice: newInvoice(drawn, period, now), replaces: open };
}

/**
 * Whether the service did not collect the invoice for UNTRIED_SECONDS. It is then replaced, and
 * only the time from its next try on is charged.
 */
const isUntried = ({ row }: SubscriptionUpdate, open: Invoice, now: bigint): boolean =>
  now - unixSeconds(open.dueAt) > UNTRIED_SECONDS &&
  open.failedTries === 0 &&
  row.status === 'active';

/**
 * What the first try of an invoice changes besides: the one that it replaces is closed, and the
 * subscription is billed from the start of its cover, if its terms said an earlier time.
 */
export function noteTried(
  update: SubscriptionUpdate,
  { invoice, replaces }: Due,
  now: bigint,
): void {
  if (replaces !== null) closeUnpaid(update, replaces, 'replaced', timeOf(now));
  const { coversFrom, periodStart } = invoice;
  if (coversFrom === null || periodStart === null) return;
  const from = chargeStart(termsOf(update), unixSeconds(periodStart));
  if (unixSeconds(coversFrom) > from) update.state.billedFrom = coversFrom;
}

/** Closes the open invoice if the subscription was paused since it was drawn up. */
export function closeInterrupted(update: SubscriptionUpdate, now: bigint): void {
  const open = openInvoice(update);
  if (open !== null && isInterrupted(update.row, open)) closeOpen(update, 'ended', timeOf(now));
}

/** Closes the open invoice if its period is over. */
export function closeOver(update: SubscriptionUpdate, now: bigint): void {
  const end = openInvoice(update)?.periodEnd ?? null;
  if (end !== null && end <= timeOf(now)) closeOpen(update, 'uncollectible', timeOf(now));
}
