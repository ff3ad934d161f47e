// Heartbeats of the daemons. Each daemon updates its row every few seconds. The update also proves
// that Postgres accepts writes.
import type { Queryable } from './postgres/connect.ts';

export interface DaemonRow {
  name: string;
  host: string;
  pid: number;
  /** The daemon's release; null for old releases, which do not report it. */
  release: string | null;
  /** The newest migration that the daemon's release knows. */
  schemaVersion: number | null;
  startedAt: Date;
  /** Time of the last heartbeat. */
  seenAt: Date;
  /** The reason why the daemon is not ready, reported by the daemon; null when it is ready. */
  trouble: string | null;
}

/** Inserts the daemon's row, or updates its heartbeat when the row exists. */
export async function writeDaemon(
  sql: Queryable,
  daemon: Omit<DaemonRow, 'startedAt' | 'seenAt'> & { id: string },
): Promise<void> {
  const { id, name, host, pid, release, schemaVersion, trouble } = daemon;
  await sql`
    insert into daemons (id, name, host, pid, release, schema_version, trouble)
      values (${id}, ${name}, ${host}, ${pid}, ${release}, ${schemaVersion}, ${trouble})
    on conflict (id) do update set seen_at = clock_timestamp(), trouble = excluded.trouble`;
}

/**
 * Counts daemons of this name whose last heartbeat is between 20 seconds and 15 minutes old. Such a
 * daemon crashed or was killed. A daemon that stops normally removes its row.
 */
export async function countLostDaemons(sql: Queryable, name: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from daemons
    where name = ${name} and seen_at between now() - interval '15 minutes'
      and now() - interval '20 seconds'`;
  return row?.count ?? 0;
}

/** Removes the row of a stopping daemon, and all rows with a heartbeat older than a day. */
export async function removeDaemon(sql: Queryable, id: string): Promise<void> {
  await sql`delete from daemons where id = ${id} or seen_at < now() - interval '1 day'`;
}

/** Lists the daemons with a heartbeat within the last day, most recent heartbeat first. */
export function listDaemons(sql: Queryable): Promise<DaemonRow[]> {
  return sql<DaemonRow[]>`
    select name, host, pid, release, schema_version, started_at, seen_at, trouble from daemons
    where seen_at > now() - interval '1 day' order by seen_at desc limit 200`;
}
