// The dispatcher of this project with a backlog, as `billing dispatch` runs it.
import { Registry } from 'prom-client';
import { startDispatcher, type Dispatcher } from '../../src/dispatch/dispatcher.ts';
import { createLog } from '../../src/log.ts';
import { dispatchConfig } from '../../test/fixtures/webhooks.ts';
import { now, type Database, type Receivers } from './harness.ts';

export function startOurs(
  { sql, url }: Database,
  env: Record<string, string>,
  registry = new Registry(),
): Promise<Dispatcher> {
  const log = createLog('dispatch', { level: 'warn', pretty: false, stream: 'stderr' });
  return startDispatcher({ sql, config: dispatchConfig(url, env), log, registry });
}

/**
 * Resolves when all responses have arrived and all outcomes are written. Reads the metrics, because
 * a query would have to scan all rows that have just left the queue.
 */
async function drained(registry: Registry): Promise<void> {
  for (;;) {
    let left = 0;
    for (const name of ['billing_webhook_in_flight', 'billing_webhook_outcomes_waiting']) {
      for (const { value } of (await registry.getSingleMetric(name)?.get())?.values ?? [])
        left += value;
    }
    if (left === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/**
 * Delivers the `count` queued deliveries. Returns the deliveries per second, from the start of the
 * dispatcher until the last outcome is written.
 */
export async function deliverOurs(
  database: Database,
  receivers: Receivers,
  count: number,
  env: Record<string, string>,
): Promise<number> {
  receivers.reset();
  const registry = new Registry();
  const started = now();
  const dispatcher = await startOurs(database, env, registry);
  await receivers.got(count);
  await drained(registry);
  const elapsed = now() - started;
  const [left] = await database.sql`select 1 from delivery_queue limit 1`;
  if (left !== undefined) throw new Error('something was left');
  await dispatcher.stop();
  const [row] = await database.sql<
    { logged: bigint }[]
  >`select count(*) as logged from delivery_attempts where http_status = 200`;
  if (Number(row?.logged ?? 0) < count)
    throw new Error(`${row?.logged ?? 0} attempts are logged of ${count}`);
  return (count / elapsed) * 1000;
}
