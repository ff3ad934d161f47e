// The outbox: stores events, and queues their deliveries if the app has an endpoint.
import { refundedThrough } from '../invoices/notes.ts';
import type { Queryable } from '../postgres/connect.ts';
import { timeOfId } from '../postgres/ids.ts';
import { among, type Page, pageOf, type Span } from '../postgres/lists.ts';
import { appName } from '../postgres/notify.ts';
import { recordset } from '../postgres/recordset.ts';

/** The event types defined in docs/contract.md. */
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
 * Event types sent to every endpoint: the seven types of the contract, and subscription_resumed,
 * which the contract does not list as a type.
 */
export const standardEventTypes = [...contractEventTypes, 'subscription_resumed'] as const;

/**
 * Event types sent only to endpoints that list them in `extraEvents` (SQL function takes_event).
 * Events of these types are stored for every app.
 */
export const extraEventTypes = [
  'renewal_upcoming',
  'plan_blocked',
  'subscription_paused',
  'subscription_unpaused',
  'refund_recorded',
  'invoice_voided',
  'invoice_uncollectible',
  'credit_changed',
] as const;

export const eventTypes = [...standardEventTypes, ...extraEventTypes] as const;

/**
 * Event types in the list of events. `endpoint_disabled` is never sent, because the endpoint that
 * would get it is disabled.
 */
export const listedEventTypes = [...eventTypes, 'endpoint_disabled'] as const;

export type EventType = (typeof eventTypes)[number];
export type ListedEventType = (typeof listedEventTypes)[number];
export type ExtraEventType = (typeof extraEventTypes)[number];
/** Types of events about a plan and about a customer. All others are about a subscription. */
export type PlanEventType = 'plan_blocked';
export type CustomerEventType = 'credit_changed';

/**
 * The subscription's state for an event. One statement reads the state and takes the next sequence
 * number.
 */
export interface EventContext {
  /** Id for the new event. The id's timestamp is the event's time. */
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
  /** A JSON object as text. */
  metadata: string;
  ownIdsFrom: string | null;
  /** The fields from here on are needed only to decide access (domain/accounts/access.ts). */
  nextPaymentDue: Date | null;
  cancelRequestedAt: Date | null;
  trialEndsAt: Date | null;
  pausedAt: Date | null;
  refundedThrough: Date | null;
  replacedAt: Date | null;
  periodHours: number;
  graceHours: number | null;
}

/** The plan's fields that an event contains. */
export interface PlanEventContext {
  /** Id for the new event. The id's timestamp is the event's time. */
  eventId: string;
  appId: string;
  planId: string;
  planPda: string;
  planName: string;
  merchantWallet: string;
}

/** The customer's fields that an event contains. */
export interface CustomerEventContext {
  /** Id for the new event. The id's timestamp is the event's time. */
  eventId: string;
  appId: string;
  customerId: string;
  externalId: string | null;
  wallet: string | null;
  merchantWallet: string;
}

/** An event to store. Its created_at is taken from its id. */
export interface EventRow {
  id: string;
  appId: string;
  /** subscriptionId and sequence are null for an event about a plan or a customer. */
  subscriptionId: string | null;
  sequence: bigint | null;
  type: EventType;
  body: string;
  /** The trace of the request that caused the event; null without one. */
  traceparent: string | null;
}

/**
 * Takes the next sequence number of each subscription and returns the event contexts. The result
 * has no order. Each subscription id may occur only once.
 */
export function takeSequences(sql: Queryable, subscriptionIds: string[]): Promise<EventContext[]> {
  return sql<EventContext[]>`
    with wanted as (
      select s.id, w.paid_through, ${refundedThrough(sql)} as refunded_through
      from jsonb_array_elements_text(${JSON.stringify(subscriptionIds)}::text::jsonb) as given (id)
        join subscriptions s on s.id = given.id::uuid
        join subscription_work w on w.subscription_id = s.id
      order by s.id for no key update of s, w
    )
    update subscriptions s set event_sequence = s.event_sequence + 1
    from wanted, plans p, apps a, merchants m
    where s.id = wanted.id and p.id = s.plan_id and a.id = s.app_id and m.id = a.merchant_id
    returning uuid_v7() as event_id, s.event_sequence as sequence, s.id as subscription_id,
      s.app_id, s.status, wanted.paid_through, s.subscription_pda, s.plan_id, p.name as plan_name,
        s.subscriber_wallet, m.wallet as merchant_wallet,
      s.external_id, s.metadata::text as metadata, s.own_ids_from, s.next_payment_due, s.cancel_requested_at,
        s.trial_ends_at,
      s.paused_at, wanted.refunded_through, s.replaced_at, s.period_hours, p.grace_hours`;
}

/**
 * Stores events. Queues one delivery per event if the app has a live endpoint that receives the
 * event's type. Returns the names to send with NOTIFY: the apps of all events, and the endpoints
 * with new deliveries.
 */
export async function insertEvents(sql: Queryable, rows: EventRow[]): Promise<string[]> {
  const given = recordset(
    sql,
    rows.map((row) => ({ ...row, createdAt: timeOfId(row.id) })),
    {
      ...{ id: 'uuid', appId: 'uuid', subscriptionId: 'uuid', sequence: 'int8', type: 'text' },
      ...{ body: 'text', traceparent: 'text', createdAt: 'timestamptz' },
    },
  );
  const queued = await sql<{ endpointId: string }[]>`
    with given as materialized (
      select given.*, endpoint.id as endpoint_id
      from (${given}) as given
        left join webhook_endpoints endpoint on endpoint.app_id = given.app_id
          and endpoint.deleted_at is null and endpoint.disabled_at is null
          and takes_event(endpoint.extra_events, given.type)
    ), written as (
      insert into events (id, app_id, subscription_id, sequence, type, body, traceparent, queued,
        created_at)
      select id, app_id, subscription_id, sequence, type, body, traceparent,
        endpoint_id is not null, created_at
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

/** An event for the event lists of the API. */
export interface EventListRow {
  id: string;
  appId: string;
  /** subscriptionId and sequence are null unless the event is about a subscription. */
  subscriptionId: string | null;
  sequence: number | null;
  type: ListedEventType;
  /** The request body that is sent, byte for byte. */
  body: string;
  createdAt: Date;
}

/** The time span applies to createdAt of the event. */
export interface EventFilters extends Span {
  type: readonly string[] | null;
  subscriptionId: string | null;
}

const columns = (sql: Queryable) =>
  sql`id, app_id, subscription_id, sequence::float8 as sequence, type, body, created_at`;

/** Lists an app's events, newest first. */
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

/** Lists the events of all apps of a merchant, newest first. */
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
