// Connections to Postgres that stay open without data, as behind a proxy that drops packets:
// readiness fails, requests get 503, and everything recovers by itself.
import t from 'tap';
import { daemonEnv, daemons, startReady } from '../fixtures/daemons.ts';
import { startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/webhooks.ts';

void t.test('serve, keeper and dispatch survive a silent Postgres', async (t) => {
  const env = await daemonEnv(t);
  const url = new URL(env.DATABASE_URL ?? '');
  const wire = await startProxy(t, Number(url.port));
  url.port = String(wire.port);
  const running = await Promise.all(
    daemons.map((daemon) => startReady(t, daemon, { ...env, DATABASE_URL: url.href })),
  );
  const [serve] = running;
  if (serve === undefined) throw new Error('serve was not started');
  const { address } = JSON.parse(await serve.line(/"address":.*"listening"/)) as {
    address: string;
  };
  const isReady = async (base: string) => (await fetch(`${base}/readyz`)).ok;
  const nonce = () =>
    fetch(`${address}/auth/nonce`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ wallet: env.KEEPER_ADDRESS }),
    });
  t.equal((await nonce()).status, 200);

  wire.hold();
  const answers = await Promise.all([nonce(), nonce(), nonce()]);
  for (const answer of answers) {
    t.equal(answer.status, 503);
    t.equal(answer.headers.get('retry-after'), '5');
    t.match(await answer.json(), { error: { code: 'INTERNAL_ERROR', message: /database/ } });
  }
  for (const { metricsUrl } of running) t.equal(await isReady(metricsUrl), false);
  t.equal(await isReady(address), false);

  wire.release();
  for (const { metricsUrl } of running) await until(() => isReady(metricsUrl));
  t.equal((await nonce()).status, 200);
});
