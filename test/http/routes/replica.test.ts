// Analytics and exports from a standby, with the age of its data.
import t from 'tap';
import { connect } from '../../../src/db/postgres/connect.ts';
import { migrate } from '../../../src/db/postgres/migrate.ts';
import { openReports } from '../../../src/db/postgres/reports.ts';
import { testApi } from '../../fixtures/http.ts';
import { asRole, makeTestRoles } from '../../fixtures/postgres.ts';
import { startReplicated } from '../../fixtures/replicated-postgres.ts';
import { insertPlan, insertSubscription } from '../../fixtures/rows.ts';
import { until } from '../../fixtures/webhooks.ts';

void t.test('reports are read from the standby, and state their age', async (t) => {
  const { primary, standby, password } = await startReplicated(t);
  await primary.sql`create database billing`;
  await makeTestRoles(primary.sql);
  const at = (port: number) => `postgres://postgres:${password}@127.0.0.1:${port}/billing`;
  const sql = connect(at(primary.port), { max: 2, name: 'billing test' });
  t.teardown(() => sql.end({ timeout: 1 }));
  await migrate(sql);
  const api = await testApi(t, { database: { sql, url: at(primary.port) } });
  const replayed = async () => {
    const [{ lsn }] = await sql<[{ lsn: string }]>`select pg_current_wal_lsn()::text as lsn`;
    await until(
      async () =>
        (await standby.sql`select where pg_last_wal_replay_lsn() >= ${lsn}::pg_lsn`).length > 0,
    );
  };
  await replayed();
  api.deps.reports = openReports(asRole(at(primary.port), 'serve'), {
    name: 'billing test',
    replicaUrl: asRole(at(standby.port), 'serve'),
  });
  t.teardown(() => api.deps.reports.end());
  const merchant = await api.merchant();
  await sql`update merchants set tier = 'pro'`;
  const read = async () => {
    const { status, headers, body } = await api.call<{ new: number }>(
      'GET',
      `/merchant/apps/${merchant.appId}/analytics`,
      { token: merchant.token },
    );
    t.equal(status, 200);
    return { age: Number(headers['x-data-age']), count: body.data.new };
  };
  const subscribe = async () => {
    const { appId } = merchant;
    await insertSubscription(sql, { appId, planId: await insertPlan(sql, merchant) });
  };
  await subscribe();
  await replayed();
  await until(async () => (await read()).age === 0);
  t.match(await read(), { count: 1 });

  await standby.sql`select pg_wal_replay_pause()`;
  await subscribe();
  await until(async () => (await read()).age >= 2);
  t.match(await read(), { count: 1 }, 'the second one is not replayed yet');
  const csv = await api.call('GET', `/merchant/apps/${merchant.appId}/transactions/export`, {
    token: merchant.token,
  });
  t.ok(Number(csv.headers['x-data-age']) >= 2);
  await standby.sql`select pg_wal_replay_resume()`;
  await until(async () => (await read()).count === 2);
});
