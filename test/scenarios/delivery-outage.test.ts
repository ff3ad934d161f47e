// The dispatcher survives an outage of Postgres without a restart, loses no delivery and records no
// false attempt.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Registry } from 'prom-client';
import t from 'tap';
import { connect } from '../../src/db/postgres/connect.ts';
import { migrate } from '../../src/db/postgres/migrate.ts';
import { createNotifier, DELIVERIES_QUEUED } from '../../src/db/postgres/notify.ts';
import { startEmbeddedPostgres } from '../../src/local/sandbox/postgres.ts';
import { observeLoops } from '../../src/loop.ts';
import { asRole, makeTestRoles, testDatabase } from '../fixtures/postgres.ts';
import { startProxy } from '../fixtures/proxy.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import {
  attempted,
  attemptsOf,
  deliveryState,
  queueDeliveries,
  runDispatcher,
  seedApp,
  until,
} from '../fixtures/webhooks.ts';

void t.test(
  'after a restart of Postgres, deliveries and notifications continue; meanwhile the dispatcher is not ready',
  async (t) => {
    const dataDir = await mkdtemp(join(tmpdir(), 'billing-outage-'));
    const first = await startEmbeddedPostgres({ dataDir });
    const { url } = first;
    const sql = connect(url, { max: 5, name: 'test' });
    t.teardown(() => rm(dataDir, { recursive: true, force: true }));
    await makeTestRoles(sql);
    await migrate(sql);
    const port = Number(new URL(url).port);
    const wire = await startProxy(t, port);
    // The outage begins between the request and its answer, so the outcome cannot be written.
    const receiver = await startReceiver(t, (response) => {
      wire.cut();
      receiver.answer = (later) => later.end('ok');
      response.end('ok');
    });
    const app = await seedApp(sql, receiver.url);
    // A lease that is longer than the outage on any machine.
    const dispatcher = await runDispatcher(
      t,
      { url: url.replace(`:${port}/`, `:${wire.port}/`) },
      { env: { WEBHOOK_LEASE_SECONDS: '3600' } },
    );
    t.equal(await dispatcher.ready(), undefined);
    const [inHand = ''] = await queueDeliveries(sql, app, 1);
    await receiver.got(1);
    await first.stop();
    await until(async () => (await dispatcher.ready()) !== undefined);
    t.match(await dispatcher.ready(), /no deliveries go out|Postgres does not answer/);
    const second = await startEmbeddedPostgres({ dataDir, port });
    wire.restore();
    t.teardown(() => second.stop());
    t.teardown(() => sql.end({ timeout: 1 }));
    t.teardown(() => dispatcher.stop());
    await until(async () => (await dispatcher.ready()) === undefined);

    await attempted(sql, inHand);
    t.match(await deliveryState(sql, inHand), { status: 'delivered', attempts: 1 });
    t.equal((await attemptsOf(sql, inHand)).length, 1);
    t.equal(receiver.requests.length, 1, 'what was answered during the outage is not sent again');

    await until(
      async () =>
        (await sql`select 1 from pg_stat_activity where query ilike 'listen%'`).length === 1,
    );
    const [next = ''] = await queueDeliveries(sql, app, 1);
    createNotifier(sql, DELIVERIES_QUEUED).notify();
    await attempted(sql, next);
  },
);

void t.test(
  'while outcomes cannot be written the dispatcher pauses between its sweeps, and continues afterwards',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const role = sql(new URL(asRole(url, 'dispatch')).username);
    const receiver = await startReceiver(t, (response) => response.end('ok'));
    const app = await seedApp(sql, receiver.url);
    await queueDeliveries(sql, app, 3000);
    await sql`revoke insert on deliveries from ${role}`;
    let turns = 0;
    observeLoops({
      started: () => undefined,
      succeeded: () => (turns += 1),
      failed: () => undefined,
      stopped: () => undefined,
    });
    t.teardown(() => observeLoops(undefined));
    const registry = new Registry();
    await runDispatcher(t, { url }, { registry });
    const waiting = async () => {
      const text = await registry.getSingleMetricAsString('billing_webhook_outcomes_waiting');
      return Number(/^billing_webhook_outcomes_waiting (\d+)$/m.exec(text)?.[1]);
    };
    const inFlight = async () =>
      /^billing_webhook_in_flight 0$/m.test(
        await registry.getSingleMetricAsString('billing_webhook_in_flight'),
      );
    await until(async () => (await waiting()) > 0 && (await inFlight()));
    turns = 0;
    // The sweeps use timers of this process too, so at most some 10 of them run meanwhile on any
    // machine.
    for (let sweeps = 0; sweeps < 10; sweeps += 1) await delay(100);
    t.ok(turns < 50, `${turns} turns, of which 10 are sweeps`);
    await sql`grant insert on deliveries to ${role}`;
    await until(async () => (await sql`select from delivery_queue limit 1`).length === 0);
  },
);
