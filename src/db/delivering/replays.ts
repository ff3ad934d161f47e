// Queues events for delivery again, and brings the next attempt of pending deliveries forward. A
// replay goes to the live endpoint of the event's app; without such an endpoint, the event is
// skipped. Deliveries that a replay queued have `replayed` set and their own partial indexes.
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { FIRST_ID } from '../postgres/ids.ts';
import type { Fragment } from '../postgres/lists.ts';
import { isSelected, isUnsent, liveEndpoint, type Selection } from './replay-selection.ts';

export interface ReplayRun {
  id: string;
  /** The app whose merchant started the run through the API; null for a run by an operator. */
  appId: string | null;
  /** The selection as canonical JSON. */
  selection: string;
  /**
   * The run replays only deliveries and events that were created before this time. The timestamp is
   * text, to keep its microseconds.
   */
  until: string;
  stage: 'deliveries' | 'events';
  cursor: string | null;
  total: number;
  queued: number;
  createdAt: Date;
  finishedAt: Date | null;
}

const runFields = (sql: Queryable) => sql`
  id, app_id, selection, until::text as until, stage, cursor, total, queued, created_at,
    finished_at`;

export interface Matching {
  /** Delivery status, or `unsent` for events that never had a delivery. */
  status: string;
  count: number;
  /** How many of the `count` deliveries or events have a live endpoint that takes them. */
  deliverable: number;
}

/**
 * Queues the event of a delivery again. Returns undefined when the delivery does not exist or its
 * app has no live endpoint.
 */
export async function insertReplay(
  sql: Queryable,
  deliveryId: string,
): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    insert into delivery_queue (endpoint_id, event_id, event_type, replay_of, replayed)
    select endpoint.id, event.id, event.type, delivery.id, true
    from all_deliveries delivery
      join events event on event.id = delivery.event_id
      join webhook_endpoints endpoint on endpoint.app_id = event.app_id
        and endpoint.deleted_at is null and endpoint.disabled_at is null
    where delivery.id = ${deliveryId}
    returning id`;
  return row?.id;
}

/** Queues an event again. Returns undefined when its app has no live endpoint. */
export async function insertEventReplay(
  sql: Queryable,
  eventId: string,
): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    insert into delivery_queue (endpoint_id, event_id, event_type, replayed)
    select endpoint.id, event.id, event.type, true
    from events event join webhook_endpoints endpoint on endpoint.app_id = event.app_id
      and endpoint.deleted_at is null and endpoint.disabled_at is null
    where event.id = ${eventId} and event.type <> 'endpoint_disabled'
    returning id`;
  return row?.id;
}

