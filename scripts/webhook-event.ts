// Schemas of webhook events, for the OpenAPI document and the types generated from it.
// domain/events.ts writes the events. test/contract checks one event of every type against these
// schemas, and the keeper's tests check each event that they cause.
import { type TProperties, type TSchema, Type } from '@sinclair/typebox';
import { type EventType, eventTypes } from '../src/db/delivering/events.ts';
import {
  blockReasons,
  cancelRequesters,
  creditReasons,
  endReasons,
  failureReasons,
  renewalIssues,
  revocationReasons,
  voidReasons,
} from '../src/domain/reasons.ts';
import {
  Amount,
  ExternalId,
  Id,
  meaning,
  Metadata,
  nullable,
  oneOf,
  OwnIdsFrom,
  Pda,
  SignedAmount,
  Time,
  Wallet,
} from '../src/http/shapes/fields.ts';
import { InvoiceLine } from '../src/http/shapes/invoice-schemas.ts';

const planName = Type.String({ description: 'The plan’s name.', examples: ['Coffee club'] });
const test = Type.Optional(
  Type.Boolean({ description: 'A sample event that the merchant triggered in development.' }),
);
const common = {
  appId: Id,
  subscriptionId: Id,
  subscriptionPda: Pda,
  planId: Id,
  planName,
  subscriberWallet: Wallet,
  merchantWallet: Wallet,
  status: oneOf(
    ['active', 'past_due', 'cancelled', 'expired'],
    'Status of the subscription after the event.',
  ),
  paidThrough: nullable({ ...Time, description: 'End of the paid period.' }),
  accessUntil: nullable({ ...Time, description: 'Grant access until this time.' }),
  externalId: nullable(ExternalId),
  metadata: Metadata,
  ownIdsFrom: OwnIdsFrom,
  sequence: Type.Integer({
    description:
      'Sequence number of the event in its subscription: 1, 2, 3 ..., without gaps. Numbers may repeat after a loss of history.',
  }),
  test,
};
/** Fields of `data` in plan_blocked, which has no subscription. */
const ofPlan = {
  appId: Id,
  planId: Id,
  planPda: Pda,
  planName,
  merchantWallet: Wallet,
  test,
};
/** Fields of `data` in credit_changed, which has no subscription. */
const ofCustomer = {
  appId: Id,
  customerId: { ...Id, description: 'The customer: GET .../customers/{customerId}.' },
  externalId: nullable(ExternalId),
  wallet: nullable(Wallet),
  merchantWallet: Wallet,
  test,
};
const signature = Type.String({
  description: 'Signature of the transaction on chain, in Base58. Several payments may share one.',
  examples: [
    '5VERv8NMvzbJMEkV8xnrLkEaWRtSz9CosKDYjCJjBRnbJLgp8uirBgmQpjKhoR4tjF3ZpRzrFmBV6UjKdiSZkQUW',
  ],
});
const due = nullable({
  ...Time,
  description: 'Due time of the next payment; null if none will be due.',
});

/** Fields of `data` in the events after which a subscription goes on. */
const continued = { nextPaymentDue: due };
/** The invoice of a payment. */
const paidInvoice = {
  invoiceId: { ...Id, description: 'The invoice: GET .../invoices/{invoiceId}.' },
  lines: Type.Optional(
    Type.Array(InvoiceLine, {
      description: "The invoice's lines; absent if the plan's whole amount is the only one.",
    }),
  ),
};
/** The invoice of an event. */
const ofInvoice = {
  ...paidInvoice,
  total: { ...Amount, description: 'Sum of its lines, USDC base units.' },
  amountDue: { ...Amount, description: 'The part of total that is not collected any more.' },
  coversFrom: nullable({ ...Time, description: 'Start of the time that it is for.' }),
  coversTo: nullable({ ...Time, description: 'End of the time that it is for.' }),
};
const replacedBy = {
  ...Id,
  description: 'The subscription that replaces it in a change of plan.',
};

