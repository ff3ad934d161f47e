// A merchant forgives an open invoice: it is void, its time counts as covered, and nothing is
// collected for that time any more.
import { findInvoice, type InvoiceRow } from '../../db/money/invoice-lists.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import { forgiveInvoice } from '../../db/subscriptions/forgiven.ts';
import { ServiceError } from '../../errors.ts';
import { appendEvents } from '../outbox/events.ts';

/**
 * Forgives the invoice and writes the event once; a repeated call changes nothing. Throws CONFLICT
 * when the invoice is closed otherwise, while a payment may still pay it, and when its subscription
 * has ended.
 */
export async function forgive(sql: Transaction, invoice: InvoiceRow): Promise<void> {
  const { id, subscriptionId, total, amountDue, coversFrom, coversTo } = invoice;
  const forgiven = await forgiveInvoice(sql, invoice);
  if (forgiven === undefined) {
    refuseClosed((await findInvoice(sql, id)) ?? invoice);
    return;
  }
  const extra = {
    ...{ invoiceId: id, voidReason: 'forgiven', total, amountDue, coversFrom, coversTo },
    nextPaymentDue: forgiven.nextPaymentDue,
  };
  await appendEvents(sql, [{ subscriptionId, type: 'invoice_voided', extra }]);
}

/** Throws CONFLICT with what to do, unless the invoice is forgiven. */
function refuseClosed({ state, voidReason, status }: InvoiceRow): void {
  if (voidReason === 'forgiven') return;
  throw new ServiceError('CONFLICT', reasonOf(state, voidReason, status));
}

function reasonOf(
  state: InvoiceRow['state'],
  voidReason: InvoiceRow['voidReason'],
  status: string,
): string {
  if (state === 'paid') return 'The invoice is paid: refund its payment instead.';
  if (state === 'uncollectible')
    return 'The invoice is uncollectible: nothing more is collected for it.';
  if (voidReason === 'replaced')
    return 'Another invoice has replaced this one: forgive that one, which is open.';
  if (state === 'void') return 'The invoice is void: nothing more is collected for it.';
  if (status === 'cancelled' || status === 'expired')
    return `The subscription is ${status}: nothing more is collected for it.`;
  return 'A payment of the invoice is being collected. Read the invoice again in a minute: it is paid, or open and can be forgiven.';
}
