// Conditions that select deliveries and events for a replay, shared by counting and queueing
// (replays.ts).
import type { Queryable } from './postgres/connect.ts';
import { idsBetween } from './postgres/ids.ts';
import type { Fragment } from './postgres/lists.ts';

/** Selects deliveries by id, or all that match every filter that is not null. */
export interface Selection {
  ids: string[] | null;
  endpointId: string | null;
  appId: string | null;
  status: string | null;
  type: string | null;
  /** Inclusive, on the delivery's creation. */
  since: Date | null;
  /** Exclusive. */
  until: Date | null;
}

/**
 * The endpoint that an event is replayed to. It gets an extra type it did not subscribe to only
 * when the selection names the type or the deliveries.
 */
export function liveEndpoint(sql: Queryable, { ids, type }: Pick<Selection, 'ids' | 'type'>) {
  return sql`live.app_id = event.app_id and live.deleted_at is null
    and (${ids !== null || type !== null} or takes_event(live.extra_events, event.type))`;
}

/**
 * A condition on the creation time: bounds on the indexed id, which has milliseconds, and on
 * created_at, because `before` has microseconds.
 */
function madeWithin(
  sql: Queryable,
  table: 'delivery' | 'event',
  { since, until }: Pick<Selection, 'since' | 'until'>,
  before: string,
): Fragment {
  const { first, end } = idsBetween(since, until);
  const [id, createdAt] = [sql(`${table}.id`), sql(`${table}.created_at`)];
  return sql`${id} >= ${first}::uuid and ${id} < ${end}::uuid
    and ${id} < first_id_at(${before}::timestamptz + interval '1 ms')
    and (${since}::timestamptz is null or ${createdAt} >= ${since})
      and (${until}::timestamptz is null or ${createdAt} < ${until})
    and ${createdAt} < ${before}::timestamptz`;
}

/**
 * A condition on `delivery` and `event`: matches the selection and was created before `before`.
 * Only the newest delivery of an event matches.
 */
export function isSelected(
  sql: Queryable,
  { ids, endpointId, appId, status, type, ...span }: Selection,
  before: string,
): Fragment {
  // Two branches, because live and deleted endpoints have separate partial indexes.
  return sql`${madeWithin(sql, 'delivery', span, before)}
    and (${ids}::uuid[] is null or delivery.id = any(${ids}::uuid[]))
    and (${endpointId}::uuid is null or delivery.endpoint_id = ${endpointId})
    and (${appId}::uuid is null or delivery.endpoint_id in (
      select id from webhook_endpoints where app_id = ${appId} and deleted_at is null
      union all
      select id from webhook_endpoints where app_id = ${appId} and deleted_at is not null))
    and (${status}::text is null or delivery.status = ${status})
    and (${type}::text is null or event.type = ${type})
    and (${ids}::uuid[] is not null or not exists (
      select from all_deliveries newer
      where newer.event_id = delivery.event_id and newer.replayed and newer.id > delivery.id
        and newer.created_at < ${before}::timestamptz))`;
}

/**
 * A condition on `event`: of the selection's app, created before `before`, and never queued for
 * delivery.
 */
export function isUnsent(
  sql: Queryable,
  { appId, type, ...span }: Pick<Selection, 'appId' | 'type' | 'since' | 'until'>,
  before: string,
): Fragment {
  return sql`event.app_id = ${appId} and ${madeWithin(sql, 'event', span, before)}
    and (${type}::text is null or event.type = ${type})
    and not event.queued and not exists (select from all_deliveries where event_id = event.id
      and replayed)`;
}
