// Stores the events of updates. Payments name the invoice that they pay or failed to pay, and an
// invoice that is given up has an event of its own.
import type { Invoice } from '../../db/invoices/invoices.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import type { KeeperSubscriptionForEvents, Written } from '../../db/subscriptions/work.ts';
import { appendEvents, storeEvents } from '../outbox/events.ts';
import { addReceipts } from './receipts.ts';
import { markRecovered } from './recovered.ts';
import type { SubscriptionUpdate, UpdateEvent } from './transitions.ts';

/** The events of an update in their order: after its own, one for each invoice that it gives up. */
export const eventsOf = ({
  events,
  invoices,
}: Pick<SubscriptionUpdate, 'events' | 'invoices'>): UpdateEvent[] => [
  ...events,
  ...invoices
    .filter(({ state, total }) => state === 'uncollectible' && total > 0n)
    .map((invoice): UpdateEvent => {
      const { total, amountDue, coversFrom, coversTo } = invoice;
      const extra = { total, amountDue, coversFrom, coversTo };
      return { type: 'invoice_uncollectible', extra, invoice };
    }),
];

/**
 * Returns a function that adds `invoiceId` and `lines` to the events of invoices. The lines are
 * left out if the plan's amount is the only one. `ids` has the ids of the invoices.
 */
function invoicesNamed(
  ids: ReadonlyMap<Invoice, string>,
): (planAmount: bigint, event: UpdateEvent) => UpdateEvent {
  return (planAmount, { invoice, ...event }) => {
    const invoiceId = invoice && ids.get(invoice);
    if (invoice === undefined || invoiceId === undefined) return event;
    const { lines } = invoice;
    const isPlain = lines.length === 1 && lines[0]?.amount === planAmount;
    const shown = lines.map((line) => ({ ...line, amount: line.amount.toString() }));
    const extra = { ...event.extra, invoiceId, ...(!isPlain && { lines: shown }) };
    return { ...event, extra };
  };
}

/**
 * Stores the events of the written assessments. Resolves with the names of apps and endpoints to
 * notify (db/postgres/notify.ts).
 */
export async function storeNewEvents(
  tx: Transaction,
  outcomes: readonly { update: SubscriptionUpdate; row: KeeperSubscriptionForEvents }[],
  {
    written,
    invoiceIds,
  }: { written: ReadonlyMap<string, Written>; invoiceIds: ReadonlyMap<Invoice, string> },
): Promise<Set<string>> {
  const [recovered, receipted] = await Promise.all([
    markRecovered(tx, outcomes),
    addReceipts(tx, outcomes),
  ]);
  const named = invoicesNamed(invoiceIds);
  const marked = ({ id, amount }: KeeperSubscriptionForEvents, event: UpdateEvent) =>
    named(amount, receipted(id, recovered(event)));
  // The statement that wrote the subscription's state has also assigned the sequence number of the
  // first event. A separate statement for this number would write the row a second time.
  const first = outcomes.flatMap(({ update, row }) => {
    const { state } = update;
    const { eventId = null, createdAt = new Date(0), sequence = 0n } = written.get(row.id) ?? {};
    const [event] = eventsOf(update);
    if (event === undefined || eventId === null) return [];
    const {
      id: subscriptionId,
      appId,
      planId,
      planName,
      subscriptionPda,
      subscriberWallet,
      accountWallet: merchantWallet,
      externalId,
      metadata,
      ownIdsFrom,
      periodHours,
      graceHours,
      trialEndsAt,
      pausedAt,
      replacedAt,
    } = row;
    const { status, paidThrough, nextPaymentDue, cancelRequestedAt, refundedThrough } = state;
    const parties = {
      subscriptionId,
      appId,
      planId,
      planName,
      subscriptionPda,
      subscriberWallet,
      merchantWallet,
      externalId,
      metadata,
      ownIdsFrom,
    };
    const access = { status, paidThrough, nextPaymentDue, cancelRequestedAt, refundedThrough };
    const terms = { periodHours, graceHours, trialEndsAt, pausedAt, replacedAt };
    return [
      {
        context: { eventId, createdAt, sequence, ...parties, ...access, ...terms },
        ...marked(row, event),
      },
    ];
  });
  const later = outcomes.flatMap(({ update, row }) =>
    eventsOf(update)
      .slice(1)
      .map((event) => ({ ...marked(row, event), subscriptionId: row.id })),
  );
  if (first.length === 0) return new Set();
  const endpoints = await storeEvents(tx, first);
  return new Set([...endpoints, ...(await appendEvents(tx, later))]);
}
