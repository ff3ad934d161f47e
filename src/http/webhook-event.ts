// What is sent to webhook endpoints, for the OpenAPI document and the types made from it. What is sent is written in domain/events.ts;
// test/contract holds an event of every type to this, and the keeper's tests each one that they bring about.
import { Type } from '@sinclair/typebox';
import { eventTypes } from '../db/events.ts';
import { Amount, Id, nullable, oneOf, Pda, Time, Wallet } from './fields.ts';

const of = (types: string) => ({ description: `On ${types}.` });

const WebhookEvent = Type.Object(
  {
    id: { ...Id, description: 'The same on every attempt and replay: deduplicate by it.' },
    type: oneOf(eventTypes, 'Check it before reading fields that only some types have.'),
    createdAt: Time,
    data: Type.Object({
      appId: Id,
      subscriptionId: Id,
      subscriptionPda: Pda,
      planId: Id,
      planName: Type.String(),
      subscriberWallet: Wallet,
      merchantWallet: Wallet,
      status: oneOf(['active', 'past_due', 'cancelled', 'expired'], 'The subscription’s, after what happened.'),
      paidThrough: nullable({ ...Time, description: 'Grant access while now is before this time.' }),
      sequence: Type.Integer({ description: '1, 2, 3 ... of each subscription, without gaps.' }),
      amountGross: Type.Optional({ ...Amount, ...of('payment_success') }),
      platformFee: Type.Optional({ ...Amount, ...of('payment_success') }),
      amountNet: Type.Optional({ ...Amount, ...of('payment_success') }),
      txSignature: Type.Optional(Type.String(of('payment_success, and payment_failed when the transaction failed on chain'))),
      periodStart: Type.Optional({ ...Time, ...of('payment_success') }),
      periodEnd: Type.Optional({ ...Time, ...of('payment_success') }),
      source: Type.Optional(oneOf(['keeper', 'foreign'], 'On payment_success: foreign when somebody else sent the transaction.')),
      nextPaymentDue: Type.Optional(nullable({ ...Time, ...of('payment events and subscription_resumed') })),
      failureReason: Type.Optional(Type.String(of('payment_failed'))),
      attempt: Type.Optional(Type.Integer(of('payment_failed'))),
      nextAttemptAt: Type.Optional(nullable({ ...Time, ...of('payment_failed') })),
      final: Type.Optional(Type.Boolean({ description: 'On payment_failed: nothing more is tried, the subscription has expired.' })),
      cancelRequestedAt: Type.Optional({ ...Time, ...of('cancel_requested') }),
      cancelRequestedBy: Type.Optional(oneOf(['subscriber', 'merchant'], of('cancel_requested').description)),
      cancelledAt: Type.Optional(nullable({ ...Time, ...of('cancel_finalized and cancel_forced') })),
      accountClosed: Type.Optional(Type.Boolean(of('cancel_finalized'))),
      endReason: Type.Optional(Type.String(of('cancel_finalized'))),
      delegationRevokedAt: Type.Optional({ ...Time, ...of('delegation_revoked') }),
      reason: Type.Optional(Type.String(of('delegation_revoked'))),
      test: Type.Optional(Type.Boolean({ description: 'A sample that the merchant triggered, in development.' })),
    }),
  },
  { title: 'WebhookEvent' },
);

const PingEvent = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    type: Type.Literal('ping'),
    createdAt: Time,
    data: Type.Object({ appId: Id, webhookId: Type.Union([Type.String(), Type.Null()]), test: Type.Optional(Type.Boolean()) }),
  },
  { title: 'PingEvent' },
);

const header = (name: string, description: string) => ({ name, in: 'header', required: true, description, schema: { type: 'string' } });

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
        header('X-Service-Signature', 'sha256= and the hex HMAC-SHA256 of timestamp, dot and raw body, keyed with the endpoint’s secret.'),
        header('X-Service-Timestamp', 'Unix time in seconds.'),
        header('webhook-id', 'As in the Standard Webhooks specification, so are webhook-timestamp and webhook-signature.'),
        header('webhook-timestamp', 'Unix time in seconds.'),
        header('webhook-signature', 'v1, and a Base64 HMAC-SHA256.'),
      ],
      requestBody: {
        required: true,
        content: { 'application/json': { schema: { anyOf: [WebhookEvent, PingEvent] } } },
      },
      responses: { '200': { description: 'Received: any 2xx will do.' }, '401': { description: 'The signature does not fit.' } },
    },
  },
};
