// How an endpoint does, as the API shows it.
import t from 'tap';
import {
  addHealth,
  deleteOldHours,
  type HealthSum,
} from '../../src/db/delivering/endpoint-health.ts';
import { findEndpoint } from '../../src/db/delivering/endpoints.ts';
import { connect } from '../../src/db/postgres/connect.ts';
import { asRole, testDatabase } from '../fixtures/postgres.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { attempted, queueDeliveries, runDispatcher, seedApp, until } from '../fixtures/webhooks.ts';

const MINUTE = 60_000;

void t.test(
  'a dispatcher’s requests change the endpoint’s recorded health within seconds',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    let answer = 503;
    const receiver = await startReceiver(t, (response) => response.writeHead(answer).end());
    const app = await seedApp(sql, receiver.url);
    const health = async () => (await findEndpoint(sql, app.endpointId))!;
    t.match(await health(), {
      failingSince: null,
      lastSuccessAt: null,
      lastError: null,
      successRate: null,
    });
    const dispatcher = await runDispatcher(t, database);
    const [first = ''] = await queueDeliveries(sql, app, 1);
    await attempted(sql, first);
    await until(async () => (await health()).failingSince !== null);
    const failing = await health();
    t.match(failing, { lastSuccessAt: null, lastError: 'HTTP 503', successRate: 0 });
    t.same(failing.failingSince, failing.lastErrorAt);
    answer = 200;
    await queueDeliveries(sql, app, 3);
    await until(async () => (await health()).successRate === 0.75);
    t.match(await health(), {
      failingSince: null,
      lastSuccessAt: Date,
      lastError: 'HTTP 503',
      lastErrorAt: failing.lastErrorAt,
    });
    answer = 410;
    const [gone = ''] = await queueDeliveries(sql, app, 1);
    await attempted(sql, gone);
    await dispatcher.stop();
    t.match(await health(), { lastError: 'HTTP 410', failingSince: Date }, 'written at the stop');
  },
);

void t.test('the health sums of several dispatchers, written in any order, add up', async (t) => {
  const { sql, url } = await testDatabase(t);
  const own = connect(asRole(url, 'dispatch'), { max: 2, name: 'billing test' });
  t.teardown(() => own.end());
  const app = await seedApp(sql, 'https://tea.example/');
  const at = (minutes: number) => Date.UTC(2026, 0, 1) + minutes * MINUTE;
  const sum = (values: Partial<HealthSum>): HealthSum => ({
    endpointId: app.endpointId,
    succeeded: 0,
    failed: 0,
    lastSuccessAt: null,
    lastFailureAt: null,
    failingSince: null,
    lastError: null,
    ...values,
  });
  const failed = (from: number, to: number, lastError = 'timeout') =>
    sum({ failed: 1, failingSince: at(from), lastFailureAt: at(to), lastError });
  const succeeded = (minutes: number) => sum({ succeeded: 1, lastSuccessAt: at(minutes) });
  const steps: [HealthSum, number | null, string | null][] = [
    [failed(1, 2), 1, 'timeout'],
    [failed(3, 4, 'HTTP 500'), 1, 'HTTP 500'],
    [failed(3, 3, 'dns'), 1, 'HTTP 500'],
    [succeeded(0), 1, 'HTTP 500'],
    [succeeded(5), null, 'HTTP 500'],
    [failed(4, 4), null, 'timeout'],
    [sum({ ...succeeded(6), ...failed(7, 8), lastSuccessAt: at(6) }), 7, 'timeout'],
    [succeeded(7.5), 8, 'timeout'],
    [succeeded(9), null, 'timeout'],
  ];
  for (const [index, [given, since, lastError]] of steps.entries()) {
    await addHealth(own, [given]);
    const endpoint = await findEndpoint(sql, app.endpointId);
    t.match(endpoint, { lastError }, `step ${index}`);
    t.equal(
      endpoint?.failingSince?.getTime() ?? null,
      since === null ? null : at(since),
      `${index}`,
    );
  }
  const [hours] =
    await sql`select sum(succeeded)::int as good, sum(failed)::int as bad from endpoint_hours`;
  t.match(hours, { good: 4, bad: 5 });
  await sql`update endpoint_hours set hour = now() - interval '25 hours'`;
  t.match(await findEndpoint(sql, app.endpointId), { successRate: null });
  await sql`update endpoint_hours set hour = now() - interval '3 days'`;
  await deleteOldHours(own);
  t.same(await sql`select 1 from endpoint_hours`, []);
});

void t.test(
  'two dispatchers that write the health of the same endpoints do not deadlock',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const own = connect(asRole(url, 'dispatch'), { max: 8, name: 'billing test' });
    t.teardown(() => own.end());
    const apps = await Promise.all(
      Array.from({ length: 20 }, (_, n) => seedApp(sql, `https://tea.example/${n}`)),
    );
    const sums = apps.map(({ endpointId }) => ({
      endpointId,
      succeeded: 1,
      failed: 0,
      lastSuccessAt: Date.now(),
      lastFailureAt: null,
      failingSince: null,
      lastError: null,
    }));
    await Promise.all(
      Array.from({ length: 40 }, (_, n) => addHealth(own, n % 2 === 0 ? sums : sums.toReversed())),
    );
    t.match(await sql`select sum(succeeded)::int as count from endpoint_hours`, [{ count: 800 }]);
  },
);
