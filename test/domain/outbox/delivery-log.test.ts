import t, { type Test } from 'tap';
import {
  walkDeliveries,
  type LogFilters,
  type LoggedDelivery,
  type Walk,
} from '../../../src/db/delivering/deliveries.ts';
import type { Sql } from '../../../src/db/postgres/connect.ts';
import { timeOfId } from '../../../src/db/postgres/ids.ts';
import { readLog, type LogQuery } from '../../../src/domain/outbox/delivery-log.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import {
  queueDeliveries,
  seedApp,
  type SeededApp,
  finishDeliveries,
  changeType,
} from '../../fixtures/webhooks.ts';

const any: LogQuery = {
  status: null,
  appId: null,
  endpointId: null,
  type: null,
  since: null,
  until: null,
};

async function all(
  sql: Sql,
  query: Partial<LogQuery>,
  limit = 1000,
  before?: string,
): Promise<LoggedDelivery[]> {
  const rows: LoggedDelivery[] = [];
  const walk = (filters: LogFilters, how: Walk) => walkDeliveries(sql, filters, how);
  for await (const step of readLog(walk, { ...any, ...query }, { limit, before }))
    rows.push(...step.rows);
  return rows;
}

const idsOf = (rows: LoggedDelivery[]) => rows.map(({ id }) => id);

/**
 * Two apps with 30 alternating deliveries each. Every fifth of an app has failed, every third of
 * the rest is delivered.
 */
async function mixed(t: Test): Promise<{ sql: Sql; apps: [SeededApp, SeededApp] }> {
  const { sql } = await testDatabase(t);
  const apps: [SeededApp, SeededApp] = [
    await seedApp(sql, 'http://127.0.0.1:9/a'),
    await seedApp(sql, 'http://127.0.0.1:9/b'),
  ];
  for (let round = 0; round < 30; round += 1) {
    for (const app of apps) {
      const [id = ''] = await queueDeliveries(sql, app, 1);
      const status = round % 5 === 0 ? 'failed' : round % 3 === 0 ? 'delivered' : 'pending';
      if (status !== 'pending') await finishDeliveries(sql, status, { ids: [id] });
    }
  }
  const failed = await sql<{ id: string }[]>`select id from deliveries where status = 'failed'`;
  await changeType(
    sql,
    failed.map(({ id }) => id),
    'payment_failed',
  );
  return { sql, apps };
}

void t.test(
  'every combination of filters returns the rows of a plain query, newest first, at any page size',
  async (t) => {
    const { sql, apps } = await mixed(t);
    const everything = await sql<
      { id: string; status: string; type: string; endpointId: string; appId: string }[]
    >`
    select d.id, d.status, e.type, d.endpoint_id, e.app_id from all_deliveries d join events e on e.id = d.event_id order by d.id desc`;
    const middle = timeOfId(everything[29]!.id);
    let compared = 0;
    for (const status of [null, 'pending', 'delivered', 'failed', 'cancelled'] as const)
      for (const type of [null, 'payment_success', 'payment_failed'])
        for (const scope of [
          {},
          { appId: apps[0].appId },
          { endpointId: apps[1].endpointId },
          { appId: apps[0].appId, endpointId: apps[1].endpointId },
        ])
          for (const time of [{}, { since: middle }, { until: middle }]) {
            const query: LogQuery = { ...any, status, type, ...scope, ...time };
            const expected = everything
              .filter((row) => status === null || row.status === status)
              .filter((row) => type === null || row.type === type)
              .filter((row) => query.appId === null || row.appId === query.appId)
              .filter((row) => query.endpointId === null || row.endpointId === query.endpointId)
              .filter((row) => query.since === null || timeOfId(row.id) >= query.since)
              .filter((row) => query.until === null || timeOfId(row.id) < query.until)
              .map((row) => row.id);
            const found = idsOf(await all(sql, query));
            const first = idsOf(await all(sql, query, 4));
            const rest = first.length < 4 ? [] : idsOf(await all(sql, query, 1000, first[3]));
            if (JSON.stringify(found) !== JSON.stringify(expected))
              t.same(found, expected, JSON.stringify(query));
            if (JSON.stringify([...first, ...rest]) !== JSON.stringify(expected))
              t.same([...first, ...rest], expected, `paged ${JSON.stringify(query)}`);
            compared += 1;
          }
    t.equal(compared, 180);
  },
);

void t.test(
  'a row of the delivery log shows app, endpoint and the outcome of the last attempt',
  async (t) => {
    const { sql } = await testDatabase(t);
    const app = await seedApp(sql, 'http://127.0.0.1:9/hook');
    const [id = ''] = await queueDeliveries(sql, app, 1);
    await sql`insert into earlier_attempts (delivery_id, number, started_at, duration_ms, http_status) values (${id}, 1, now(), 5, 500)`;
    await sql`insert into earlier_attempts (delivery_id, number, started_at, duration_ms, error) values (${id}, 2, now(), 5000, 'timeout')`;
    await sql`update delivery_queue set attempts = 2 where id = ${id}`;
    t.match(await all(sql, {}), [
      {
        id,
        appId: app.appId,
        appName: 'an app',
        webhookId: app.endpointId,
        url: 'http://127.0.0.1:9/hook',
        lastStatus: null,
        lastError: 'timeout',
      },
    ]);
  },
);

void t.test(
  'a filter with few matches is searched in several bounded steps that report progress',
  async (t) => {
    const { sql } = await testDatabase(t);
    const app = await seedApp(sql, 'http://127.0.0.1:9/');
    const ids = await queueDeliveries(sql, app, 25_000);
    await finishDeliveries(sql, 'delivered');
    await changeType(sql, [ids[10]!], 'cancel_forced');
    const steps = [];
    const walk = (filters: LogFilters, how: Walk) => walkDeliveries(sql, filters, how);
    for await (const step of readLog(walk, { ...any, type: 'cancel_forced' }, { limit: 10 }))
      steps.push(step);
    t.same(
      steps.map(({ rows }) => rows.length),
      [0, 0, 1],
    );
    t.same(
      steps.map(({ lookedBackTo }) => lookedBackTo),
      [timeOfId(ids[15_000]!), timeOfId(ids[5_000]!), null],
    );
    t.same(idsOf(steps[2]!.rows), [ids[10]]);
  },
);

void t.test(
  'pending deliveries beyond the first step of a search are found by later steps',
  async (t) => {
    const { sql } = await testDatabase(t);
    const app = await seedApp(sql, 'http://127.0.0.1:9/');
    const ids = await queueDeliveries(sql, app, 10_050);
    t.same(idsOf(await all(sql, { status: 'pending' }, 20)), ids.slice(-20).reverse());
    await finishDeliveries(sql, 'delivered', { ids: ids.slice(31) });
    t.same(idsOf(await all(sql, { status: 'pending' }, 20)), ids.slice(11, 31).reverse());
  },
);
