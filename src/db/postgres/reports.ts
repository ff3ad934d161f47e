// Connections for reports: analytics, exports and replay counts, which read more rows than other
// statements and may take longer.
import { connect, type Queryable, type Sql, type Transaction } from './connect.ts';
import { reportLimits, sessionSettings } from './settings.ts';

export interface Reports {
  /** Runs statements with the limits of reports. */
  run<T>(work: (sql: Queryable) => Promise<T>): Promise<T>;
  /** Runs statements that only read, on the replica where there is one. */
  read<T>(work: (sql: Queryable) => Promise<T>): Promise<T>;
  /** Reads how old the data of `read` may be, in seconds. Later reads are not older. */
  readAge(): Promise<number>;
  /** Runs statements in one transaction. */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>;
  end(): Promise<void>;
}

/** Number of connections. Further reports wait for a connection. */
const CONNECTIONS = 3;
/** Behind a pooler, reports of one process use at most one of the role's connections. */
const POOLED_CONNECTIONS = 1;
const REPORT = { planning: 'report', limits: reportLimits } as const;

/**
 * Opens the connections. With `directUrl`, `url` leads to a pooler (connect.ts). With `replicaUrl`,
 * `read` uses that server.
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

/** Reports on the connections of a pool. `isPooled`: its sessions are those of a pooler. */
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
 * Reads by how many seconds a standby is behind at most; 0 on a primary. A connected standby that
 * has replayed all that it received is not behind, however long ago the last commit was.
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

/** Changes settings for the transaction: the next one may have another session of the pooler. */
async function setLocally(tx: Transaction, settings: Record<string, string>): Promise<void> {
  const [names, values] = [Object.keys(settings), Object.values(settings)];
  await tx`
    select set_config(name, value, true)
    from unnest(${names}::text[], ${values}::text[]) as setting (name, value)`;
}
