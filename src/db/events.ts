// The outbox table: events and, for apps with an endpoint, the deliveries that carry them.
import type { Queryable } from './postgres/connect.ts';
import { timeOfId } from './postgres/ids.ts';
import { among, type Page, pageOf, type Span } from './postgres/lists.ts';
import { appName } from './postgres/notify.ts';

/** The event types of docs/contract.md. */
export const contractEventTypes = [
  'subscription_created',
  'payment_success',
  'payment_failed',
  'cancel_requested',
  'cancel_finalized',
  'cancel_forced',
  'delegation_revoked',
] as const;

/**
 * Sent to every endpoint: the contract's seven types and subscription_resumed, which billing adds.
 */
export const standardEventTypes = [...contractEventTypes, 'subscription_resumed'] as const;

/**
 * Sent only to endpoints created with the type in `extraEvents` (takes_event in sql), but stored
 * for every app.
 */
export const extraEventTypes = [
  'renewal_upcoming',
  'plan_blocked',
  'subscription_paused',
  'subscription_unpaused',
  'refund_recorded',
] as const;

export const eventTypes = [...standardEventTypes, ...extraEventTypes] as const;

export type EventType = (typeof eventTypes)[number];
export type ExtraEventType = (typeof extraEventTypes)[number];
/** Events about a plan; all other types are about a subscription. */
export type PlanEventType = 'plan_blocked';

/**
 * The subscription's state for an event, read in the statement that takes the next sequence number.
 */
export interface EventContext {
  /** The id's timestamp is the event's time. */
  eventId: string;
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
  externalId: string | null;
  /** JSON text. */
  metadata: string;
  /** Further fields that decide access (domain/access.ts). */
  nextPaymentDue: Date | null;
  cancelRequestedAt: Date | null;
  trialEndsAt: Date | null;
  pausedAt: Date | null;
  periodHours: number;
  graceHours: number | null;
}

/** The plan's fields in an event. */
export interface PlanEventContext {
  /** The id's timestamp is the event's time. */
  eventId: string;
  appId: string;
  planId: string;
  planPda: string;
  planName: string;
  merchantWallet: string;
}

/** An event to store. Its created_at is the time of its id. */
export interface EventRow {
  id: string;
  appId: string;
  /** Null, as the sequence, for an event of a plan. */
  subscriptionId: string | null;
  sequence: bigint | null;
  type: EventType;
  body: string;
}

/**
 * Takes the next sequence number of each subscription and returns its event context, in no
 * particular order. Each id may occur once.
 */
export function takeSequences(sql: Queryable, subscriptionIds: string[]): Promise<EventContext[]> {
  return sql<EventContext[]>`
    update subscriptions s set event_sequence = s.event_sequence + 1
    from jsonb_array_elements_text(${JSON.stringify(subscriptionIds)}::text::jsonb) as wanted (id),
      plans p, apps a, merchants m
    where s.id = wanted.id::uuid and p.id = s.plan_id and a.id = s.app_id and m.id = a.merchant_id
    returning uuid_v7() as event_id, s.event_sequence as sequence, s.id as subscription_id,
      s.app_id, s.status, s.paid_through, s.subscription_pda, s.plan_id, p.name as plan_name,
        s.subscriber_wallet, m.wallet as merchant_wallet,
      s.external_id, s.metadata::text as metadata, s.next_payment_due, s.cancel_requested_at,
        s.trial_ends_at,
      s.paused_at, s.period_hours, p.grace_hours`;
}

/**
 * Stores events and queues a delivery of each for the app's live endpoint if it takes the type.
 * Returns the NOTIFY names: those endpoints and the apps.
 */
export async function insertEvents(sql: Queryable, rows: EventRow[]): Promise<string[]> {
  const given = rows.map(({ id, appId, subscriptionId, sequence, type, body }) => ({
    id,
    app_id: appId,
    subscription_id: subscriptionId,
    sequence: sequence === null ? null : String(sequence),
    type,
    body,
    created_at: timeOfId(id),
  }));
  const queued = await sql<{ endpointId: string }[]>`
    with given as materialized (
      select given.*, endpoint.id as endpoint_id
      from json_to_recordset(${JSON.stringify(given)}::text::json) as given (id uuid, app_id uuid,
        subscription_id uuid, sequence int8, type text,
          body text, created_at timestamptz)
        left join webhook_endpoints endpoint on endpoint.app_id = given.app_id
          and endpoint.deleted_at is null
          and takes_event(endpoint.extra_events, given.type)
    ), written as (
      insert into events (id, app_id, subscription_id, sequence, type, body, queued, created_at)
      select id, app_id, subscription_id, sequence, type, body, endpoint_id is not null, created_at
        from given
    ), queued as (
      insert into delivery_queue (endpoint_id, event_id, event_type)
      select endpoint_id, id, type from given where endpoint_id is not null order by id
      returning endpoint_id
    )
    select distinct endpoint_id from queued`;
  const apps = new Set(rows.map(({ appId }) => appName(appId)));
  return [...queued.map(({ endpointId }) => endpointId), ...apps];
}

/** An event as merchants read it. */
export interface EventListRow {
  id: string;
  appId: string;
  /** Null, as the sequence, for an event of a plan. */
  subscriptionId: string | null;
  sequence: number | null;
  type: EventType;
  /** The text that is sent, byte for byte. */
  body: string;
  createdAt: Date;
}

/** The span applies to the event's time. */
export interface EventFilters extends Span {
  type: readonly string[] | null;
  subscriptionId: string | null;
}

const columns = (sql: Queryable) =>
  sql`id, app_id, subscription_id, sequence::float8 as sequence, type, body, created_at`;

/** An app's events, newest first. */
export function listEvents(
  sql: Queryable,
  appId: string,
  { type, subscriptionId, ...span }: EventFilters,
  page: Page,
): Promise<EventListRow[]> {
  const filters = among(sql, 'type', type);
  if (subscriptionId !== null) filters.push(sql`and app_id is not distinct from ${appId}::uuid`);
  const key =
    subscriptionId === null
      ? { column: 'app_id', value: sql`${appId}::uuid` }
      : { column: 'subscription_id', value: sql`${subscriptionId}::uuid` };
  return sql<
    EventListRow[]
  >`select ${columns(sql)} from events where ${pageOf(sql, key, { ...page, ...span }, filters)}`;
}

/** The events of all apps of a merchant, newest first. */
export function listEventsOfMerchant(
  sql: Queryable,
  merchantId: string,
  { type, subscriptionId, ...span }: EventFilters,
  page: Page,
): Promise<EventListRow[]> {
  const filters = among(sql, 'type', type);
  if (subscriptionId !== null)
    filters.push(sql`and subscription_id is not distinct from ${subscriptionId}::uuid`);
  const ofApp = pageOf(
    sql,
    { column: 'app_id', value: sql`app.id` },
    { ...page, ...span },
    filters,
  );
  return sql<EventListRow[]>`
    select each.* from apps app cross join lateral (select ${columns(sql)} from events
      where ${ofApp}) as each
    where app.merchant_id = ${merchantId} order by each.id desc limit ${page.limit}`;
}

export async function findEvent(sql: Queryable, id: string): Promise<EventListRow | undefined> {
  const [row] = await sql<EventListRow[]>`select ${columns(sql)} from events where id = ${id}`;
  return row;
}
