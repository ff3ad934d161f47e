// Previews the invoice of a subscription's next payment: the open one, or what would be drawn up.
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { type Invoice, sumColumns } from '../../db/invoices/invoices.ts';
import { anyInvoice, type InvoiceRow, listInvoices } from '../../db/money/invoice-lists.ts';
import { readClock } from '../../db/postgres/clock.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { type KeeperSubscription, readSubscriptions } from '../../db/subscriptions/work.ts';
import { periodAt, periodLength } from '../invoices/cover.ts';
import { cutAt } from '../invoices/upcoming.ts';
import { dueInvoice } from './due-invoice.ts';
import { isLive, updateOf } from './transitions.ts';

/** An invoice that may not be drawn up yet: then it has neither an id nor drawnUpAt. */
type Upcoming = Omit<
  InvoiceRow,
  'id' | 'drawnUpAt' | 'state' | 'voidReason' | 'closedAt' | 'createdAt' | 'status'
> & { id: string | null; drawnUpAt: Date | null; asOf: Date };

/**
 * Reads the open invoice of a subscription, or draws up that of its next payment by the terms of
 * this time without storing it. Null where no payment will be due. `minimum` is the minimum amount
 * in base units.
 */
export async function readUpcoming(
  sql: Queryable,
  { id, appId }: { id: string; appId: string },
  minimum: bigint,
): Promise<Upcoming | null> {
  const [row] = await readSubscriptions(sql, [id]);
  if (row === undefined) return null;
  const asOf = new Date(await readClock(sql));
  const invoice = upcomingInvoice(row, { asOf, minimum });
  if (invoice === null) return null;
  const isOpen = { ...anyInvoice, subscriptionId: id, state: ['open'] };
  const [open] = await listInvoices(sql, appId, isOpen, { after: null, limit: 1 });
  // The row lacks the open invoice while an attempt may still pay it.
  if (open !== undefined && (invoice.id !== null || row.invoice === null)) return { ...open, asOf };
  const { planId, customerId, subscriberWallet, externalId } = row;
  const nothing = { usageAmount: 0n, itemsAmount: 0n, taxAmount: 0n };
  return {
    ...{ ...invoice, ...sumColumns(invoice), ...nothing, id: null, drawnUpAt: null, asOf },
    ...{ appId, planId, subscriptionId: id, customerId, subscriberWallet, externalId },
  };
}

/**
 * The invoice that a keeper would collect for the next payment if it were due: it is drawn up at
 * the due time, or at `asOf` if that is later. Null where no payment will be due.
 */
export function upcomingInvoice(
  row: KeeperSubscription,
  { asOf, minimum }: { asOf: Date; minimum: bigint },
): Invoice | null {
  const { status, nextPaymentDue: due, planEndsAt } = row;
  if (due === null || !isLive(row)) return null;
  const now = asOf > due ? asOf : due;
  // The next try of a past-due payment is inside the unpaid period or exactly at its end.
  const isRetried = status === 'past_due' && asOf < due;
  const within = unixSeconds(now) - (isRetried ? 1n : 0n);
  const anchor = row.periodAnchor ?? row.chainPeriodStart ?? timeOf(within);
  const start = unixSeconds(anchor);
  const whole =
    within < start ? { start, end: start + periodLength(row) } : periodAt(row, anchor, within);
  const period = cutAt(planEndsAt, whole);
  if (period.end <= period.start) return null;
  return dueInvoice(updateOf(row), period, { now: unixSeconds(now), minimum }).invoice;
}
