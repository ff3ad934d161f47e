// The end of a terminal (SIGHUP), and a log that cannot be written.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { connect } from '../../src/db/postgres/connect.ts';
import { freePorts } from '../../src/local/sandbox/ports.ts';
import { childrenOf, isRunning } from '../fixtures/children.ts';
import { start } from '../fixtures/command.ts';
import { daemonEnv, startReady } from '../fixtures/daemons.ts';
import { until } from '../fixtures/webhooks.ts';

void t.test(
  'after SIGHUP, serve answers the request in flight and ends with exit code 0',
  async (t) => {
    const env = await daemonEnv(t);
    const serve = await startReady(t, 'serve', env);
    const { address } = JSON.parse(await serve.line(/"address":.*"listening"/)) as {
      address: string;
    };
    const sql = connect(env.DATABASE_URL ?? '', { max: 2, name: 'billing test' });
    t.teardown(() => sql.end());
    const holder = await sql.reserve();
    await holder`begin`;
    await holder`lock table auth_nonces in exclusive mode`;
    const answered = fetch(`${address}/auth/nonce`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ wallet: env.KEEPER_ADDRESS }),
    });
    await until(
      async () =>
        (
          await sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
        ).length > 0,
    );
    serve.child.kill('SIGHUP');
    t.match(JSON.parse(await serve.line('stopping; no new work is taken')), { signal: 'SIGHUP' });
    await holder`commit`;
    holder.release();
    t.ok((await answered).ok);
    t.match(await serve.ended, { code: 0 });
  },
);

void t.test('SIGHUP to keeper and dispatch: exit code 0', async (t) => {
  const env = await daemonEnv(t);
  for (const name of ['keeper', 'dispatch'] as const) {
    const daemon = await startReady(t, name, env);
    daemon.child.kill('SIGHUP');
    t.match(JSON.parse(await daemon.line('stopping; no new work is taken')), { signal: 'SIGHUP' });
    t.match(await daemon.ended, { code: 0 }, name);
  }
});

void t.test('SIGHUP ends localnet with 0, and the sandbox with all its processes', async (t) => {
  const localnet = start(t, ['localnet', '--port', '0', '--json']);
  await localnet.line('ready');
  localnet.child.kill('SIGHUP');
  t.match(await localnet.ended, { code: 0 });

  const sandbox = start(t, ['sandbox', '--no-play', '--json']);
  await sandbox.line('ready');
  const started = await childrenOf(sandbox.child.pid ?? 0);
  t.equal(started.length, 6);
  sandbox.child.kill('SIGHUP');
  // A terminal that closes and its shell send one each.
  while (started.every(isRunning)) await delay(5);
  sandbox.child.kill('SIGHUP');
  t.match(await sandbox.ended, { code: 0 });
  t.same(started.filter(isRunning), []);
});

void t.test('log lines that a full disk refuses are dropped and counted', async (t) => {
  const env = await daemonEnv(t);
  const full = await open('/dev/full', 'w');
  const [port = 0] = await freePorts(1);
  const program = fileURLToPath(new URL('../../bin/billing.js', import.meta.url));
  const child = spawn(process.execPath, [program, 'dispatch'], {
    env: { ...env, METRICS_PORT: String(port) },
    stdio: ['ignore', full.fd, 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const ended = Promise.all([once(child, 'exit') as Promise<[number]>, text(child.stderr!)]);
  const dropped = async () => {
    const response = await fetch(`http://127.0.0.1:${port}/metrics`).catch(() => undefined);
    const found = /^billing_log_lines_dropped_total\{.*\} (\d+)$/m.exec(
      (await response?.text()) ?? '',
    );
    return Number(found?.[1] ?? 0);
  };
  await until(async () => (await dropped()) > 0);
  child.kill('SIGTERM');
  const [[code], stderr] = await ended;
  t.equal(code, 0);
  t.equal(stderr, '');
  await full.close();
});
