// Sample events, with which merchants test their webhook receivers. A sample has the form of a real
// event, except that data.test is true and data.sequence is 0. The ids and addresses in a sample
// are made up.
import { randomBytes } from 'node:crypto';
import bs58 from 'bs58';
import type { SubscriberReason } from '../../chain/program/errors.ts';
import { insertSample, newIds } from '../../db/delivering/event-feed.ts';
import { eventTypes } from '../../db/delivering/events.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { split } from '../money.ts';
import {
  eventBody,
  type NewEvent,
  type SubscriptionEventType,
  unnumberedEventBody,
} from './events.ts';

export const sampleTypes = [...eventTypes, 'ping'] as const;

export type SampleType = (typeof sampleTypes)[number];

/** Length of a sample's period: a month of 730 hours. */
const MONTH_MS = 730 * 3_600_000;

export interface Sample {
  id: string;
  /** The body of the webhook request that delivers the sample. */
  body: string;
}

/**
 * Creates a sample event and stores it, so that readers of the app's event feed get the sample too
 * (db/delivering/event-feed.ts). The caller sends the sample to the webhook endpoint.
 */
export async function createSample(
  sql: Sql,
  type: SampleType,
  app: { appId: string; webhookId: string | null; merchantWallet: string },
  given: Readonly<Record<string, unknown>> = {},
): Promise<Sample> {
  return sql.begin(async (tx) => {
    const sample = withData(sampleEvent(type, app, await newIds(tx, 7), new Date()), given);
    await insertSample(tx, { ...sample, appId: app.appId, type });
    return sample;
  });
}

/** Names of the fields in data of a sample event. */
export function sampleFields(type: SampleType): string[] {
  const app = { appId: '', webhookId: null, merchantWallet: '' };
  const { body } = sampleEvent(type, app, [], new Date());
  return Object.keys((JSON.parse(body) as { data: object }).data);
}

/** Replaces fields of the sample's data. The event is still marked as a sample. */
function withData({ id, body }: Sample, given: Readonly<Record<string, unknown>>): Sample {
  const event = JSON.parse(body) as { data: Record<string, unknown> };
  const { sequence } = event.data;
  const marks = { test: true, ...(sequence !== undefined && { sequence }) };
  return { id, body: JSON.stringify({ ...event, data: { ...event.data, ...given, ...marks } }) };
}

/**
 * Builds one sample event. The list of ids has the ids of the event, subscription, plan, refund,
 * payment, invoice and customer, in this order. Pure except for the random addresses.
 */
function sampleEvent(
  type: SampleType,
  {
    appId,
    webhookId,
    merchantWallet,
  }: { appId: string; webhookId: string | null; merchantWallet: string },
  ids: readonly string[],
  now: Date,
): Sample {
  const [id = '', subscriptionId = '', planId = '', refundId = '', transactionId = ''] = ids;
  const [invoiceId = '', customerId = ''] = ids.slice(5);
  if (type === 'ping') {
    return {
      id,
      body: JSON.stringify({ id, type, createdAt: now, data: { appId, webhookId, test: true } }),
    };
  }
  const plan = { planId, planName: 'Sample plan', merchantWallet };
  if (type === 'plan_blocked') {
    const extra = { collectionBlockedReason: 'not_a_puller', test: true };
    return {
      id,
      body: unnumberedEventBody({ eventId: id, appId, planPda: madeUp(32), ...plan }, type, extra),
    };
  }
  if (type === 'credit_changed') {
    const externalId = 'sample-customer';
    const customer = { eventId: id, appId, customerId, externalId, wallet: null, merchantWallet };
    const extra = { amount: 2_500_000n, reason: 'granted', balance: 2_500_000n, test: true };
    return { id, body: unnumberedEventBody(customer, type, extra) };
  }
  const periodEnd = new Date(now.getTime() + MONTH_MS);
  const { extra, status, paid } = scenes(now, periodEnd, { refundId, transactionId, invoiceId })[
    type
  ];
  const context = {
    eventId: id,
    sequence: 0n,
    subscriptionId,
    appId,
    status,
    paidThrough: paid ? periodEnd : null,
    subscriptionPda: madeUp(32),
    ...plan,
    subscriberWallet: madeUp(32),
    externalId: 'sample-customer',
    metadata: '{"order":"1234"}',
    ownIdsFrom: 'checkout',
    nextPaymentDue: periodEnd,
    cancelRequestedAt: type === 'cancel_requested' ? now : null,
    trialEndsAt: null,
    pausedAt: null,
    refundedThrough: null,
    replacedAt: null,
    periodHours: 730,
    graceHours: null,
  };
  return { id, body: eventBody(context, type, { ...extra, test: true }) };
}

