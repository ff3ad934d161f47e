// Connections for reports: analytics, exports and replay counts, which read more rows than other
// statements and may take longer.
import { connect, type Queryable, type Sql, type Transaction } from './connect.ts';
import { reportLimits, sessionSettings } from './settings.ts';

export interface Reports {
  /** Runs statements with the limits of reports. */
  run<T>(work: (sql: Queryable) => Promise<T>): Promise<T>;
  /** The same in one transaction. */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>;
  end(): Promise<void>;
}

/** Number of connections. Further reports wait for a connection. */
const CONNECTIONS = 3;
/** Behind a pooler, reports of one process use at most one of the role's connections. */
const POOLED_CONNECTIONS = 1;
const REPORT = { planning: 'report', limits: reportLimits } as const;

/** Opens the connections. With `directUrl`, `url` leads to a pooler (connect.ts). */
export function openReports(
  url: string,
  { name, directUrl }: { name: string; directUrl?: string | undefined },
): Reports {
  const isPooled = directUrl !== undefined;
  const max = isPooled ? POOLED_CONNECTIONS : CONNECTIONS;
  return reportsOn(connect(url, { max, name, directUrl, ...REPORT }), isPooled);
}

/** Reports on the connections of a pool. `isPooled`: its sessions are those of a pooler. */
export function reportsOn(sql: Sql, isPooled: boolean): Reports {
  const transaction = async <T>(work: (tx: Transaction) => Promise<T>): Promise<T> =>
    (await sql.begin(async (tx) => {
      if (isPooled) await setLocally(tx, sessionSettings(REPORT));
      return work(tx);
    })) as T;
  return {
    run: isPooled ? transaction : (work) => work(sql),
    transaction,
    end: () => sql.end({ timeout: 1 }),
  };
}

/** Changes settings for the transaction: the next one may have another session of the pooler. */
async function setLocally(tx: Transaction, settings: Record<string, string>): Promise<void> {
  const [names, values] = [Object.keys(settings), Object.values(settings)];
  await tx`
    select set_config(name, value, true)
    from unnest(${names}::text[], ${values}::text[]) as setting (name, value)`;
}
