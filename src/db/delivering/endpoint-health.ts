// Results of the requests to webhook endpoints. Each dispatcher counts its results in memory and
// adds the counts to the tables endpoint_hours and endpoint_health every few seconds. A crash loses
// the counts of the last few seconds.
import type { Queryable } from '../postgres/connect.ts';
import { recordset } from '../postgres/recordset.ts';

/**
 * Results of one endpoint's requests since the last write. Times are Unix ms of the database's
 * clock.
 */
export interface HealthSum {
  endpointId: string;
  succeeded: number;
  failed: number;
  lastSuccessAt: number | null;
  lastFailureAt: number | null;
  /** Time of the endpoint's first failed request after its last success, among these results. */
  failingSince: number | null;
  /** HTTP status or error code of the last failure. */
  lastError: string | null;
}

/**
 * Adds the results of each endpoint to the endpoint's rows. Locks the rows in the order of endpoint
 * ids, so dispatchers cannot deadlock.
 */
export async function addHealth(sql: Queryable, sums: readonly HealthSum[]): Promise<void> {
  const rows = recordset(sql, sums, {
    ...{ endpointId: 'uuid', succeeded: 'int', failed: 'int', lastSuccessAt: 'float8' },
    ...{ lastFailureAt: 'float8', failingSince: 'float8', lastError: 'text' },
  });
  await sql`
    with given as materialized (
      select e.id as endpoint_id, given.succeeded, given.failed, given.last_error as error,
        to_timestamp(given.last_success_at / 1000) as success,
        to_timestamp(given.last_failure_at / 1000) as failure,
        to_timestamp(given.failing_since / 1000) as since
      from (${rows}) as given
        join webhook_endpoints e on e.id = given.endpoint_id
      order by e.id
    ), counted as (
      insert into endpoint_hours as h (endpoint_id, hour, succeeded, failed)
      select endpoint_id, date_trunc('hour', now()), succeeded, failed from given
      on conflict (endpoint_id, hour) do update set succeeded = h.succeeded + excluded.succeeded,
        failed = h.failed + excluded.failed
    )
    insert into endpoint_health as h (endpoint_id, last_success_at, last_failure_at, failing_since,
      last_error)
    select endpoint_id, success, failure, since, error from given
    on conflict (endpoint_id) do update set
      last_success_at = greatest(h.last_success_at, excluded.last_success_at),
      last_failure_at = greatest(h.last_failure_at, excluded.last_failure_at),
      last_error = case when excluded.last_failure_at >= coalesce(h.last_failure_at, '-infinity')
        then excluded.last_error else h.last_error end,
      failing_since = case
        when greatest(h.last_failure_at, excluded.last_failure_at) >
          coalesce(greatest(h.last_success_at, excluded.last_success_at), '-infinity')
        then coalesce(
          case when h.failing_since > coalesce(excluded.last_success_at, '-infinity')
            then h.failing_since end,
          excluded.failing_since, h.last_failure_at) end`;
}

/** Deletes the counts of hours that began more than two days ago. */
export async function deleteOldHours(sql: Queryable): Promise<void> {
  await sql`delete from endpoint_hours where hour < now() - interval '2 days'`;
}
