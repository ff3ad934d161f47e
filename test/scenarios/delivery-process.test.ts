// The dispatcher as a process: signals, kills, a frozen worker, a wrong clock, and a certificate of
// a private authority.
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Webhook } from 'standardwebhooks';
import t, { type Test } from 'tap';
import { start, type Running } from '../fixtures/command.ts';
import { startNameServer } from '../fixtures/name-server.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import {
  attempted,
  attemptsOf,
  deliveryState,
  encryptionKey,
  claimedUntil,
  queueDeliveries,
  seedApp,
  until,
} from '../fixtures/webhooks.ts';

t.jobs = 6;
const besides = { buffered: true };
const minute = 60_000;

async function dispatch(
  t: Test,
  databaseUrl: string,
  env: Record<string, string> = {},
): Promise<Running> {
  const running = start(t, ['dispatch'], {
    DATABASE_URL: databaseUrl,
    ENCRYPTION_KEY: encryptionKey,
    METRICS_PORT: '0',
    ...env,
  });
  await running.line('dispatch is running');
  return running;
}

void t.test(
  'SIGTERM lets the request in flight finish and counts no attempt of unsent deliveries',
  besides,
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const held: ServerResponse[] = [];
    const receiver = await startReceiver(t, (response) => {
      if (held.push(response) === 1) running.child.kill('SIGTERM');
    });
    const app = await seedApp(sql, receiver.url);
    const running = await dispatch(t, url);
    const ids = await queueDeliveries(sql, app, 20);
    await running.line('stopping');
    await delay(200);
    // Also answers the requests that were still on their way.
    receiver.answer = (response) => response.end('late');
    for (const response of held) response.end('late');
    t.equal((await running.ended).code, 0);
    const states = await Promise.all(ids.map((id) => deliveryState(sql, id)));
    const sent = states.filter(({ status }) => status === 'delivered');
    t.equal(sent.length, receiver.requests.length);
    t.ok(sent.every(({ attempts }) => attempts === 1));
    const waiting = states.filter(({ status }) => status === 'pending');
    t.equal(waiting.length, 20 - sent.length);
    t.ok(waiting.every(({ attempts }) => attempts === 0));
    t.equal(await claimedUntil(sql, app), undefined, 'another may go on at once');
  },
);

void t.test(
  'the claimed deliveries of a killed dispatcher are sent again once the claim expires',
  besides,
  async (t) => {
    const { sql, url } = await testDatabase(t);
    // Killed before the deadline of its request.
    const receiver = await startReceiver(t, () => first.child.kill('SIGKILL'));
    const app = await seedApp(sql, receiver.url);
    const first = await dispatch(t, url, { WEBHOOK_LEASE_SECONDS: '6' });
    const [id = ''] = await queueDeliveries(sql, app, 1);
    await first.ended;
    t.match(await deliveryState(sql, id), { status: 'pending', attempts: 0 });
    const [claim] = await sql<{ until: Date }[]>`select claimed_until as until from delivery_queue`;
    receiver.answer = (response) => response.end('ok');
    await dispatch(t, url, { WEBHOOK_LEASE_SECONDS: '6' });
    await attempted(sql, id);
    t.match(await deliveryState(sql, id), { status: 'delivered', attempts: 1 });
    t.equal(receiver.requests.length, 2);
    t.equal(
      receiver.requests[0]?.headers['webhook-id'],
      receiver.requests[1]?.headers['webhook-id'],
    );
    const [attempt] = await attemptsOf(sql, id);
    t.ok((attempt?.startedAt ?? 0) >= (claim?.until ?? Infinity), 'not before');
  },
);

