// Receivers whose TLS is wrong, before a dispatcher that trusts the authority of the fixtures.
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer as createPlainServer, type AddressInfo } from 'node:net';
import { createServer, type TlsOptions } from 'node:tls';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { start } from '../fixtures/command.ts';
import { startNameServer } from '../fixtures/name-server.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import {
  attempted,
  attemptsOf,
  encryptionKey,
  queueDeliveries,
  seedApp,
} from '../fixtures/webhooks.ts';

const fixture = (name: string) => new URL(`../fixtures/tls/${name}`, import.meta.url);
const [key, leaf, intermediate, root, expired, selfSigned] = await Promise.all(
  [
    'chained.key',
    'chained.pem',
    'intermediate.pem',
    'root.pem',
    'expired.pem',
    'self-signed.pem',
  ].map((name) => readFile(fixture(name), 'latin1')),
);
const cert = `${leaf}${intermediate}`;

interface Receiver {
  tls: TlsOptions;
  /** `secure.example` by default. */
  host?: string;
  error: string | null;
}

const receivers: Record<string, Receiver> = {
  'nothing wrong': { tls: { cert }, error: null },
  'no intermediate certificate': { tls: { cert: leaf }, error: 'chain_incomplete' },
  'an expired certificate': { tls: { cert: `${expired}${intermediate}` }, error: 'expired' },
  'a certificate of another host': { tls: { cert }, host: 'other.example', error: 'wrong_host' },
  'a self-signed certificate': { tls: { cert: selfSigned }, error: 'self_signed' },
  'TLS 1.1': {
    tls: { cert, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' },
    error: 'protocol_version',
  },
  'a demand for a client certificate': {
    tls: { cert, ca: root, requestCert: true, rejectUnauthorized: true },
    error: 'client_certificate',
  },
};

async function startTlsServer(t: Test, options: TlsOptions): Promise<number> {
  const server = createServer({ key, ...options }, (socket) => {
    socket.on('error', () => undefined);
    socket.on('data', () => socket.end('HTTP/1.1 204 No Content\r\n\r\n'));
  }).listen(0, '127.0.0.1');
  server.on('tlsClientError', () => undefined);
  await once(server, 'listening');
  t.teardown(() => server.close());
  return (server.address() as AddressInfo).port;
}

async function startPlain(t: Test): Promise<number> {
  const server = createPlainServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', () => socket.end('HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n'));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return (server.address() as AddressInfo).port;
}

void t.test('the attempt log names the TLS error of a receiver', async (t) => {
  const { sql, url } = await testDatabase(t);
  const queue = async (host: string, port: number) => {
    const app = await seedApp(sql, `https://${host}:${port}/hook`);
    const [id = ''] = await queueDeliveries(sql, app, 1);
    return id;
  };
  const queued: { name: string; id: string; error: string | null }[] = [
    { name: 'no TLS', id: await queue('secure.example', await startPlain(t)), error: 'tls' },
  ];
  for (const [name, { tls, host = 'secure.example', error }] of Object.entries(receivers))
    queued.push({ name, id: await queue(host, await startTlsServer(t, tls)), error });
  const running = start(t, ['dispatch'], {
    BILLING_ENV: 'production',
    DATABASE_URL: url,
    ENCRYPTION_KEY: encryptionKey,
    METRICS_PORT: '0',
    WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
    WEBHOOK_DNS_SERVERS: await startNameServer(t, () => ['127.0.0.1']),
    NODE_EXTRA_CA_CERTS: fileURLToPath(fixture('root.pem')),
  });
  await running.line('dispatch is running');
  for (const { name, id, error } of queued) {
    await attempted(sql, id);
    t.match(await attemptsOf(sql, id), [{ httpStatus: error === null ? 204 : null, error }], name);
  }
});
