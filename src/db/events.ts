// The outbox table: events and, for apps with an endpoint, the deliveries that carry them.
import { documents, integers, literal, times } from './arrays.ts';
import type { Queryable } from './connect.ts';

/** The seven of service.md. */
export const contractEventTypes = [
  'subscription_created',
  'payment_success',
  'payment_failed',
  'cancel_requested',
  'cancel_finalized',
  'cancel_forced',
  'delegation_revoked',
] as const;

/** All that there are: the seven, and one of ours. */
export const eventTypes = [...contractEventTypes, 'subscription_resumed'] as const;

export type EventType = (typeof eventTypes)[number];

/** What an event says of its subscription, read in the statement that takes the next sequence number. */
export interface EventContext {
  eventId: string;
  createdAt: Date;
  sequence: bigint;
  subscriptionId: string;
  appId: string;
  status: string;
  paidThrough: Date | null;
  subscriptionPda: string;
  planId: string;
  planName: string;
  subscriberWallet: string;
  merchantWallet: string;
}

export interface EventRow {
  id: string;
  appId: string;
  subscriptionId: string;
  sequence: bigint;
  type: EventType;
  body: string;
  createdAt: Date;
}

/** Takes the next sequence number of each subscription (each id once) and returns what its event will say. In no particular order. */
export function takeSequences(sql: Queryable, subscriptionIds: string[]): Promise<EventContext[]> {
  return sql<EventContext[]>`
    update subscriptions s set event_sequence = s.event_sequence + 1
    from unnest(${literal(subscriptionIds)}::uuid[]) as wanted (id), plans p, apps a, merchants m
    where s.id = wanted.id and p.id = s.plan_id and a.id = s.app_id and m.id = a.merchant_id
    returning uuid_v7() as event_id, date_trunc('milliseconds', now()) as created_at, s.event_sequence as sequence, s.id as subscription_id,
      s.app_id, s.status, s.paid_through, s.subscription_pda, s.plan_id, p.name as plan_name, s.subscriber_wallet, m.wallet as merchant_wallet`;
}

/** Stores events and queues one delivery of each for the app's live endpoint, if it has one; returns the endpoints, each once, that have one now. */
export async function insertEvents(sql: Queryable, rows: EventRow[]): Promise<string[]> {
  const queued = await sql<{ endpointId: string }[]>`
    with written as (
      insert into events (id, app_id, subscription_id, sequence, type, body, created_at)
      select * from unnest(
        ${literal(rows.map((row) => row.id))}::uuid[], ${literal(rows.map((row) => row.appId))}::uuid[], ${literal(rows.map((row) => row.subscriptionId))}::uuid[],
        ${literal(integers(rows.map((row) => row.sequence)))}::int8[], ${literal(rows.map((row) => row.type))}::text[], ${documents(rows.map((row) => row.body))}::text[],
        ${literal(times(rows.map((row) => row.createdAt)))}::timestamptz[])
      returning id, app_id, type
    ), queued as (
      insert into deliveries (endpoint_id, event_id, event_type)
      select endpoint.id, written.id, written.type
      from written join webhook_endpoints endpoint on endpoint.app_id = written.app_id and endpoint.deleted_at is null
      returning endpoint_id
    )
    select distinct endpoint_id from queued`;
  return queued.map(({ endpointId }) => endpointId);
}
