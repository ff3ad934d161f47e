// Three dispatchers as processes, one of which is killed: a receiver counts the requests in flight.
import t from 'tap';
import { start } from '../fixtures/command.ts';
import { asDaemon } from '../fixtures/daemons.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { encryptionKey, queueDeliveries, seedApp, until } from '../fixtures/webhooks.ts';

void t.test(
  'several dispatchers together respect the limit of requests in flight to an endpoint',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const [limit, count] = [6, 240];
    let [inFlight, most] = [0, 0];
    const receiver = await startReceiver(t, (response) => {
      inFlight += 1;
      most = Math.max(most, inFlight);
      response.on('close', () => (inFlight -= 1));
      setTimeout(() => response.end('ok'), 100);
    });
    const app = await seedApp(sql, receiver.url);
    const env = {
      DATABASE_URL: url,
      ENCRYPTION_KEY: encryptionKey,
      METRICS_PORT: '0',
      WEBHOOK_ENDPOINT_CONCURRENCY: String(limit),
    };
    const dispatch = async () => {
      const running = start(t, ['dispatch'], asDaemon(env, 'dispatch'));
      const line = JSON.parse(await running.line('dispatch is running')) as { metrics: string };
      return { ...running, metrics: line.metrics };
    };
    const [first, ...others] = [await dispatch(), await dispatch(), await dispatch()];
    const shareOf = async ({ metrics }: { metrics: string }) => {
      const text = await (await fetch(`${metrics}/metrics`)).text();
      return Number(/^billing_rate_share\{.*budget="webhook".*\} (\d+)$/m.exec(text)?.[1]);
    };
    await queueDeliveries(sql, app, count);
    await until(
      async () => (await Promise.all([first, ...others].map(shareOf))).join() === '2,2,2',
    );
    await queueDeliveries(sql, app, count);
    first.child.kill('SIGKILL');
    await first.ended;
    const again = await dispatch();
    await until(
      async () => (await Promise.all([again, ...others].map(shareOf))).join() === '2,2,2',
    );
    await queueDeliveries(sql, app, count);
    await until(async () => (await sql`select from delivery_queue`).length === 0);
    t.ok(receiver.requests.length >= 3 * count);
    t.ok(most > limit / 3 && most <= limit, `${most} at once`);
  },
);