/** Fields of `data` that only some types have. */
const own: Record<EventType, TProperties> = {
  subscription_created: {
    duplicateOf: Type.Optional({
      ...Id,
      description:
        'The live subscription that the same customer has already: one of them should be cancelled.',
    }),
    replaces: Type.Optional({
      ...Id,
      description:
        'The subscription that it replaces in a change of plan: this one gives access from the end of that one on.',
    }),
    credit: Type.Optional({
      ...Amount,
      description:
        'Credit of the customer, USDC base units: the next payments take less by it. Absent if there is none.',
    }),
    startsAt: Type.Optional(
      nullable({
        ...Time,
        description:
          'With replaces: the first payment is deferred to this time; null: due at once.',
      }),
    ),
  },
  payment_success: {
    amountGross: { ...Amount, description: 'Amount that the subscriber paid, USDC base units.' },
    platformFee: { ...Amount, description: 'The share of the operator.' },
    amountNet: { ...Amount, description: 'The share of the merchant.' },
    txSignature: nullable({
      ...signature,
      description: `${signature.description} Null where a credit paid the whole period.`,
    }),
    periodStart: { ...Time, description: 'Start of the paid period.' },
    periodEnd: { ...Time, description: 'End of the paid period.' },
    source: oneOf(
      ['keeper', 'foreign', 'credit'],
      'foreign: another party sent the transaction. credit: credit of the customer paid the whole period, and amountGross is 0.',
    ),
    creditSpent: Type.Optional({
      ...Amount,
      description: 'Credit of the customer that paid for the period beside amountGross.',
    }),
    nextPaymentDue: due,
    ...paidInvoice,
    receiptUrl: Type.Optional(
      nullable(
        Type.String({
          description:
            'The page of the receipt. Whoever has the URL can read it, so send it to the subscriber only. The same in a replay. Null if the payment was booked before the API server first started, absent in events of builds before 0.1.0.',
        }),
      ),
    ),
    recovered: Type.Optional(
      Type.Boolean({
        description:
          'true: the database had lost this payment, and it was found on chain. It may have been announced before under another event id; subscriptionId and txSignature identify it.',
      }),
    ),
  },
  payment_failed: {
    failureReason: meaning(failureReasons, 'The reason of the failure.'),
    attempt: Type.Integer({ description: 'Number of the attempt in its period, from 1.' }),
    nextAttemptAt: nullable({ ...Time, description: 'Time of the next attempt; null: none.' }),
    nextPaymentDue: due,
    ...paidInvoice,
    final: Type.Boolean({
      description: 'Whether it was the last attempt: the subscription has expired.',
    }),
    txSignature: Type.Optional({
      ...signature,
      description: 'The transaction that failed on chain. Its other payments may succeed later.',
    }),
  },
  cancel_requested: {
    cancelRequestedAt: { ...Time, description: 'Time of the request.' },
    cancelRequestedBy: meaning(cancelRequesters, 'The party that requested it.'),
    replacedBy: Type.Optional(replacedBy),
  },
  cancel_finalized: {
    cancelledAt: Type.Optional(nullable({ ...Time, description: 'End of the subscription.' })),
    accountClosed: Type.Boolean({ description: 'Whether the account on chain is closed.' }),
    endReason: Type.Optional(
      meaning(
        endReasons,
        'The reason of the end; absent after a cancellation at the end of a period.',
      ),
    ),
    replacedBy: Type.Optional(replacedBy),
    credit: Type.Optional({
      ...Amount,
      description:
        'Credit of the customer at the end, USDC base units; absent if none is left. It is not paid out, and stays with the customer: other and later subscriptions in the app spend it.',
    }),
  },
  cancel_forced: {
    cancelledAt: Type.Optional(nullable({ ...Time, description: 'End of the subscription.' })),
  },
  delegation_revoked: {
    delegationRevokedAt: { ...Time, description: 'Time at which the service detected it.' },
    reason: meaning(revocationReasons, 'The way in which the wallet revoked its approval.'),
  },
  subscription_resumed: continued,
  renewal_upcoming: {
    dueAt: { ...Time, description: 'Due time of the payment.' },
    amount: { ...Amount, description: 'Amount of the payment, USDC base units.' },
    canPay: Type.Boolean({
      description: 'Whether the wallet could pay it at the time of the event.',
    }),
    issue: nullable(meaning(renewalIssues, 'The reason why it could not; null if it could.')),
  },
  plan_blocked: {
    collectionBlockedReason: meaning(
      blockReasons,
      'The reason why no payment of the plan can be collected. The field of the plan becomes null again when payments can be collected.',
    ),
  },
  subscription_paused: {
    pausedAt: { ...Time, description: 'No payment is collected after this time.' },
  },
  subscription_unpaused: continued,
  refund_recorded: {
    refundId: { ...Id, description: 'The refund.' },
    transactionId: { ...Id, description: 'The refunded payment.' },
    amount: { ...Amount, description: 'Amount of the refund, USDC base units.' },
    txSignature: signature,
  },
  invoice_voided: {
    ...ofInvoice,
    voidReason: meaning(voidReasons, 'Why it is not collected.'),
    nextPaymentDue: due,
  },
  invoice_uncollectible: ofInvoice,
  credit_changed: {
    amount: { ...SignedAmount, description: 'The change, USDC base units; negative: less.' },
    reason: meaning(creditReasons, 'Why it changed.'),
    balance: { ...Amount, description: 'The credit after the change, USDC base units.' },
  },
};

