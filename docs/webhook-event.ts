// What is sent to webhook endpoints, for the OpenAPI document and the types made from it. What is sent is written in domain/events.ts;
// test/contract holds an event of every type to this, and the keeper's tests each one that they bring about.
import { type TProperties, type TSchema, Type } from '@sinclair/typebox';
import {
  blockReasons,
  cancelRequesters,
  endReasons,
  failureReasons,
  renewalIssues,
  revocationReasons,
} from '../src/domain/reasons.ts';
import { type EventType, eventTypes } from '../src/db/events.ts';
import {
  Amount,
  ExternalId,
  Id,
  meaning,
  Metadata,
  nullable,
  oneOf,
  Pda,
  Time,
  Wallet,
} from '../src/http/fields.ts';

const planName = Type.String({ description: 'The plan’s name.', examples: ['Coffee club'] });
const test = Type.Optional(
  Type.Boolean({ description: 'A sample that the merchant triggered, in development.' }),
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
    'The subscription’s, after what happened.',
  ),
  paidThrough: nullable({ ...Time, description: 'The end of the period that is paid.' }),
  accessUntil: nullable({ ...Time, description: 'Grant access while now is before this time.' }),
  externalId: nullable(ExternalId),
  metadata: Metadata,
  sequence: Type.Integer({ description: '1, 2, 3 ... of each subscription, without gaps.' }),
  test,
};
/** The `data` of plan_blocked is of a plan. */
const ofPlan = {
  appId: Id,
  planId: Id,
  planPda: Pda,
  planName,
  merchantWallet: Wallet,
  test,
};
const signature = Type.String({
  description: 'Signature of the transaction on chain, in Base58. Several payments may share one.',
  examples: [
    '5VERv8NMvzbJMEkV8xnrLkEaWRtSz9CosKDYjCJjBRnbJLgp8uirBgmQpjKhoR4tjF3ZpRzrFmBV6UjKdiSZkQUW',
  ],
});
const due = nullable({ ...Time, description: 'When the next payment is due; null when none is.' });

/** Fields of `data` that only some types have. */
const own: Record<EventType, TProperties> = {
  subscription_created: {},
  payment_success: {
    amountGross: { ...Amount, description: 'What the subscriber paid, USDC base units.' },
    platformFee: { ...Amount, description: 'The operator’s part of it.' },
    amountNet: { ...Amount, description: 'The merchant’s part of it.' },
    txSignature: signature,
    periodStart: { ...Time, description: 'The paid period’s start.' },
    periodEnd: { ...Time, description: 'The paid period’s end.' },
    source: oneOf(['keeper', 'foreign'], 'foreign: somebody else sent the transaction.'),
    nextPaymentDue: due,
  },
  payment_failed: {
    failureReason: meaning(failureReasons, 'Why the payment failed.'),
    attempt: Type.Integer({ description: 'Which try in its period this was.' }),
    nextAttemptAt: nullable({ ...Time, description: 'When it is tried again; null: never.' }),
    nextPaymentDue: due,
    final: Type.Boolean({ description: 'Nothing more is tried: the subscription has expired.' }),
    txSignature: Type.Optional({
      ...signature,
      description: 'Where it failed on chain. Other payments of the transaction may be paid later.',
    }),
  },
  cancel_requested: {
    cancelRequestedAt: { ...Time, description: 'When it was asked for.' },
    cancelRequestedBy: meaning(cancelRequesters, 'Who asked for it.'),
  },
  cancel_finalized: {
    cancelledAt: Type.Optional(nullable({ ...Time, description: 'When it ended.' })),
    accountClosed: Type.Boolean({ description: 'Whether the account on chain is closed.' }),
    endReason: Type.Optional(
      meaning(endReasons, 'Why it ended; absent after a cancellation at the end of a period.'),
    ),
  },
  cancel_forced: {
    cancelledAt: Type.Optional(nullable({ ...Time, description: 'When it ended.' })),
  },
  delegation_revoked: {
    delegationRevokedAt: { ...Time, description: 'When the service saw it.' },
    reason: meaning(revocationReasons, 'How the wallet took its approval back.'),
  },
  subscription_resumed: { nextPaymentDue: due },
  renewal_upcoming: {
    dueAt: { ...Time, description: 'When the payment will be due.' },
    amount: { ...Amount, description: 'What will be collected, USDC base units.' },
    canPay: Type.Boolean({ description: 'Whether the wallet could pay it now.' }),
    issue: nullable(meaning(renewalIssues, 'Why it could not; null when it could.')),
  },
  plan_blocked: {
    collectionBlockedReason: meaning(
      blockReasons,
      'Why nothing can be collected from the plan. The plan’s own field is null again once it can.',
    ),
  },
  subscription_paused: {
    pausedAt: { ...Time, description: 'Nothing is collected from then on.' },
  },
  subscription_unpaused: { nextPaymentDue: due },
  refund_recorded: {
    refundId: { ...Id, description: 'The refund.' },
    transactionId: { ...Id, description: 'The payment of which it gives back.' },
    amount: { ...Amount, description: 'What the subscriber got back, USDC base units.' },
    txSignature: signature,
  },
};

const eventOf = (type: EventType) =>
  Type.Object(
    {
      id: { ...Id, description: 'The same on every attempt and replay: deduplicate by it.' },
      type: Type.Unsafe<EventType>({ type: 'string', enum: [type], description: 'What happened.' }),
      createdAt: Time,
      data:
        type === 'plan_blocked'
          ? Type.Object({ ...ofPlan, ...own[type] }, { description: 'The plan and what happened.' })
          : Type.Object(
              { ...common, ...own[type] },
              { description: 'The subscription after what happened, and what happened.' },
            ),
    },
    { title: `${pascal(type)}Event` },
  );

const ref = (title: string) => `#/components/schemas/${title}`;
const discriminated = (title: string, byType: Record<string, TSchema>) => ({
  title,
  description: 'One of the events, told apart by "type".',
  oneOf: Object.values(byType),
  discriminator: {
    propertyName: 'type',
    mapping: Object.fromEntries(
      Object.entries(byType).map(([type, { title: name }]) => [type, ref(name ?? '')]),
    ),
  },
});
const byType = Object.fromEntries(eventTypes.map((type) => [type, eventOf(type)]));
/** What the event log holds. */
export const webhookEvent = discriminated('WebhookEvent', byType);

function pascal(type: string): string {
  return type.replace(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase());
}

const PingEvent = Type.Object(
  {
    id: { ...Id, description: 'Of this ping.' },
    type: Type.Unsafe<'ping'>({ type: 'string', enum: ['ping'], description: 'A test.' }),
    createdAt: Time,
    data: Type.Object(
      {
        appId: Id,
        webhookId: nullable({ ...Id, description: 'The endpoint; null when the app has none.' }),
        test: Type.Optional(Type.Boolean({ description: 'A sample, in development.' })),
      },
      { description: 'Who asked for the ping.' },
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

/** The `webhooks` of the document. */
export const webhooks = {
  event: {
    post: {
      operationId: 'webhookEvent',
      summary: 'What is sent to the app’s webhook endpoint',
      description:
        'Verify the signature over the raw body, refuse timestamps more than 300 seconds away, answer with 2xx within 5 seconds, and deduplicate by id. Failed deliveries are tried again after 1 minute, 5 minutes, 30 minutes, 2 hours and 12 hours.',
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
          'As in the Standard Webhooks specification, so are webhook-timestamp and webhook-signature.',
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
        '200': { description: 'Received: any 2xx will do.' },
        '401': { description: 'The signature does not fit.' },
      },
    },
  },
};
