// `billing migrate` waits for a Postgres that starts beside it.
import t from 'tap';
import { run, start } from '../../fixtures/command.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { startProxy } from '../../fixtures/proxy.ts';
import { until } from '../../fixtures/webhooks.ts';

void t.test('migrate waits until Postgres accepts connections, and then migrates', async (t) => {
  const { url } = await testDatabase(t, { empty: true });
  const wire = await startProxy(t, Number(new URL(url).port));
  const behind = new URL(url);
  behind.port = String(wire.port);
  wire.cut();
  const migrating = start(t, ['migrate', '--wait', '600'], { DATABASE_URL: behind.href });
  await until(() => Promise.resolve(wire.connections >= 3));
  wire.restore();
  t.equal((await migrating.ended).code, 0);
});

void t.test('migrate fails at once on a mistake in DATABASE_URL', async (t) => {
  const { url } = await testDatabase(t, { empty: true });
  const wrong = new URL(url);
  wrong.pathname = '/no_such_database';
  t.match(await run(t, ['migrate', '--wait', '600'], { DATABASE_URL: wrong.href }), {
    code: 1,
    stderr: /cannot be used: .*no_such_database/,
  });
});
