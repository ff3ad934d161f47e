// Measures the deliveries per second of a healthy endpoint next to slow endpoints (late 2xx
// responses) with a permanent backlog, at the default settings.
import { setTimeout as delay } from 'node:timers/promises';
import { fillQueue, now, seedApps, type Database, type Receivers } from './harness.ts';
import { startOurs } from './ours.ts';

const COUNT = 5000;

/**
 * Returns the deliveries per second of `receivers.urls[0]`. Its backlog is queued once the slow
 * endpoints have as many concurrent requests as they get.
 */
export async function healthyRate(database: Database, receivers: Receivers): Promise<number> {
  const { sql } = database;
  const [healthy, ...slow] = await seedApps(sql, receivers.urls);
  if (healthy === undefined) throw new Error('no receiver');
  if (slow.length > 0) await fillQueue(sql, slow, 200 * slow.length);
  await fillQueue(sql, [healthy], 20);
  receivers.reset();
  const dispatcher = await startOurs(database, {});
  await receivers.got(20);
  await delay(slow.length > 0 ? 8000 : 1000);
  const port = Number(new URL(receivers.urls[0] ?? '').port);
  receivers.reset();
  const started = now();
  await fillQueue(sql, [healthy], COUNT);
  while (((await receivers.counts()).get(port) ?? 0) < COUNT) await delay(10);
  const elapsed = now() - started;
  await dispatcher.stop();
  return (COUNT / elapsed) * 1000;
}