interface Scene {
  status: string;
  paid: boolean;
  extra?: NonNullable<NewEvent['extra']>;
}

/**
 * Returns for each event type the state of the sample subscription and the data fields that only
 * this type has (docs/contract.md, Subscription status).
 */
function scenes(
  now: Date,
  periodEnd: Date,
  { invoiceId, ...ids }: { refundId: string; transactionId: string; invoiceId: string },
): Record<SubscriptionEventType, Scene> {
  const lacking: SubscriberReason = 'insufficient_funds';
  const revoked: SubscriberReason = 'delegate_replaced';
  const retryAt = new Date(now.getTime() + 3_600_000);
  const { gross, fee, net } = split(10_000_000n, 100);
  return {
    subscription_created: { status: 'active', paid: false },
    payment_success: {
      status: 'active',
      paid: true,
      extra: {
        ...{ amountGross: gross, platformFee: fee, amountNet: net },
        txSignature: madeUp(64),
        nextPaymentDue: periodEnd,
        periodStart: now,
        periodEnd,
        source: 'keeper',
        invoiceId,
        receiptUrl: `https://billing.example/receipts/${ids.transactionId}/${madeUp(64)}/${randomBytes(32).toString('base64url')}`,
      },
    },
    payment_failed: {
      status: 'past_due',
      paid: false,
      extra: {
        failureReason: lacking,
        attempt: 1,
        nextAttemptAt: retryAt,
        nextPaymentDue: retryAt,
        final: false,
        invoiceId,
      },
    },
    cancel_requested: {
      status: 'active',
      paid: true,
      extra: { cancelRequestedAt: now, cancelRequestedBy: 'subscriber' },
    },
    cancel_finalized: {
      status: 'cancelled',
      paid: false,
      extra: { accountClosed: true, cancelledAt: now },
    },
    cancel_forced: { status: 'cancelled', paid: false, extra: { cancelledAt: now } },
    delegation_revoked: {
      status: 'active',
      paid: true,
      extra: { delegationRevokedAt: now, reason: revoked },
    },
    subscription_resumed: { status: 'active', paid: true, extra: { nextPaymentDue: periodEnd } },
    renewal_upcoming: {
      status: 'active',
      paid: true,
      extra: { dueAt: periodEnd, amount: gross, canPay: false, issue: 'insufficient_balance' },
    },
    subscription_paused: { status: 'active', paid: true, extra: { pausedAt: now } },
    subscription_unpaused: { status: 'active', paid: true, extra: { nextPaymentDue: periodEnd } },
    refund_recorded: {
      status: 'active',
      paid: true,
      extra: { ...ids, amount: net, txSignature: madeUp(64) },
    },
    ...invoiceScenes(invoiceId, now, periodEnd),
  };
}

/** The scenes of an invoice of 10 USDC that is not collected. */
function invoiceScenes(invoiceId: string, coversFrom: Date, coversTo: Date) {
  const [total, amountDue] = [10_000_000n, 10_000_000n];
  const extra = { invoiceId, total, amountDue, coversFrom, coversTo };
  const forgiven = { ...extra, voidReason: 'forgiven', nextPaymentDue: coversTo };
  return {
    invoice_voided: { status: 'active', paid: true, extra: forgiven },
    invoice_uncollectible: { status: 'past_due', paid: false, extra },
  };
}

/** Returns random bytes in Base58, which look like an address or a signature. */
function madeUp(length: number): string {
  return bs58.encode(randomBytes(length));
}
