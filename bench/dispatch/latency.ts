// Latency from enqueueing (just before the insert is sent) to receipt, at 50 events per second: the
// dispatcher compared with graphile-worker.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { createNotifier, DELIVERIES_QUEUED } from '../../src/db/postgres/notify.ts';
import { startGraphile } from './graphile.ts';
import { bodyOf, now, quantile, seedApps, type Database, type Receivers } from './harness.ts';
import { startOurs } from './ours.ts';

export interface Latency {
  p50: number;
  p99: number;
}

const EVERY_MS = 20;

async function measure(
  receivers: Receivers,
  count: number,
  enqueue: (id: string) => Promise<void>,
): Promise<Latency> {
  receivers.reset();
  receivers.watchTimes();
  const queued = new Map<string, number>();
  const inserts: Promise<void>[] = [];
  const started = now();
  for (let index = 0; index < count; index += 1) {
    await delay(Math.max(0, started + index * EVERY_MS - now()));
    const id = randomUUID();
    queued.set(id, now());
    inserts.push(enqueue(id));
  }
  await Promise.all(inserts);
  await receivers.got(count);
  const taken = (await receivers.times()).map(([id, at]) => at - (queued.get(id) ?? NaN));
  if (taken.some(Number.isNaN)) throw new Error('a body came that was not queued');
  return { p50: quantile(taken, 0.5), p99: quantile(taken, 0.99) };
}

export async function latencyOurs(
  database: Database,
  receivers: Receivers,
  count: number,
): Promise<Latency> {
  const { sql } = database;
  const [app] = await seedApps(sql, receivers.urls.slice(0, 1));
  if (app === undefined) throw new Error('no receiver');
  // Inserts one event per statement, like graphile-worker. Triggers are off, because their checks
  // are not measured.
  await sql`alter table events disable trigger user`;
  const dispatcher = await startOurs(database, {});
  const notifier = createNotifier(sql, DELIVERIES_QUEUED);
  const endpoints = new Set([app.endpointId]);
  let sequence = 0;
  const latency = await measure(receivers, count, async (id) => {
    sequence += 1;
    await sql`
      with event as (
        insert into events (app_id, subscription_id, sequence, type, body, created_at)
        values (${app.appId}, ${app.subscriptionId}, ${sequence}, 'payment_success', ${bodyOf(id)}, now()) returning id
      )
      insert into delivery_queue (endpoint_id, event_id, event_type) select ${app.endpointId}, id, 'payment_success' from event`;
    notifier.notify(endpoints);
  });
  await notifier.flush();
  await dispatcher.stop();
  return latency;
}

export async function latencyGraphile(
  database: Database,
  receivers: Receivers,
  count: number,
): Promise<Latency> {
  const worker = await startGraphile(database, receivers);
  const latency = await measure(receivers, count, (id) => worker.enqueue(id));
  await worker.stop();
  return latency;
}
