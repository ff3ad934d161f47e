// Which deliveries and events a replay takes: the conditions that counting and queueing (replays.ts) share.
import type { Queryable } from './connect.ts';
import { idsBetween } from './ids.ts';
import type { Fragment } from './lists.ts';

/** Which deliveries: these ids, or all that match every filter that is not null. */
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

/** The endpoint that gets an event again. One that did not ask for an extra type gets it only where the selection names the type or the deliveries. */
export function liveEndpoint(sql: Queryable, { ids, type }: Pick<Selection, 'ids' | 'type'>) {
  return sql`live.app_id = event.app_id and live.deleted_at is null
    and (${ids !== null || type !== null} or takes_event(live.extra_events, event.type))`;
}

/**
 * The creation times of a selection: bounds on the id, which an index has, and the times themselves. `before` has microseconds, its bound on the id
 * milliseconds.
 */
function madeWithin(
  sql: Queryable,
  table: 'delivery' | 'event',
  { since, until }: Pick<Selection, 'since' | 'until'>,
  before: string,
): Fragment {
  const { first, end } = idsBetween(since, until);
  const [id, createdAt] = [sql(`${table}.id`), sql(`${table}.created_at`)];
  return sql`${id} >= ${first}::uuid and ${id} < ${end}::uuid and ${id} < first_id_at(${before}::timestamptz + interval '1 ms')
    and (${since}::timestamptz is null or ${createdAt} >= ${since}) and (${until}::timestamptz is null or ${createdAt} < ${until})
    and ${createdAt} < ${before}::timestamptz`;
}

/** The deliveries of a selection, made before `before`, of `delivery` and its `event`. Of several deliveries of one event only the newest counts. */
export function isSelected(
  sql: Queryable,
  { ids, endpointId, appId, status, type, ...span }: Selection,
  before: string,
): Fragment {
  // In two parts, since live and deleted endpoints have an index each.
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
      where newer.event_id = delivery.event_id and newer.replayed and newer.id > delivery.id and newer.created_at < ${before}::timestamptz))`;
}

/** The events of a selection's app, made before `before`, that never had a delivery. */
export function isUnsent(
  sql: Queryable,
  { appId, type, ...span }: Pick<Selection, 'appId' | 'type' | 'since' | 'until'>,
  before: string,
): Fragment {
  return sql`event.app_id = ${appId} and ${madeWithin(sql, 'event', span, before)} and (${type}::text is null or event.type = ${type})
    and not event.queued and not exists (select from all_deliveries where event_id = event.id and replayed)`;
}
