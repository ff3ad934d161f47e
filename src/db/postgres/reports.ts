// Connections for reports: analytics, exports and replay counts. Reports read more rows than other
// statements and may take longer.
import { connect, type Queryable, type Sql, type Transaction } from './connect.ts';
import { reportLimits, sessionSettings } from './settings.ts';

export interface Reports {
  /** Runs statements with the limits of reports. */
  run<T>(work: (sql: Queryable) => Promise<T>): Promise<T>;
  /** Runs statements in one transaction, with the limits of reports. */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>;
  end(): Promise<void>;
}

/** Maximum number of connections. Further reports wait for a connection. */
const CONNECTIONS = 3;
/** Behind a pooler, reports of one process use at most one of the role's connections. */
const POOLED_CONNECTIONS = 1;
const REPORT = { planning: 'report', limits: reportLimits } as const;

/** Opens a pool for reports. If `directUrl` is given, `url` leads to a pooler (connect.ts). */
export function openReports(
  url: string,
  { name, directUrl }: { name: string; directUrl?: string | undefined },
): Reports {
  const isPooled = directUrl !== undefined;
  const max = isPooled ? POOLED_CONNECTIONS : CONNECTIONS;
  return reportsOn(connect(url, { max, name, directUrl, ...REPORT }), isPooled);
}

/** Runs reports on an existing pool. `isPooled`: the pool connects to a pooler. */
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

/**
 * Changes settings for this transaction only. A pooler may run the next transaction on another
 * session.
 */
async function setLocally(tx: Transaction, settings: Record<string, string>): Promise<void> {
  const [names, values] = [Object.keys(settings), Object.values(settings)];
  await tx`
    select set_config(name, value, true)
    from unnest(${names}::text[], ${values}::text[]) as setting (name, value)`;
}
