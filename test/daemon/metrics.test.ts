import { Gauge } from 'prom-client';
import t from 'tap';
import { createRegistry, serveMetrics } from '../../src/daemon/metrics.ts';

const get = async (url: string) => {
  const response = await fetch(url);
  return { status: response.status, body: await response.text() };
};

void t.test(
  'the metrics port serves metrics, liveness, and readiness with the reason for a 503',
  async (t) => {
    const registry = createRegistry('keeper');
    new Gauge({ name: 'billing_test', help: 'a figure', registers: [registry] }).set(3);
    let reason: string | undefined = 'Postgres is away';
    const server = await serveMetrics(registry, () => reason, { host: '127.0.0.1', port: 0 });
    t.teardown(() => server.close());
    t.match(await get(`${server.url}/metrics`), {
      status: 200,
      body: /billing_test\{daemon="keeper"\} 3/,
    });
    t.match((await get(`${server.url}/metrics`)).body, /nodejs_eventloop_lag/);
    t.same(await get(`${server.url}/healthz`), { status: 200, body: 'ok\n' });
    t.same(await get(`${server.url}/readyz`), { status: 503, body: 'Postgres is away\n' });
    reason = undefined;
    t.same(await get(`${server.url}/readyz`), { status: 200, body: 'ready\n' });
    t.equal((await get(`${server.url}/other`)).status, 404);
  },
);

void t.test('if the configured metrics port is in use, the next free port is used', async (t) => {
  const first = await serveMetrics(createRegistry('a'), () => undefined, {
    host: '127.0.0.1',
    port: 0,
  });
  t.teardown(() => first.close());
  const port = Number(new URL(first.url).port);
  const second = await serveMetrics(createRegistry('b'), () => undefined, {
    host: '127.0.0.1',
    port,
  });
  t.teardown(() => second.close());
  t.ok(Number(new URL(second.url).port) > port);
});

void t.test(
  'if the readiness check throws, /readyz responds with an error and the daemon keeps running',
  async (t) => {
    const server = await serveMetrics(
      createRegistry('a'),
      () => Promise.reject(new Error('no connection')),
      { host: '127.0.0.1', port: 0 },
    );
    t.teardown(() => server.close());
    t.same(await get(`${server.url}/readyz`), { status: 503, body: 'no connection\n' });
  },
);
