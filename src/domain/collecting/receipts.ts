// Adds the URL of the receipt to the events of payments.
import { readReceiptLinks } from '../../db/money/receipts.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { receiptUrl } from '../accounts/receipts.ts';
import type { SubscriptionUpdate } from './transitions.ts';

type NewEvent = SubscriptionUpdate['events'][number];

/**
 * Returns a function that adds `receiptUrl` to payment_success events and leaves other events as
 * they are.
 */
export async function addReceipts(
  sql: Queryable,
  outcomes: readonly { readonly update: SubscriptionUpdate }[],
): Promise<(subscriptionId: string, event: NewEvent) => NewEvent> {
  const isNeeded = outcomes.some(({ update }) =>
    update.events.some(({ type }) => type === 'payment_success'),
  );
  const links = isNeeded ? await readReceiptLinks(sql) : undefined;
  return (subscriptionId, event) => {
    const { type, extra = {} } = event;
    if (links === undefined || type !== 'payment_success') return event;
    const { txSignature = null, periodStart } = extra;
    if (!(periodStart instanceof Date) || (typeof txSignature !== 'string' && txSignature !== null))
      throw new Error('a payment_success without its period or signature');
    const payment = { subscriptionId, txSignature, periodStart };
    return { ...event, extra: { ...extra, receiptUrl: receiptUrl(links, payment) } };
  };
}