void t.test(
  'a dispatcher frozen past the end of its claim writes no outcome when it resumes',
  besides,
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const held: ServerResponse[] = [];
    const receiver = await startReceiver(t, (response) => {
      frozen.child.kill('SIGSTOP');
      held.push(response);
      receiver.answer = (later) => later.writeHead(500).end();
    });
    const app = await seedApp(sql, receiver.url);
    const frozen = await dispatch(t, url, { WEBHOOK_LEASE_SECONDS: '6' });
    const [id = ''] = await queueDeliveries(sql, app, 1);
    await receiver.got(1);
    const other = await dispatch(t, url, { WEBHOOK_LEASE_SECONDS: '6' });
    await attempted(sql, id);
    // Killed before the retry is due.
    other.child.kill('SIGKILL');
    const before = await deliveryState(sql, id);
    t.match(before, { status: 'pending', attempts: 1 });
    // When the process resumes, it gets a 200, or its deadline has passed. It must record neither.
    for (const response of held) response.end('ok');
    frozen.child.kill('SIGCONT');
    frozen.child.kill('SIGTERM');
    t.equal((await frozen.ended).code, 0);
    t.same(await deliveryState(sql, id), before);
    t.equal((await attemptsOf(sql, id)).length, 1);
  },
);

void t.test(
  'a dispatcher whose clock is ten minutes off signs and schedules by the database clock',
  besides,
  async (t) => {
    for (const minutes of [-10, 10]) {
      const { sql, url } = await testDatabase(t);
      const receiver = await startReceiver(t, (response) => response.writeHead(500).end());
      const app = await seedApp(sql, receiver.url);
      const [id = ''] = await queueDeliveries(sql, app, 1);
      const { dueAt: queuedAt } = await deliveryState(sql, id);
      const shifted = `
      const Real = Date; const off = ${minutes * minute};
      globalThis.Date = class extends Real {
        constructor(...given) { if (given.length === 0) super(Real.now() + off); else super(...given); }
        static now() { return Real.now() + off; }
      };`;
      const { child } = await dispatch(t, url, {
        NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(shifted)}`,
      });
      await attempted(sql, id);
      const [request] = receiver.requests;
      const [attempt] = await attemptsOf(sql, id);
      // By the clock that everything but the worker uses: after the delivery was queued and before
      // the request arrived.
      const during = (time: Date) =>
        time >= new Date(queuedAt.getTime() - minute) &&
        time <= new Date((request?.at ?? 0) + minute);
      t.ok(during(new Date(Number(request?.headers['x-service-timestamp']) * 1000)));
      if (request !== undefined) {
        t.doesNotThrow(() =>
          new Webhook(app.secret).verify(request.body, request.headers as Record<string, string>, {
            jsonParse: false,
          }),
        );
      }
      const { dueAt } = await deliveryState(sql, id);
      t.equal(
        dueAt.getTime() - (attempt?.startedAt.getTime() ?? 0) - (attempt?.durationMs ?? 0),
        minute,
      );
      t.ok(
        during(attempt?.startedAt ?? new Date(0)),
        'the attempt is logged by the database clock',
      );
      child.kill('SIGKILL');
    }
  },
);

void t.test(
  'with the address guard on, an HTTPS endpoint with a trusted certificate gets its webhook under its host name',
  besides,
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const fixture = (name: string) => new URL(`../fixtures/tls/${name}`, import.meta.url);
    const hosts: (string | undefined)[] = [];
    const server = createServer(
      { key: await readFile(fixture('leaf.key')), cert: await readFile(fixture('leaf.pem')) },
      (request, response) => {
        hosts.push(request.headers.host);
        request.resume();
        response.end('ok');
      },
    ).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const app = await seedApp(sql, `https://secure.example:${port}/hook`);
    const [id = ''] = await queueDeliveries(sql, app, 1);
    const wrong = await seedApp(sql, `https://other.example:${port}/hook`);
    const [refused = ''] = await queueDeliveries(sql, wrong, 1);
    await dispatch(t, url, {
      BILLING_ENV: 'production',
      WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
      WEBHOOK_DNS_SERVERS: await startNameServer(t, () => ['127.0.0.1']),
      NODE_EXTRA_CA_CERTS: fileURLToPath(fixture('ca.pem')),
    });
    await attempted(sql, id);
    await attempted(sql, refused);
    t.match(await deliveryState(sql, id), { status: 'delivered' });
    t.match(
      await attemptsOf(sql, refused),
      [{ httpStatus: null, error: 'wrong_host' }],
      "a certificate of another name is nobody's",
    );
    t.same(hosts, [`secure.example:${port}`]);
  },
);

void t.test(
  'production refuses a private address, and the attempt log has the reason',
  besides,
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const receiver = await startReceiver(t);
    const targets = [
      receiver.url,
      `http://2130706433:${receiver.port}/`,
      `http://inside.example:${receiver.port}/`,
    ];
    const ids: string[] = [];
    for (const target of targets)
      ids.push(...(await queueDeliveries(sql, await seedApp(sql, target), 1)));
    await dispatch(t, url, {
      BILLING_ENV: 'production',
      WEBHOOK_DNS_SERVERS: await startNameServer(t, () => ['127.0.0.1', '8.8.8.8']),
    });
    for (const id of ids) {
      await attempted(sql, id);
      t.match(await attemptsOf(sql, id), [{ number: 1, httpStatus: null, error: 'blocked' }]);
      t.match(await deliveryState(sql, id), { status: 'pending', attempts: 1 });
    }
    t.equal(receiver.connections, 0);
  },
);

void t.test(
  'a lease that is not longer than the request deadline is refused at the start',
  besides,
  async (t) => {
    const { url } = await testDatabase(t);
    const running = start(t, ['dispatch'], {
      DATABASE_URL: url,
      ENCRYPTION_KEY: encryptionKey,
      METRICS_PORT: '0',
      WEBHOOK_LEASE_SECONDS: '5',
    });
    const { code, stderr } = await running.ended;
    t.equal(code, 2);
    t.match(stderr, /WEBHOOK_LEASE_SECONDS is 5, and must be longer than the 5 s/);
  },
);

void t.test('two dispatchers on one queue send each delivery once', besides, async (t) => {
  const { sql, url } = await testDatabase(t);
  const receiver = await startReceiver(t);
  const apps = await Promise.all(Array.from({ length: 5 }, () => seedApp(sql, receiver.url)));
  for (const app of apps) await queueDeliveries(sql, app, 200);
  await Promise.all([dispatch(t, url), dispatch(t, url)]);
  await until(
    async () =>
      (await sql`select 1 from all_deliveries where status <> 'delivered' limit 1`).length === 0,
  );
  t.equal(receiver.requests.length, 1000);
  t.equal(new Set(receiver.requests.map(({ headers }) => headers['webhook-id'])).size, 1000);
  const [attempts] = await sql<
    { count: bigint }[]
  >`select count(*) as count from delivery_attempts`;
  t.equal(attempts?.count, 1000n);
});

void t.test(
  'a dispatcher that starts beside a busy dispatcher takes a share of the work at once',
  besides,
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const receiver = await startReceiver(t, (response) =>
      setTimeout(() => response.end('ok'), 100),
    );
    const apps = await Promise.all(Array.from({ length: 8 }, () => seedApp(sql, receiver.url)));
    let queued = 0;
    const queue = async (count: number) => {
      for (const app of apps) queued += (await queueDeliveries(sql, app, count)).length;
    };
    await queue(300);
    // Eight endpoints of two places each compete for eight places.
    const env = { WEBHOOK_CONCURRENCY: '8', WEBHOOK_ENDPOINT_CONCURRENCY: '2' };
    await dispatch(t, url, env);
    await receiver.got(1);
    let metrics = '';
    void dispatch(t, url, env).then(async (second) => {
      ({ metrics } = JSON.parse(await second.line('dispatch is running')) as { metrics: string });
    });
    const delivers = async () =>
      metrics !== '' &&
      /billing_webhook_attempts_total\{.*outcome="delivered".*\} [1-9]/.test(
        await (await fetch(`${metrics}/metrics`)).text(),
      );
    // The first always has enough work, however long the second takes to start.
    await until(async () => {
      if (await delivers()) return true;
      if (queued - receiver.requests.length < 1200) await queue(50);
      return false;
    });
    const waiting = await sql`select 1 from delivery_queue limit 1`;
    t.equal(waiting.length, 1, 'while there was still enough to do for the first');
    receiver.answer = (response) => response.end('ok');
    await until(async () => (await sql`select 1 from delivery_queue limit 1`).length === 0);
    t.equal(receiver.requests.length, queued);
    t.equal(
      new Set(receiver.requests.map(({ headers }) => headers['webhook-id'])).size,
      queued,
      'each is sent once',
    );
  },
);
