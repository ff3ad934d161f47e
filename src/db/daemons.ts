// The daemons that run on this database. Each writes its row every few seconds, which also shows that Postgres can be written to.
import type { Queryable } from './connect.ts';

export interface DaemonRow {
  name: string;
  host: string;
  pid: number;
  startedAt: Date;
  /** When it wrote last. */
  seenAt: Date;
  /** Why it cannot do its work, in its own words; null when it can. */
  trouble: string | null;
}

/** Adds the daemon's row, or says that it still runs. */
export async function writeDaemon(
  sql: Queryable,
  daemon: { id: string; name: string; host: string; pid: number; trouble: string | null },
): Promise<void> {
  const { id, name, host, pid, trouble } = daemon;
  await sql`
    insert into daemons (id, name, host, pid, trouble) values (${id}, ${name}, ${host}, ${pid}, ${trouble})
    on conflict (id) do update set seen_at = clock_timestamp(), trouble = excluded.trouble`;
}

/** How many daemons of this name ended within 15 minutes without saying that they stop: killed, out of memory, or after a crash. */
export async function countLostDaemons(sql: Queryable, name: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from daemons
    where name = ${name} and seen_at between now() - interval '15 minutes' and now() - interval '20 seconds'`;
  return row?.count ?? 0;
}

/** Removes the row of a daemon that stops, and rows of daemons that were killed more than a day ago. */
export async function removeDaemon(sql: Queryable, id: string): Promise<void> {
  await sql`delete from daemons where id = ${id} or seen_at < now() - interval '1 day'`;
}

/** Every daemon that wrote within a day, the newest first. */
export function listDaemons(sql: Queryable): Promise<DaemonRow[]> {
  return sql<DaemonRow[]>`
    select name, host, pid, started_at, seen_at, trouble from daemons
    where seen_at > now() - interval '1 day' order by seen_at desc limit 200`;
}
