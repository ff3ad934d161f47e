// Webhooks through an egress proxy: a real one, which records what it was asked for.
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { WebhookClient } from '../../src/webhooks/http.ts';
import { createSsrfGuard, type SsrfGuardOptions } from '../../src/webhooks/ssrf-guard.ts';
import { startNameServer } from '../fixtures/name-server.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { attempted, queueDeliveries, runDispatcher, seedApp } from '../fixtures/webhooks.ts';

/** Addresses for documentation, which the guard would refuse. */
const TEST_NETS = ['203.0.113.0/24', '198.51.100.0/24'];

interface Proxy {
  url: string;
  /** What CONNECT asked for, and the credentials. */
  asked: { target: string; credentials: string | undefined }[];
}

/**
 * A proxy that connects each target to `port` of loopback, whatever its address: so that a public
 * address can be judged and its requests still arrive.
 */
async function startEgressProxy(
  t: Test,
  port: number,
  answer: (target: string) => 'connect' | 'refuse' | 'silent' = () => 'connect',
): Promise<Proxy> {
  const asked: Proxy['asked'] = [];
  const sockets = new Set<Socket>();
  const server = createHttpServer();
  server.on('connection', (socket) => sockets.add(socket));
  server.on('connect', (request, socket: Socket, head) => {
    const target = request.url ?? '';
    asked.push({ target, credentials: request.headers['proxy-authorization'] });
    socket.on('error', () => undefined);
    const how = answer(target);
    if (how === 'silent') return;
    if (how === 'refuse') {
      socket.end('HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n');
      return;
    }
    const onward = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      onward.write(head);
      onward.pipe(socket).pipe(onward);
    });
    sockets.add(onward);
    onward.on('error', () => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

function sender(t: Test, proxy: string, options: Partial<SsrfGuardOptions> = {}): WebhookClient {
  const guard = createSsrfGuard({
    enabled: true,
    allow: TEST_NETS,
    deny: [],
    nameServers: [],
    ...options,
  });
  const client = new WebhookClient(guard, { proxy });
  t.teardown(() => client.close());
  return client;
}

const send = (client: WebhookClient, url: string) => {
  const { origin, pathname } = new URL(url);
  return client.post({ origin, path: pathname, headers: ['x-test', '1'], body: '{"a":1}' });
};

void t.test(
  'requests go through a CONNECT tunnel of the proxy, and the tunnel is reused',
  async (t) => {
    const receiver = await startReceiver(t);
    const proxy = await startEgressProxy(t, receiver.port);
    const authorized = proxy.url.replace('//', '//ada:p%40ss@');
    const client = sender(t, authorized);
    for (let n = 0; n < 3; n += 1) {
      const answer = await send(client, 'http://203.0.113.7:8080/hook');
      t.match(answer, { httpStatus: 200, error: null, address: '203.0.113.7' });
    }
    t.equal(receiver.requests.length, 3);
    t.match(receiver.requests[0], { path: '/hook', headers: { host: '203.0.113.7:8080' } });
    t.equal(receiver.requests[0]!.body.toString(), '{"a":1}');
    const credentials = `Basic ${Buffer.from('ada:p@ss').toString('base64')}`;
    t.same(proxy.asked, [{ target: '203.0.113.7:8080', credentials }], 'one tunnel');
  },
);

void t.test('the guard checks a host first, and the proxy gets the checked address', async (t) => {
  const receiver = await startReceiver(t);
  const proxy = await startEgressProxy(t, receiver.port);
  const zone: Record<string, string[]> = {
    'public.test': ['198.51.100.9'],
    'private.test': ['10.0.0.7'],
    'mixed.test': ['198.51.100.9', '127.0.0.1'],
  };
  const names = await startNameServer(t, (name) => zone[name]);
  const client = sender(t, proxy.url, { nameServers: [names] });
  t.match(await send(client, 'http://public.test/'), {
    httpStatus: 200,
    address: '198.51.100.9',
  });
  t.equal(receiver.requests[0]!.headers.host, 'public.test');
  for (const url of [
    'http://private.test/',
    'http://mixed.test/',
    'http://127.0.0.1/',
    'http://[::1]/',
  ])
    t.match(await send(client, url), { httpStatus: null, error: 'blocked', address: null }, url);
  t.match(await send(client, 'http://unknown.test/'), { error: 'dns' });
  t.same(
    proxy.asked.map(({ target }) => target),
    ['198.51.100.9:80'],
    'it never heard of the others',
  );
});

void t.test(
  'TLS through the proxy is with the receiver, whose certificate is checked for its host name',
  async (t) => {
    const read = (name: string) => readFile(new URL(`../fixtures/tls/${name}`, import.meta.url));
    const tls = { key: await read('leaf.key'), cert: await read('leaf.pem') };
    const receiver = await startReceiver(t, undefined, { tls });
    const proxy = await startEgressProxy(t, receiver.port);
    const answer = await send(sender(t, proxy.url), 'https://203.0.113.7/hook');
    t.equal(answer.httpStatus, null);
    t.match(answer.error, /^(self_signed|wrong_host|chain_incomplete|expired)$/);
    t.equal(receiver.requests.length, 0);
    t.match(proxy.asked, [{ target: '203.0.113.7:443' }]);
  },
);

void t.test(
  'a proxy that refuses, is gone or hangs gives the error proxy or timeout',
  async (t) => {
    const receiver = await startReceiver(t);
    const refusing = await startEgressProxy(t, receiver.port, () => 'refuse');
    t.match(await send(sender(t, refusing.url), 'http://203.0.113.7/'), {
      httpStatus: null,
      error: 'proxy',
      address: null,
    });
    t.match(await send(sender(t, 'http://127.0.0.1:1'), 'http://203.0.113.7/'), { error: 'proxy' });
    const silent = await startEgressProxy(t, receiver.port, () => 'silent');
    const answer = await send(sender(t, silent.url), 'http://203.0.113.7/');
    t.match(answer.error, /^(proxy|timeout)$/);
    t.equal(receiver.requests.length, 0);
  },
);

void t.test(
  'after an address that the proxy cannot reach, the next address is tried',
  async (t) => {
    const receiver = await startReceiver(t);
    const proxy = await startEgressProxy(t, receiver.port, (target) =>
      target.startsWith('198.51.100.1:') ? 'refuse' : 'connect',
    );
    const names = await startNameServer(t, () => ['198.51.100.1', '198.51.100.2']);
    const client = sender(t, proxy.url, { nameServers: [names] });
    t.match(await send(client, 'http://two.test/'), { httpStatus: 200, address: '198.51.100.2' });
  },
);

void t.test('after an address at which the proxy hangs, the next address is tried', async (t) => {
  const receiver = await startReceiver(t);
  const proxy = await startEgressProxy(t, receiver.port, (target) =>
    target.startsWith('198.51.100.1:') ? 'silent' : 'connect',
  );
  const names = await startNameServer(t, () => ['198.51.100.1', '198.51.100.2']);
  const client = sender(t, proxy.url, { nameServers: [names] });
  t.match(await send(client, 'http://two.test/'), { httpStatus: 200, address: '198.51.100.2' });
  t.same(
    proxy.asked.map(({ target }) => target),
    ['198.51.100.1:80', '198.51.100.2:80'],
  );
});

void t.test('a dispatcher sends through WEBHOOK_PROXY', async (t) => {
  const database = await testDatabase(t);
  const receiver = await startReceiver(t);
  const proxy = await startEgressProxy(t, receiver.port);
  const app = await seedApp(database.sql, 'http://203.0.113.7/hook');
  const [id = ''] = await queueDeliveries(database.sql, app, 1);
  await runDispatcher(t, database, {
    env: {
      WEBHOOK_PROXY: proxy.url,
      WEBHOOK_GUARD: 'true',
      WEBHOOK_ALLOW_CIDRS: '203.0.113.0/24',
    },
  });
  await attempted(database.sql, id);
  t.equal(receiver.requests.length, 1);
  t.match(proxy.asked, [{ target: '203.0.113.7:80' }]);
});
