// Measures the time of 1,000 deliveries to a healthy endpoint, alone and next to endpoints that
// hang, at the default settings. Before the measurement, the dispatcher has tried every endpoint.
// The hanging endpoints always have a backlog.
import { setTimeout as delay } from 'node:timers/promises';
import { createNotifier, DELIVERIES_QUEUED } from '../../src/db/postgres/notify.ts';
import { queueBodies } from '../../test/fixtures/webhooks.ts';
import { bodyOf, fillQueue, now, seedApps, type Database, type Receivers } from './harness.ts';
import { startOurs } from './ours.ts';

const COUNT = 1000;

/**
 * Returns the milliseconds from queueing until `receivers.urls[0]` has received everything.
 * `backlog` is the number of deliveries queued for each hanging endpoint.
 */
export async function healthyMs(
  database: Database,
  receivers: Receivers,
  backlog: number,
): Promise<number> {
  const { sql } = database;
  const apps = await seedApps(sql, receivers.urls);
  const hung = await seedApps(sql, receivers.hungUrls);
  const [watched] = apps;
  if (watched === undefined) throw new Error('no receiver');
  if (hung.length > 0) await fillQueue(sql, hung, backlog * hung.length);
  receivers.reset();
  const dispatcher = await startOurs(database, {});
  const notifier = createNotifier(sql, DELIVERIES_QUEUED);
  await fillQueue(sql, apps, 20 * apps.length);
  notifier.notify();
  let warm = 0;
  while (warm < 20 * apps.length) {
    await delay(100);
    const counts = await receivers.counts();
    warm = receivers.urls.reduce(
      (sum, url) => sum + (counts.get(Number(new URL(url).port)) ?? 0),
      0,
    );
  }
  if (hung.length > 0) await delay(6000);
  receivers.reset();
  const port = Number(new URL(receivers.urls[0] ?? '').port);
  const bodies = Array<string>(COUNT).fill(bodyOf('a delivery'));
  const started = now();
  await queueBodies(sql, watched, bodies);
  notifier.notify();
  for (;;) {
    await delay(5);
    const received = (await receivers.counts()).get(port) ?? 0;
    if (received >= COUNT) break;
  }
  const elapsed = now() - started;
  await notifier.flush();
  // The requests to hanging endpoints would delay a stop by 5 s, so the stop is not measured.
  await dispatcher.stop();
  return elapsed;
}
