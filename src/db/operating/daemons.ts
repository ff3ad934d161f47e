// Heartbeats of the daemons. Each daemon updates its row every few seconds. The update also proves
// that Postgres accepts writes.
import { areConfirmationsNeeded } from '../delivering/mail-addresses.ts';
import type { Queryable } from '../postgres/connect.ts';

export interface DaemonRow {
  name: string;
  host: string;
  pid: number;
  release: string;
  /** The newest migration that the daemon's release knows. */
  schemaVersion: number;
  startedAt: Date;
  /** Time of the last heartbeat. */
  seenAt: Date;
  /** Time at which the daemon stopped; null while it runs, and after it was killed. */
  stoppedAt: Date | null;
  /** The reason why the daemon is not ready, reported by the daemon; null when it is ready. */
  trouble: string | null;
}

/** Inserts the daemon's row, or updates its heartbeat when the row exists. */
export async function writeDaemon(
  sql: Queryable,
  daemon: Omit<DaemonRow, 'startedAt' | 'seenAt' | 'stoppedAt'> & { id: string },
): Promise<void> {
  const { id, name, host, pid, release, schemaVersion, trouble } = daemon;
  await sql`
    insert into daemons (id, name, host, pid, release, schema_version, trouble)
      values (${id}, ${name}, ${host}, ${pid}, ${release}, ${schemaVersion}, ${trouble})
    on conflict (id) do update set seen_at = clock_timestamp(), trouble = excluded.trouble`;
}

/**
 * Counts daemons of this name whose last heartbeat is between 20 seconds and 15 minutes old. Such a
 * daemon crashed or was killed.
 */
export async function countLostDaemons(sql: Queryable, name: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from daemons
    where name = ${name} and stopped_at is null and seen_at between now() - interval '15 minutes'
      and now() - interval '20 seconds'`;
  return row?.count ?? 0;
}

/**
 * Records that a daemon stops. Deletes the rows of stopped daemons and of daemons without a
 * heartbeat for a day, but keeps the newest row of each kind.
 */
export async function recordStop(sql: Queryable, id: string): Promise<void> {
  await sql`
    with stopped as (
      update daemons set stopped_at = clock_timestamp(), seen_at = clock_timestamp()
      where id = ${id}
    )
    delete from daemons d
    where id <> ${id} and (stopped_at is not null or seen_at < now() - interval '1 day')
      and exists (select from daemons n where n.name = d.name and n.seen_at > d.seen_at)`;
}

/**
 * Lists (1) the running daemons, (2) the killed daemons whose last heartbeat is less than a day
 * old, (3) the newest daemon of each kind. The most recent heartbeat comes first.
 */
export function listDaemons(sql: Queryable): Promise<DaemonRow[]> {
  return sql<DaemonRow[]>`
    select name, host, pid, release, schema_version, started_at, seen_at, stopped_at, trouble
    from daemons d
    where (seen_at > now() - interval '1 day' and stopped_at is null)
      or not exists (select from daemons n where n.name = d.name and n.seen_at > d.seen_at)
    order by seen_at desc limit 200`;
}

/** Whether there is work for each kind of daemon. */
export interface Work {
  /** Merchants have apps, so they call the API and send buyers to its pages. */
  serve: boolean;
  /**
   * Subscriptions are live or not registered yet, plans or refunds are pending, or a signed
   * transaction has no decision or no end yet.
   */
  keeper: boolean;
  /** Webhook deliveries or e-mails are waiting. */
  dispatch: boolean;
}

/** `sendsMails`: SMTP_URL is set, so that addresses without a confirmation are work as well. */
export async function readWork(
  sql: Queryable,
  { sendsMails }: { sendsMails: boolean },
): Promise<Work> {
  const [row] = await sql<[Work]>`
    select exists (select from apps) as serve,
      exists (select from subscriptions where status in ('active', 'past_due'))
        or exists (select from payment_attempts where state = 'open')
        or exists (select from sponsorships where state = 'open')
        or exists (select from offers o where o.signed is not null
          and not exists (select from sponsorships s where s.offer_id = o.id))
        or exists (select from refunds where status = 'pending' and look_at is not null)
        or exists (select from offers
          where sponsor is null and purpose = 'subscribe' and registered_at is null
            and look_at is distinct from 'infinity')
        or exists (select from unregistered_subscriptions)
        or exists (select from plans where status = 'pending') as keeper,
      exists (select from delivery_queue)
        or exists (select from mails where due_at is not null)
        or ${sendsMails} and ${areConfirmationsNeeded(sql)} as dispatch`;
  return row;
}
