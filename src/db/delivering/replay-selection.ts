// SQL conditions that select deliveries and events for a replay. Counting and queueing (replays.ts)
// use the same conditions.
import type { Queryable } from '../postgres/connect.ts';
import { idsBetween } from '../postgres/ids.ts';
import type { Fragment } from '../postgres/lists.ts';

/** Selects deliveries by id, or all deliveries that match every non-null filter. */
export interface Selection {
  ids: string[] | null;
  endpointId: string | null;
  appId: string | null;
  /**
   * Status of a delivery, or `retrying` or `unsent`. `retrying` selects pending deliveries that
   * have failed before and whose next attempt is not due yet. `unsent` selects events that never
   * had a delivery.
   */
  status: string | null;
  type: string | null;
  /** Lower bound of the delivery's creation time, inclusive. */
  since: Date | null;
  /** Upper bound of the delivery's creation time, exclusive. */
  until: Date | null;
  /** Lower bound of the time at which a delivery was finished; none by default. */
  finishedSince?: Date | null;
}

/**
 * Join condition: `live` is the enabled endpoint to which a replay of `event` goes. Some types of
 * events go only to endpoints that list the type. This restriction does not apply if the selection
 * names the type or delivery ids.
 */
export function liveEndpoint(sql: Queryable, { ids, type }: Pick<Selection, 'ids' | 'type'>) {
  return sql`live.app_id = event.app_id and live.deleted_at is null
    and live.disabled_at is null and event.type <> 'endpoint_disabled'
    and (${ids !== null || type !== null} or takes_event(live.extra_events, event.type))`;
}

/**
 * Condition: the row was created in [since, until) and before `before`. The comparisons of the id
 * let Postgres use the index. They are exact only to the millisecond, because an id contains the
 * creation time in milliseconds. The comparisons of created_at are exact to the microsecond.
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

function hasStatus(sql: Queryable, status: string | null): Fragment {
  if (status === 'retrying')
    return sql`delivery.status = 'pending' and delivery.attempts > 0
      and delivery.next_attempt_at > now()`;
  return sql`(${status}::text is null or delivery.status = ${status})`;
}

/**
 * Condition on `delivery` and `event`: the delivery matches the selection and was created before
 * `before`. Without ids in the selection, only the newest delivery of an event matches.
 */
export function isSelected(
  sql: Queryable,
  { ids, endpointId, appId, status, type, finishedSince = null, ...span }: Selection,
  before: string,
): Fragment {
  // Live and deleted endpoints have separate partial indexes, so the query has two branches.
  return sql`${madeWithin(sql, 'delivery', span, before)}
    and (${ids}::uuid[] is null or delivery.id = any(${ids}::uuid[]))
    and (${endpointId}::uuid is null or delivery.endpoint_id = ${endpointId})
    and (${appId}::uuid is null or delivery.endpoint_id in (
      select id from webhook_endpoints where app_id = ${appId} and deleted_at is null
      union all
      select id from webhook_endpoints where app_id = ${appId} and deleted_at is not null))
    and ${hasStatus(sql, status)}
    and (${finishedSince}::timestamptz is null or delivery.finished_at >= ${finishedSince})
    and (${type}::text is null or event.type = ${type})
    and (${ids}::uuid[] is not null or not exists (
      select from all_deliveries newer
      where newer.event_id = delivery.event_id and newer.replayed and newer.id > delivery.id
        and newer.created_at < ${before}::timestamptz))`;
}

/**
 * Condition on `event`: the event belongs to the selection's app, was created before `before` and
 * has never had a delivery.
 */
export function isUnsent(
  sql: Queryable,
  { appId, type, ...span }: Pick<Selection, 'appId' | 'type' | 'since' | 'until'>,
  before: string,
): Fragment {
  return sql`event.app_id = ${appId} and event.type <> 'endpoint_disabled'
    and ${madeWithin(sql, 'event', span, before)}
    and (${type}::text is null or event.type = ${type})
    and not event.queued and not exists (select from all_deliveries where event_id = event.id
      and replayed)`;
}
