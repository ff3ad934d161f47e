// The dispatcher itself, as `billing dispatch` runs it, on a backlog.
import { Registry } from 'prom-client';
import type { Sql } from '../../src/db/connect.ts';
import { startDispatcher, type Dispatcher } from '../../src/dispatch/start.ts';
import { createLog } from '../../src/log.ts';
import { dispatchConfig } from '../../test/fixtures/webhooks.ts';
import { now, type Database, type Receivers } from './harness.ts';

export function startOurs({ sql, url }: Database, env: Record<string, string>): Promise<Dispatcher> {
  const log = createLog('dispatch', { level: 'warn', pretty: false, stream: 'stderr' });
  return startDispatcher({ sql, config: dispatchConfig(url, env), log, registry: new Registry() });
}

/** Resolves once nothing is left to deliver. */
async function drained(sql: Sql): Promise<void> {
  for (;;) {
    const [row] = await sql<{ left: boolean }[]>`select exists (select from deliveries where finished_at is null) as left`;
    if (row?.left !== true) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Delivers what is queued (`count` deliveries) and returns deliveries per second, from start to the last outcome written. */
export async function deliverOurs(database: Database, receivers: Receivers, count: number, env: Record<string, string>): Promise<number> {
  receivers.reset();
  const started = now();
  const dispatcher = await startOurs(database, env);
  await receivers.got(count);
  await drained(database.sql);
  const elapsed = now() - started;
  await dispatcher.stop();
  const [row] = await database.sql<{ logged: bigint }[]>`select count(*) as logged from delivery_attempts where http_status = 200`;
  if (Number(row?.logged ?? 0) < count) throw new Error(`${row?.logged ?? 0} attempts are logged of ${count}`);
  return (count / elapsed) * 1000;
}
