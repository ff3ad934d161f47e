// maxPerSecond of an endpoint while dispatchers start and stop: some 20 s of deliveries.
import t from 'tap';
import { testDatabase } from '../fixtures/postgres.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { encryptionKey, queueDeliveries, runDispatcher, seedApp } from '../fixtures/webhooks.ts';

void t.test(
  'dispatchers that start and stop at the same time stay within an endpoint’s maxPerSecond',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const starts: number[] = [];
    const receiver = await startReceiver(t, (response) => {
      starts.push(performance.now());
      response.end();
    });
    const app = await seedApp(sql, receiver.url);
    await sql`update webhook_endpoints set max_per_second = 10 where id = ${app.endpointId}`;
    await queueDeliveries(sql, app, 220);
    const dispatch = () => runDispatcher(t, { url }, { env: { ENCRYPTION_KEY: encryptionKey } });
    const first = await dispatch();
    await receiver.got(20);
    await dispatch();
    await receiver.got(130);
    await first.stop();
    await receiver.got(220);
    const most = Math.max(
      ...starts.map((from) => starts.filter((at) => at >= from && at < from + 1000).length),
    );
    // One more for each process whose requests took different times to arrive.
    t.ok(most <= 12, `${most} requests in a second`);
  },
);
