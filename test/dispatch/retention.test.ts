import t from 'tap';
import { testDatabase } from '../fixtures/postgres.ts';
import { runDispatcher, seedApp, until } from '../fixtures/webhooks.ts';

void t.test(
  'finished deliveries with their attempts, and later events, leave when they are older than is kept; nothing else does',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    const app = await seedApp(sql, 'http://127.0.0.1:9/');
    // One a day for 100 days, made as they would have been: ids carry the time.
    await sql.begin(async (tx) => {
      await tx`set local session_replication_role = replica`;
      await tx`
      insert into events (id, app_id, subscription_id, sequence, type, body, created_at)
      select (lpad(to_hex((extract(epoch from day) * 1000)::int8), 12, '0') || '7000800000000000' || lpad(to_hex(number), 4, '0'))::uuid,
        ${app.appId}, ${app.subscriptionId}, number, 'payment_success', '{}', day
      from generate_series(now() - interval '99 days 12 hours', now(), interval '1 day') with ordinality as days (day, number)`;
      await tx`
      insert into deliveries (id, endpoint_id, event_id, event_type, status, attempts, finished_at, due_at, last_started_at, last_duration_ms, last_http_status)
      select id, ${app.endpointId}, id, type, 'delivered', 2, created_at, created_at, created_at, 1, 200 from events`;
      await tx`
      update deliveries set status = 'pending', finished_at = null, due_at = now() + interval '1 day'
      where created_at < now() - interval '98 days'`;
      await tx`
      insert into earlier_attempts (delivery_id, number, started_at, duration_ms, http_status) select id, 1, created_at, 1, 200 from deliveries`;
    });
    const counts = async () => {
      const [row] = await sql<{ deliveries: bigint; pending: bigint; attempts: bigint; events: bigint; oldest: number }[]>`
      select (select count(*) from deliveries) as deliveries, (select count(*) from deliveries where finished_at is null) as pending,
        (select count(*) from delivery_attempts) as attempts, (select count(*) from events) as events,
        (select extract(day from now() - min(created_at))::int from deliveries where finished_at is not null) as oldest`;
      return row;
    };
    t.same(await counts(), { deliveries: 100n, pending: 2n, attempts: 200n, events: 100n, oldest: 97 });
    await runDispatcher(t, database, { env: { DELIVERY_RETENTION_DAYS: '30', EVENT_RETENTION_DAYS: '60' } });
    await until(async () => (await counts())?.events === 62n);
    t.same(await counts(), { deliveries: 32n, pending: 2n, attempts: 64n, events: 62n, oldest: 29 });
  },
);

void t.test('0 days keeps everything', async (t) => {
  const database = await testDatabase(t);
  const { sql } = database;
  const app = await seedApp(sql, 'http://127.0.0.1:9/');
  const old = '00000000-0001-7000-8000-000000000000';
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into events (id, app_id, subscription_id, sequence, type, body, created_at)
      values (${old}, ${app.appId}, ${app.subscriptionId}, 1, 'payment_success', '{}', now())`;
  });
  const dispatcher = await runDispatcher(t, database, { env: { DELIVERY_RETENTION_DAYS: '0', EVENT_RETENTION_DAYS: '0' } });
  await dispatcher.stop();
  t.equal((await sql`select 1 from events`).length, 1);
});