/** Returns the given ids that belong to no delivery. */
export async function missingDeliveries(sql: Queryable, ids: string[]): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select wanted.id from unnest(${ids}::uuid[]) as wanted (id)
    where not exists (select from all_deliveries where all_deliveries.id = wanted.id)`;
  return rows.map((row) => row.id);
}

/**
 * Tells whether the selection's endpoint and app exist. A deleted endpoint and a null id count as
 * existing.
 */
export async function sourcesExist(
  sql: Queryable,
  { endpointId, appId }: Pick<Selection, 'endpointId' | 'appId'>,
): Promise<{ endpoint: boolean; app: boolean }> {
  const [row] = await sql<{ endpoint: boolean; app: boolean }[]>`
    select ${endpointId}::uuid is null or exists (select from webhook_endpoints
      where id = ${endpointId}) as endpoint,
      ${appId}::uuid is null or exists (select from apps where id = ${appId}) as app`;
  return row ?? { endpoint: false, app: false };
}

/** Counts the deliveries of a selection by status. */
export function countMatching(
  sql: Queryable,
  selection: Selection,
  before: string,
): Promise<Matching[]> {
  return sql<Matching[]>`
    select delivery.status, count(*)::int as count, count(live.id)::int as deliverable
    from all_deliveries delivery
      join events event on event.id = delivery.event_id
      left join webhook_endpoints live on ${liveEndpoint(sql, selection)}
    where ${isSelected(sql, selection, before)}
    group by delivery.status order by delivery.status`;
}

/** Counts the events of the selection's app that never had a delivery. */
export function countUnsent(
  sql: Queryable,
  selection: Selection,
  before: string,
): Promise<Matching[]> {
  return sql<Matching[]>`
    select 'unsent' as status, count(*)::int as count, count(live.id)::int as deliverable
    from events event left join webhook_endpoints live
      on ${liveEndpoint(sql, { ids: null, type: selection.type })}
    where ${isUnsent(sql, selection, before)}
    having count(*) > 0`;
}

/** Returns the database's time as text with microseconds, for the `until` of a new run. */
export async function readNow(sql: Queryable): Promise<string> {
  const [row] = await sql<{ now: string }[]>`select clock_timestamp()::text as now`;
  if (row === undefined) throw new Error('the database returned no time');
  return row.now;
}

/** Counts the finished runs of this selection. */
export async function countFinishedRuns(sql: Queryable, selection: string): Promise<number> {
  const [row] = await sql<[{ count: number }]>`
    select count(*)::int as count from replays
    where md5(selection) = md5(${selection}) and selection = ${selection}
      and finished_at is not null`;
  return row.count;
}

/** Finds the unfinished run of this selection. */
export async function findOpenRun(
  sql: Queryable,
  selection: string,
): Promise<ReplayRun | undefined> {
  const [run] = await sql<ReplayRun[]>`
    select ${runFields(sql)} from replays
    where md5(selection) = md5(${selection}) and selection = ${selection} and finished_at is null`;
  return run;
}

/** Starts a run, or returns the unfinished run of the same selection. */
export async function insertRun(
  sql: Queryable,
  {
    appId,
    selection,
    until,
    finishedBefore,
    total,
  }: {
    appId: string | null;
    selection: string;
    until: string;
    finishedBefore: number;
    total: number;
  },
): Promise<ReplayRun> {
  const [run] = await sql<ReplayRun[]>`
    insert into replays as open (app_id, selection, until, finished_before, total)
      values (${appId}, ${selection}, ${until}, ${finishedBefore}, ${total})
    on conflict (md5(selection)) where finished_at is null do update
      set app_id = coalesce(open.app_id, excluded.app_id)
    returning ${runFields(sql)}`;
  if (run === undefined) throw new Error('a replay was not stored');
  return run;
}

/** Finds a run that a merchant started. Runs by operators are not returned. */
export async function findRun(sql: Queryable, id: string): Promise<ReplayRun | undefined> {
  const [run] = await sql<
    ReplayRun[]
  >`select ${runFields(sql)} from replays where id = ${id} and app_id is not null`;
  return run;
}

/**
 * Finds the unfinished run that merchants started and whose last batch is the longest ago, skipping
 * runs locked by other processes. Locks the run until the transaction ends.
 */
export async function lockRequestedRun(sql: Transaction): Promise<ReplayRun | undefined> {
  const [run] = await sql<ReplayRun[]>`
    select ${runFields(sql)} from replays where finished_at is null and app_id is not null
    order by coalesce(worked_at, created_at), id limit 1 for update skip locked`;
  return run;
}

/**
 * Locks an unfinished run until the transaction ends, so that only one process at a time works on
 * the run. Returns undefined when the run is finished.
 */
export async function lockRun(sql: Transaction, id: string): Promise<ReplayRun | undefined> {
  const [run] = await sql<ReplayRun[]>`
    select ${runFields(sql)} from replays where id = ${id} and finished_at is null for update`;
  return run;
}

/**
 * Checks whether another run of the same selection has finished since this run was planned. If so,
 * this run has nothing left to queue, and the result is the number of deliveries that the other run
 * queued. Otherwise undefined. Compares the number of finished runs instead of times, because the
 * database's clock may go back.
 */
export async function queuedMeanwhile(
  sql: Transaction,
  { id }: ReplayRun,
): Promise<number | undefined> {
  const [others] = await sql<{ queued: number }[]>`
    select (array_agg(other.queued order by other.finished_at desc, other.id desc))[1] as queued
    from replays run
      join replays other on md5(other.selection) = md5(run.selection)
        and other.selection = run.selection and other.id <> run.id
    where run.id = ${id} and other.finished_at is not null
    group by run.id having count(*) > run.finished_before`;
  return others?.queued;
}

export interface Step {
  /** Number of rows read. A number below the limit means that the selection has no more rows. */
  seen: number;
  queued: number;
  /** Id of the last row read. */
  last: string | null;
}

/** Queues the next deliveries of a run, up to `limit`. */
export function queueDeliveriesAgain(
  sql: Transaction,
  selection: Selection,
  run: Pick<ReplayRun, 'cursor' | 'until'>,
  limit: number,
): Promise<Step> {
  return queueFound(
    sql,
    sql`
      select delivery.id, delivery.id as replay_of, delivery.event_id, event.type,
        live.id as endpoint_id
      from all_deliveries delivery
        join events event on event.id = delivery.event_id
        left join webhook_endpoints live on ${liveEndpoint(sql, selection)}
      where delivery.id > ${run.cursor ?? FIRST_ID}::uuid
        and ${isSelected(sql, selection, run.until)}
      order by delivery.id limit ${limit}`,
  );
}

/**
 * Makes the next attempt of a run's pending deliveries due now, up to `limit`. Queues no new
 * deliveries. Skips rows that a dispatcher has locked, because the dispatcher is about to change
 * them.
 */
export async function bringForward(
  sql: Transaction,
  selection: Selection,
  run: Pick<ReplayRun, 'cursor' | 'until'>,
  limit: number,
): Promise<Step> {
  const [step] = await sql<Step[]>`
    with found as (
      select delivery.id, live.id as endpoint_id
      from all_deliveries delivery
        join events event on event.id = delivery.event_id
        left join webhook_endpoints live on ${liveEndpoint(sql, selection)}
      where delivery.id > ${run.cursor ?? FIRST_ID}::uuid
        and ${isSelected(sql, selection, run.until)}
      order by delivery.id limit ${limit}
    ), free as (
      select queued.id from found join delivery_queue queued
        on queued.id = found.id and queued.endpoint_id = found.endpoint_id
      where queued.attempts > 0 and queued.due_at > now()
      order by queued.id for update of queued skip locked
    ), moved as (
      update delivery_queue set due_at = now() where id = any(array(select id from free))
      returning id
    )
    select (select count(*)::int from found) as seen, (select count(*)::int from moved) as queued,
      (select id from found order by id desc limit 1) as last`;
  return step ?? { seen: 0, queued: 0, last: null };
}

/** Queues the run's next events that never had a delivery, up to `limit`. */
export function queueUnsent(
  sql: Transaction,
  selection: Selection,
  run: Pick<ReplayRun, 'cursor' | 'until'>,
  limit: number,
): Promise<Step> {
  return queueFound(
    sql,
    sql`
      select event.id, null::uuid as replay_of, event.id as event_id, event.type,
        live.id as endpoint_id
      from events event left join webhook_endpoints live
        on ${liveEndpoint(sql, { ids: null, type: selection.type })}
      where event.id > ${run.cursor ?? FIRST_ID}::uuid and ${isUnsent(sql, selection, run.until)}
      order by event.id limit ${limit}`,
  );
}

async function queueFound(sql: Transaction, found: Fragment): Promise<Step> {
  const [step] = await sql<Step[]>`
    with found as (${found}), queued as (
      insert into delivery_queue (endpoint_id, event_id, event_type, replay_of, replayed)
      select endpoint_id, event_id, type, replay_of, true from found where endpoint_id is not null
        order by id
      returning id
    )
    select (select count(*)::int from found) as seen, (select count(*)::int from queued) as queued,
      (select id from found order by id desc limit 1) as last`;
  return step ?? { seen: 0, queued: 0, last: null };
}

/** Saves the progress of a run. Call it in the transaction that queued the rows. */
export async function updateRun(
  sql: Transaction,
  id: string,
  to: { stage: string; cursor: string | null; queued: number; finished: boolean },
): Promise<void> {
  await sql`
    update replays set stage = ${to.stage}, cursor = ${to.cursor}, queued = queued + ${to.queued},
      worked_at = clock_timestamp(),
      finished_at = case when ${to.finished} then clock_timestamp() end
    where id = ${id}`;
}
