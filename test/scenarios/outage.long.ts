// The three daemons and `billing status` while Postgres is unreachable or read-only.
import t, { type Test } from 'tap';
import { connect } from '../../src/db/postgres/connect.ts';
import { start } from '../fixtures/command.ts';
import { daemonEnv, daemons, startReady } from '../fixtures/daemons.ts';
import { startProxy } from '../fixtures/proxy.ts';
import { readSamples } from '../fixtures/samples.ts';
import { until } from '../fixtures/webhooks.ts';

const reasonOf = async (metricsUrl: string) => {
  const answer = await fetch(`${metricsUrl}/readyz`);
  return answer.ok ? undefined : (await answer.text()).trim();
};

/** Turns of a daemon's loops that failed because of Postgres. */
async function failuresOf(metricsUrl: string): Promise<number> {
  const text = await (await fetch(`${metricsUrl}/metrics`)).text();
  return readSamples(text)
    .filter(
      ({ metric, labels }) =>
        metric === 'billing_loop_failures_total' && labels.cause === 'database',
    )
    .reduce((sum, { value }) => sum + value, 0);
}

async function running(t: Test, env: Record<string, string>) {
  return Promise.all(daemons.map((daemon) => startReady(t, daemon, env)));
}

void t.test(
  'an outage of Postgres is logged once when it begins and once when it ends',
  async (t) => {
    const env = await daemonEnv(t);
    const url = new URL(env.DATABASE_URL ?? '');
    const wire = await startProxy(t, Number(url.port));
    url.port = String(wire.port);
    const all = await running(t, { ...env, DATABASE_URL: url.href });
    wire.cut();
    await Promise.all(all.map((daemon) => daemon.line('Postgres is unavailable')));
    for (const { metricsUrl } of all)
      await until(async () => /Postgres/.test((await reasonOf(metricsUrl)) ?? ''));
    for (const { metricsUrl } of all) await until(async () => (await failuresOf(metricsUrl)) >= 10);
    wire.restore();
    await Promise.all(all.map((daemon) => daemon.line('Postgres is available again')));
    for (const { metricsUrl } of all)
      await until(async () => (await reasonOf(metricsUrl)) === undefined);
    for (const { child } of all) child.kill('SIGTERM');
    for (const { ended } of all) {
      const { stdout, code } = await ended;
      t.equal(code, 0);
      const lines = stdout
        .split('\n')
        .filter((line) => line.startsWith('{'))
        .map((line) => JSON.parse(line) as { level: number; msg: string });
      t.match(
        lines.filter(({ level, msg }) => level >= 40 || msg.startsWith('Postgres')),
        [
          { level: 50, msg: 'Postgres is unavailable', reason: /^(?!.*undefined)/ },
          { level: 30, msg: 'Postgres is available again', seconds: Number },
        ],
      );
      t.equal(lines.filter(({ level }) => level >= 40).length, 1, stdout);
    }
  },
);

void t.test('readiness and status report a read-only Postgres', async (t) => {
  const env = await daemonEnv(t);
  const all = await running(t, env);
  const url = new URL(env.DATABASE_URL ?? '');
  const name = url.pathname.slice(1);
  url.pathname = '/postgres';
  const admin = connect(url.href, { max: 1, name: 'test' });
  t.teardown(() => admin.end());
  const setReadOnly = async (value: 'on' | 'off') => {
    await admin.unsafe(`alter database ${name} set default_transaction_read_only = ${value}`);
    await admin`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}`;
  };
  await setReadOnly('on');
  for (const { metricsUrl } of all)
    await until(async () => /read-only/.test((await reasonOf(metricsUrl)) ?? ''));
  const { code, stdout } = await start(t, ['status', '--json'], env).ended;
  t.equal(code, 1);
  t.match(JSON.parse(stdout), { ok: false, problems: [/Postgres is read-only/] });
  await setReadOnly('off');
  for (const { metricsUrl } of all)
    await until(async () => (await reasonOf(metricsUrl)) === undefined);
});
