import { Registry } from 'prom-client';
import t from 'tap';
import { connect } from '../../src/db/postgres/connect.ts';
import { startKeeper } from '../../src/keeper/keeper.ts';
import { silent, startStage } from '../fixtures/billing.ts';
import { startProxy } from '../fixtures/proxy.ts';

void t.test(
  'a keeper without Postgres is not ready and reports why; it continues without a restart once Postgres is back',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const url = new URL(stage.databaseUrl);
    const wire = await startProxy(t, Number(url.port));
    url.port = String(wire.port);
    const sql = connect(url.href, { max: 6, name: 'keeper' });
    const keeper = await startKeeper({
      sql,
      config: stage.config,
      log: silent,
      registry: new Registry(),
    });
    t.teardown(async () => {
      await keeper.stop();
      await sql.end({ timeout: 1 });
    });
    await stage.until('it is ready', async () => (await keeper.ready()) === undefined);
    wire.cut();
    t.match(await keeper.ready(), /Postgres does not answer/);
    const subscription = await stage.subscriber(plan);
    wire.restore();
    await stage.until('it is ready again', async () => (await keeper.ready()) === undefined);
    await stage.until('it collects', async () => (await stage.payments(subscription)).length === 1);
  },
);
