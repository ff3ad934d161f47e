// Connections for reports: analytics, exports and replay counts. Reports read more rows than other
// statements and may take longer.
import { connect, type Queryable, type Sql, type Transaction } from './connect.ts';
import { reportLimits, sessionSettings } from './settings.ts';

export interface Reports {
  /** Runs statements with the limits of reports. */
  run<T>(work: (sql: Queryable) => Promise<T>): Promise<T>;
  /** Runs statements that only read, on the replica if REPORTS_DATABASE_URL names a replica. */
  read<T>(work: (sql: Queryable) => Promise<T>): Promise<T>;
  /**
   * Returns an upper bound, in seconds, of the replication delay of the data that `read` returns.
   */
  readAge(): Promise<number>;
  /** Runs statements in one transaction, with the limits of reports. */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>;
  end(): Promise<void>;
}

/** Maximum number of connections. Further reports wait for a connection. */
const CONNECTIONS = 3;
/**
 * Maximum number of connections behind a pooler. A pooler has few connections for each role, and
 * the daemon's other statements need them too.
 */
const POOLED_CONNECTIONS = 1;
const REPORT = { planning: 'report', limits: reportLimits } as const;

/**
 * Opens a pool for reports. If `directUrl` is given, `url` leads to a pooler (connect.ts). If
 * `replicaUrl` is given, `read` uses that server.
 */
export function openReports(
  url: string,
  {
    name,
    directUrl,
    replicaUrl,
  }: { name: string; directUrl?: string | undefined; replicaUrl?: string | undefined },
): Reports {
  const isPooled = directUrl !== undefined;
  const max = isPooled ? POOLED_CONNECTIONS : CONNECTIONS;
  const replica =
    replicaUrl === undefined
      ? undefined
      : connect(replicaUrl, { max: CONNECTIONS, name, ...REPORT });
  return reportsOn(connect(url, { max, name, directUrl, ...REPORT }), isPooled, replica);
}

/**
 * Returns functions that run reports on an existing pool. `isPooled` is true if the pool connects
 * to a pooler.
 */
export function reportsOn(sql: Sql, isPooled: boolean, replica?: Sql): Reports {
  const transaction = async <T>(work: (tx: Transaction) => Promise<T>): Promise<T> =>
    (await sql.begin(async (tx) => {
      if (isPooled) await setLocally(tx, sessionSettings(REPORT));
      return work(tx);
    })) as T;
  const run: Reports['run'] = isPooled ? transaction : (work) => work(sql);
  return {
    run,
    read: replica === undefined ? run : (work) => work(replica),
    readAge: () => (replica === undefined ? Promise.resolve(0) : readAge(replica)),
    transaction,
    async end() {
      await Promise.all([sql.end({ timeout: 1 }), replica?.end({ timeout: 1 })]);
    },
  };
}

/**
 * Returns an upper bound, in seconds, of a standby's replication delay; 0 for a primary. A
 * connected standby that has replayed everything it received is 0 seconds behind.
 */
async function readAge(replica: Sql): Promise<number> {
  const [row] = await replica<{ age: number }[]>`
    select case
      when not pg_is_in_recovery() then 0
      when pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()
        and exists (select from pg_stat_wal_receiver) then 0
      else ceil(greatest(0, extract(epoch from
        clock_timestamp() - coalesce(pg_last_xact_replay_timestamp(), pg_postmaster_start_time()))))
      end::int as age`;
  return row?.age ?? 0;
}

/**
 * Changes settings until the transaction ends. Behind a pooler, session settings would also apply
 * to the next client that uses the session.
 */
async function setLocally(tx: Transaction, settings: Record<string, string>): Promise<void> {
  const [names, values] = [Object.keys(settings), Object.values(settings)];
  await tx`
    select set_config(name, value, true)
    from unnest(${names}::text[], ${values}::text[]) as setting (name, value)`;
}