const eventOf = (type: EventType) =>
  Type.Object(
    {
      id: { ...Id, description: 'The same on every attempt and replay; use it for deduplication.' },
      type: Type.Unsafe<EventType>({
        type: 'string',
        enum: [type],
        description: 'The event type.',
      }),
      createdAt: Time,
      data:
        type === 'plan_blocked' || type === 'credit_changed'
          ? Type.Object(
              { ...(type === 'plan_blocked' ? ofPlan : ofCustomer), ...own[type] },
              { description: 'What it is about, and the fields of the event type.' },
            )
          : Type.Object(
              { ...common, ...own[type] },
              {
                ...(own[type] === continued && { title: 'ContinuedSubscription' }),
                description: 'The subscription after the event, and the fields of the event type.',
              },
            ),
    },
    { title: `${pascal(type)}Event` },
  );

const ref = (title: string) => `#/components/schemas/${title}`;
const discriminated = (title: string, byType: Record<string, TSchema>) => ({
  title,
  description: 'One of the events; "type" is the discriminator.',
  oneOf: Object.values(byType),
  discriminator: {
    propertyName: 'type',
    mapping: Object.fromEntries(
      Object.entries(byType).map(([type, { title: name }]) => [type, ref(name ?? '')]),
    ),
  },
});
const byType = Object.fromEntries(eventTypes.map((type) => [type, eventOf(type)]));
/** This event is only in the event log. No endpoint receives it. */
const EndpointDisabledEvent = Type.Object(
  {
    id: { ...Id, description: 'The event’s id.' },
    type: Type.Unsafe<'endpoint_disabled'>({
      type: 'string',
      enum: ['endpoint_disabled'],
      description: 'A webhook endpoint was disabled. Only listed, and sent to no endpoint.',
    }),
    createdAt: Time,
    data: Type.Object(
      {
        appId: Id,
        webhookId: { ...Id, description: 'The endpoint.' },
        url: Type.String({ description: 'Its URL.' }),
        disabledReason: oneOf(
          ['merchant', 'failing'],
          'Who disabled it: its merchant or the service.',
        ),
        failingSince: nullable({
          ...Time,
          description: 'The first failure after the last success.',
        }),
        lastError: nullable(
          Type.String({ description: 'HTTP status or code of the last failure.' }),
        ),
      },
      { description: 'The endpoint.' },
    ),
  },
  { title: 'EndpointDisabledEvent' },
);
/** An event of the event log. */
export const webhookEvent = discriminated('WebhookEvent', {
  ...byType,
  endpoint_disabled: EndpointDisabledEvent,
});

function pascal(type: string): string {
  return type.replace(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase());
}

const PingEvent = Type.Object(
  {
    id: { ...Id, description: 'The id of the ping.' },
    type: Type.Unsafe<'ping'>({ type: 'string', enum: ['ping'], description: 'A test event.' }),
    createdAt: Time,
    data: Type.Object(
      {
        appId: Id,
        webhookId: nullable({ ...Id, description: 'The endpoint; null if the app has none.' }),
        test: Type.Optional(Type.Boolean({ description: 'A sample event, in development.' })),
      },
      { description: 'The pinged endpoint.' },
    ),
  },
  { title: 'PingEvent' },
);

const header = (name: string, description: string) => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string' },
});

/** The section `webhooks` of the OpenAPI document. */
export const webhooks = {
  event: {
    post: {
      operationId: 'webhookEvent',
      summary: 'A request to the webhook endpoint of the app',
      description:
        'Verify the signature over the raw body, refuse timestamps that differ by more than 300 seconds, respond with 2xx within 5 seconds, and deduplicate by id. Failed deliveries are retried after 1 minute, 5 minutes, 30 minutes, 2 hours and 12 hours.',
      tags: ['webhooks'],
      security: [],
      parameters: [
        header(
          'X-Service-Signature',
          'sha256= and the hex HMAC-SHA256 of timestamp, dot and raw body, keyed with the endpoint’s secret.',
        ),
        header('X-Service-Timestamp', 'Unix time in seconds.'),
        header(
          'webhook-id',
          'As in the Standard Webhooks specification, like webhook-timestamp and webhook-signature.',
        ),
        header('webhook-timestamp', 'Unix time in seconds.'),
        header('webhook-signature', 'v1, and a Base64 HMAC-SHA256.'),
      ],
      requestBody: {
        required: true,
        content: {
          'application/json': {
            schema: discriminated('SentEvent', { ...byType, ping: PingEvent }),
          },
        },
      },
      responses: {
        '200': { description: 'Received. Any 2xx is accepted.' },
        '401': { description: 'The signature is invalid.' },
      },
    },
  },
};
