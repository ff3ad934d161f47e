import t from 'tap';
import { ok, startReceiver, status } from '../fixtures/receiver.ts';
import { attempted, attemptsOf, deliveryState, queueDeliveries, runDispatcher, seedApp } from '../fixtures/webhooks.ts';
import { testDatabase } from '../fixtures/postgres.ts';

void t.test('a queued delivery is posted once and logged', async (t) => {
  const database = await testDatabase(t);
  const { sql } = database;
  const receiver = await startReceiver(t, ok);
  const app = await seedApp(sql, receiver.url);
  const [id] = (await queueDeliveries(sql, app, 1)) as [string];
  await runDispatcher(t, database);
  await attempted(sql, id);
  t.equal(receiver.requests.length, 1);
  t.match(await deliveryState(sql, id), { status: 'delivered', attempts: 1, leaseUntil: null });
  t.match(await attemptsOf(sql, id), [{ number: 1, httpStatus: 200, error: null, response: Buffer.from('ok'), address: '127.0.0.1' }]);
});
void t.test('failure', async (t) => {
  const database = await testDatabase(t);
  const { sql } = database;
  const receiver = await startReceiver(t, status(500));
  const app = await seedApp(sql, receiver.url);
  const [id] = (await queueDeliveries(sql, app, 1)) as [string];
  await runDispatcher(t, database);
  for (let n = 1; n <= 6; n++) {
    await attempted(sql, id, n);
    console.log(await deliveryState(sql, id), (await attemptsOf(sql, id)).at(-1));
    await sql`update deliveries set due_at = now() where id = ${id} and finished_at is null`;
  }
});
