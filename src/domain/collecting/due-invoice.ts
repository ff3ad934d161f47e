// The invoice that is collected for a period: the one that stands, or one that is drawn up now.
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { Invoice } from '../../db/invoices/invoices.ts';
import { openOf } from '../invoices/allocate.ts';
import {
  closeOpen,
  closeUnpaid,
  freeFrom,
  isInterrupted,
  newInvoice,
  openInvoice,
} from '../invoices/closing.ts';
import { chargeStart, type Period } from '../invoices/cover.ts';
import { drawUp } from '../invoices/draw-up.ts';
import { chargedFromOf } from './late.ts';
import { type SubscriptionUpdate, termsOf } from './transitions.ts';

/** Seconds (72 h) after which an untried invoice is replaced: access has ended by then. */
const UNTRIED_SECONDS = 259_200n;

/**
 * Returns the invoice to collect, which the update does not have yet if it is new, and the
 * subscription's chargedFrom once it is tried. `minimum` is the minimum amount to collect in base
 * units.
 */
export function dueInvoice(
  update: SubscriptionUpdate,
  period: Period,
  { now, minimum }: { now: bigint; minimum: bigint },
): { invoice: Invoice; chargedFrom: Date | null } {
  const standing = standingInvoice(update, period, now);
  if (standing !== null) return { invoice: standing, chargedFrom: update.state.chargedFrom };
  const terms = termsOf(update);
  const tried = { ...terms, chargedFrom: chargedFromOf(terms, period.start, now) };
  // Another invoice may have ended in the second from which the period is charged.
  const from = chargeStart(tried, period.start);
  const free = freeFrom(update, period, from);
  const chargedFrom = free > from ? timeOf(free) : tried.chargedFrom;
  const drawn = drawUp({ ...tried, chargedFrom }, period, { minimum });
  return { invoice: newInvoice(drawn, period, now), chargedFrom };
}

/**
 * The open invoice of the period, which a retry collects as it stands. If the service did not
 * collect it for UNTRIED_SECONDS, it is replaced, and only the time from now on is charged.
 */
function standingInvoice(update: SubscriptionUpdate, period: Period, now: bigint): Invoice | null {
  const open = openOf(update, period);
  if (open === null) return null;
  const isStale = now - unixSeconds(open.dueAt) > UNTRIED_SECONDS;
  if (!isStale || open.failedTries > 0 || update.row.status !== 'active') return open;
  closeUnpaid(update, open, 'replaced', timeOf(now));
  update.state.chargedFrom = timeOf(now);
  return null;
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
