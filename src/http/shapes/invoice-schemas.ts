// The API's view of invoices.
import { Type } from '@sinclair/typebox';
import {
  adjustmentSources,
  invoiceReasons,
  invoiceStates,
  lineKinds,
  voidReasons,
} from '../../domain/reasons.ts';
import { Amount, ExternalId, Id, meaning, nullable, SignedAmount, Time, Wallet } from './fields.ts';

export const InvoiceLine = Type.Object(
  {
    kind: meaning(lineKinds, 'The kind of the line.'),
    amount: Type.Unsafe<string>(SignedAmount),
    source: Type.Optional(meaning(adjustmentSources, 'Why an adjustment was made.')),
  },
  { title: 'InvoiceLine' },
);

/** The reason of an invoice. */
export const InvoiceReason = meaning(invoiceReasons, 'What it is for.', 'InvoiceReason');
const notBilledYet = 'Always 0: nothing of this kind is billed yet.';

/** What an invoice is for and what it costs. */
const drawnUp = {
  appId: Id,
  planId: Id,
  subscriptionId: Id,
  customerId: { ...Id, description: 'The customer: GET .../customers/{customerId}.' },
  subscriberWallet: Wallet,
  externalId: nullable(ExternalId),
  reason: InvoiceReason,
  periodStart: nullable({
    ...Time,
    description: 'Start of the period on chain in which it is collected.',
  }),
  periodEnd: nullable({ ...Time, description: 'End of that period.' }),
  coversFrom: nullable({
    ...Time,
    description: 'Start of the time that it pays for; null if it pays for none.',
  }),
  coversTo: nullable({ ...Time, description: 'End of the time that it pays for.' }),
  lines: Type.Array(InvoiceLine, { description: 'They add up to total, and never change.' }),
  planAmount: { ...Amount, description: 'Sum of the plan lines.' },
  usageAmount: { ...Amount, description: notBilledYet },
  itemsAmount: { ...Amount, description: notBilledYet },
  discountAmount: { ...SignedAmount, description: 'Sum of the discount lines; at most 0.' },
  adjustmentAmount: { ...SignedAmount, description: 'Sum of the adjustment lines.' },
  taxAmount: { ...Amount, description: notBilledYet },
  total: { ...Amount, description: 'Sum of all lines: creditApplied + amountDue.' },
  creditApplied: { ...Amount, description: 'The part of total that credit pays.' },
  amountDue: { ...Amount, description: 'The part of total that is collected from the wallet.' },
  dueAt: { ...Time, description: 'From this time on it is collected.' },
};

const tries = {
  failedTries: Type.Integer({ description: 'Number of failed tries to collect it.' }),
  nextTryAt: nullable({
    ...Time,
    description: 'The next try after a failed one; null without one.',
  }),
};

export const Invoice = Type.Object(
  {
    id: Id,
    ...drawnUp,
    state: meaning(invoiceStates, 'What became of it.', 'InvoiceState'),
    voidReason: nullable(
      meaning(voidReasons, 'Why it is not collected; null unless void.', 'VoidReason'),
    ),
    ...tries,
    drawnUpAt: { ...Time, description: 'When it was drawn up, by the clock of the chain.' },
    closedAt: nullable({ ...Time, description: 'When it was closed; null while it is open.' }),
    createdAt: Time,
  },
  { title: 'Invoice' },
);

/** The view of an invoice for its subscriber. The view omits the merchant's ids of the customer. */
export const OwnInvoice = Type.Omit(Invoice, ['customerId', 'externalId'], { title: 'OwnInvoice' });

export const UpcomingInvoice = Type.Object(
  {
    id: nullable({ ...Id, description: 'The open invoice; null: it is not drawn up yet.' }),
    ...drawnUp,
    ...tries,
    drawnUpAt: nullable({ ...Time, description: 'Null: it is not drawn up yet.' }),
    asOf: {
      ...Time,
      description:
        'It is what would be drawn up by the terms of this time. A later change of the discount or the credit changes it.',
    },
  },
  { title: 'UpcomingInvoice' },
);
