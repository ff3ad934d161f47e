// Debian's nginx and Caddy with the files of deploy/proxy, before two processes of `billing serve`.
// Ports, certificate and upstreams are those of the test.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { request as requestPlain, type IncomingHttpHeaders } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { request } from 'node:https';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { freePorts } from '../../src/local/sandbox/ports.ts';
import { type Running, start } from '../fixtures/command.ts';
import { type Served, startServe } from '../fixtures/serve.ts';
import { tool } from '../fixtures/tools.ts';

const execute = promisify(execFile);
const HOST = 'billing.example.com';
const FILES = new URL('../../deploy/proxy/', import.meta.url);
const UPSTREAM = '127.0.0.1:3000';
/** Addresses of the clients. 127.0.0.1 is the address of the proxies, which TRUST_PROXY names. */
const [CLIENT, OTHER_CLIENT] = ['127.0.0.2', '127.0.0.3'];
const LOOK_MS = 50;
const MAX_WAIT_SECONDS = 15;
/** Waiting requests per merchant and process (src/http/routes/event-feed.ts). */
const MAX_WAITING = 4;
/** What a client writes into headers. */
const FORGED = ['203.0.113.7', '203.0.113.8', '203.0.113.9'];

interface Place {
  directory: string;
  tlsPort: number;
  plainPort: number;
  certificate: string;
  key: string;
  /** Addresses of the processes of serve. */
  upstreams: string[];
}

interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
}

interface Asked {
  method?: string;
  headers?: Record<string, string | string[]>;
  body?: string;
  from?: string;
  signal?: AbortSignal;
}

interface Front extends Place {
  ca: Buffer;
  ask: (path: string, asked?: Asked) => Promise<Answer>;
}

/** The arguments of the program that runs with the file's text in this place. */
type Configure = (text: string, place: Place) => Promise<string[]>;

const hasIpv6 = Object.values(networkInterfaces()).some((addresses) =>
  addresses?.some(({ address }) => address === '::1'),
);

/** The file is included as from Debian's conf.d. */
const configureNginx: Configure = async (text, place) => {
  const { directory, tlsPort, plainPort, certificate, key, upstreams } = place;
  const line = /^ *server 127\.0\.0\.1:3000(.*)$/m;
  const own = text
    .replace(line, (_, rest: string) =>
      upstreams.map((upstream) => `  server ${upstream}${rest}`).join('\n'),
    )
    .replaceAll(/listen 443\b/g, `listen 127.0.0.1:${tlsPort}`)
    .replaceAll(/listen 80\b/g, `listen 127.0.0.1:${plainPort}`)
    .replaceAll(/^ *listen \[::\]:443\b(.*)$/gm, hasIpv6 ? `  listen [::1]:${tlsPort}$1` : '')
    .replaceAll(/^ *listen \[::\]:80\b(.*)$/gm, hasIpv6 ? `  listen [::1]:${plainPort}$1` : '')
    .replace(/ssl_certificate .*;/, `ssl_certificate ${certificate};`)
    .replace(/ssl_certificate_key .*;/, `ssl_certificate_key ${key};`);
  await writeFile(join(directory, 'billing.conf'), own);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${join(directory, name)};`,
  );
  const main = `
    daemon off;
    pid ${join(directory, 'nginx.pid')};
    events {}
    http { access_log off; ${temporary.join(' ')} include ${join(directory, 'billing.conf')}; }`;
  const file = join(directory, 'nginx.conf');
  await writeFile(file, main);
  return ['-e', 'stderr', '-c', file];
};

const configureCaddy: Configure = async (text, place) => {
  const { directory, tlsPort, plainPort, certificate, key, upstreams } = place;
  const global = `{\n\tadmin off\n\thttp_port ${plainPort}\n\thttps_port ${tlsPort}\n}\n`;
  const site = `${HOST} {\n`;
  const own = text
    .replace(site, `${site}\ttls ${certificate} ${key}\n`)
    .replace(`reverse_proxy ${UPSTREAM}`, `reverse_proxy ${upstreams.join(' ')}`);
  const file = join(directory, 'Caddyfile');
  await writeFile(file, global + own);
  return ['run', '--config', file, '--adapter', 'caddyfile'];
};

/** Starts the proxy; resolves when serve answers through it. */
async function startFront(
  t: Test,
  program: string,
  [file, configure]: readonly [string, Configure],
  upstreams: string[],
): Promise<Front> {
  const path = await tool(program);
  const directory = await mkdtemp(join(tmpdir(), `billing-${program}-`));
  // Workers of nginx are of another user.
  await chmod(directory, 0o755);
  const [tlsPort = 0, plainPort = 0] = await freePorts(2);
  const [certificate, key] = [join(directory, 'chain.pem'), join(directory, 'key.pem')];
  const names = ['-subj', `/CN=${HOST}`, '-addext', `subjectAltName=DNS:${HOST}`];
  await execute('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
    ...['-days', '2', '-keyout', key, '-out', certificate, ...names],
  ]);
  const place = { directory, tlsPort, plainPort, certificate, key, upstreams };
  const args = await configure(await readFile(new URL(file, FILES), 'utf8'), place);
  const home = { HOME: directory, XDG_DATA_HOME: directory, XDG_CONFIG_HOME: directory };
  const child = spawn(path, args, {
    env: { PATH: process.env.PATH, ...home },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  const ended = once(child, 'exit');
  t.teardown(async () => {
    child.kill('SIGTERM');
    await ended;
    await rm(directory, { recursive: true, force: true });
  });
  const ca = await readFile(certificate);
  const front: Front = { ...place, ca, ask: (path, asked) => ask(front, path, asked) };
  for (;;) {
    const { status } = await front.ask('/readyz').catch(() => ({ status: 0 }));
    if (status === 200) return front;
    if (child.exitCode !== null)
      throw new Error(`${program} ended with ${child.exitCode}: ${said}`);
    await pause(LOOK_MS);
  }
}

/** A request of one client over a connection of its own, under the name of the service. */
async function ask(
  { tlsPort, ca }: Front,
  path: string,
  { method = 'GET', headers = {}, body, from = CLIENT, signal }: Asked = {},
): Promise<Answer> {
  return await new Promise((resolve, reject) => {
    const sent = request(
      {
        ...{ host: '127.0.0.1', port: tlsPort, servername: HOST, ca, localAddress: from },
        ...{ method, path, agent: false, headers: { host: HOST, ...headers } },
        ...(signal !== undefined && { signal }),
      },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => (text += part));
        response.on('error', reject);
        response.on('end', () => {
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text });
        });
      },
    );
    sent.on('error', reject);
    sent.end(body);
  });
}

const json = { 'content-type': 'application/json' };
const authorized = (key: string) => ({ authorization: `Bearer ${key}`, ...json });
const dataOf = ({ body }: Answer) =>
  (JSON.parse(body) as { data: { cursor: string; name: string; events: unknown[] } }).data;

/** The client's address is that of its connection, whatever its headers say. */
async function judgeAddresses(t: Test, front: Front, { sql, env }: Served): Promise<void> {
  await sql`delete from rate_budgets`;
  const body = JSON.stringify({ wallet: env.PLATFORM_TREASURY });
  const [first = '', second = '', third = ''] = FORGED;
  for (const [from, headers] of [
    [CLIENT, { 'x-forwarded-for': first }],
    [CLIENT, { 'x-forwarded-for': [first, second] }],
    [CLIENT, { 'x-forwarded-for': `${first}, 127.0.0.1`, forwarded: `for=${second}` }],
    [CLIENT, { 'x-real-ip': third, 'X-FORWARDED-FOR': `, ${second}` }],
    [OTHER_CLIENT, {}],
  ] as const)
    t.equal(
      (
        await front.ask('/auth/nonce', {
          method: 'POST',
          from,
          body,
          headers: { ...headers, ...json } as Record<string, string>,
        })
      ).status,
      200,
    );
  const subjects = await sql<{ subject: string }[]>`select subject from rate_budgets`;
  const addresses = subjects.flatMap(({ subject }) => subject.match(/\d+(\.\d+){3}/g) ?? []);
  t.same([...new Set(addresses)].toSorted(), [CLIENT, OTHER_CLIENT]);
}

async function judgeBodies(t: Test, front: Front, key: string, appId: string): Promise<void> {
  const post = (size: number, headers: Record<string, string> = {}) =>
    front.ask(`/merchant/apps/${appId}`, {
      method: 'PATCH',
      body: JSON.stringify({ name: 'x'.repeat(size) }),
      headers: { ...authorized(key), ...headers },
    });
  t.equal((await post(20)).status, 200);
  const chunked = await post(30, { 'transfer-encoding': 'chunked' });
  t.equal(chunked.status, 200, 'a body without a length');
  const large = await post(80_000);
  t.match(JSON.parse(large.body), { error: { code: 'VALIDATION_ERROR', message: /64 KiB/ } });
  for (const headers of [{}, { 'transfer-encoding': 'chunked' }] as Record<string, string>[]) {
    const huge = await post(1_000_000, headers);
    t.ok([400, 413].includes(huge.status), `a body far above the limit: ${huge.status}`);
  }
  const got = await front.ask(`/merchant/apps/${appId}`, { headers: authorized(key) });
  t.equal(dataOf(got).name, 'x'.repeat(30));
}

/** A long poll ends with the event, or after its whole time; one whose client goes ends at once. */
async function judgeLongPoll(t: Test, front: Front, served: Served): Promise<() => Promise<void>> {
  const [idle, busy] = [await served.merchant(), await served.merchant()];
  const next = async (one: typeof busy, query: string, signal?: AbortSignal) =>
    await front.ask(`/merchant/apps/${one.appId}/events/next${query}`, {
      headers: authorized(one.key),
      ...(signal !== undefined && { signal }),
    });
  const cursorOf = async (one: typeof busy) =>
    `?after=${encodeURIComponent(dataOf(await next(one, '')).cursor)}`;
  const whole = next(idle, `${await cursorOf(idle)}&wait=${MAX_WAIT_SECONDS}`);
  const cursor = await cursorOf(busy);
  const waiting = next(busy, `${cursor}&wait=${MAX_WAIT_SECONDS}`);
  const sample = await front.ask(`/merchant/apps/${busy.appId}/events/sample`, {
    method: 'POST',
    headers: authorized(busy.key),
    body: JSON.stringify({ type: 'payment_success' }),
  });
  t.equal(sample.status, 200, sample.body);
  const { events } = dataOf(await waiting);
  t.match(events, [{ type: 'payment_success' }]);

  const clock = next(idle, `${await cursorOf(idle)}&wait=${MAX_WAIT_SECONDS}`).then(() => 'late');
  // Sends one request more than all processes have places, so that one request is refused.
  const leaving = new AbortController();
  const after = await cursorOf(busy);
  const refused = new Promise<number>((resolve) => {
    for (let n = 0; n <= MAX_WAITING * front.upstreams.length; n += 1)
      next(busy, `${after}&wait=${MAX_WAIT_SECONDS}`, leaving.signal).then(
        ({ status }) => resolve(status),
        () => undefined,
      );
  });
  t.equal(await refused, 429);
  leaving.abort();
  const probe = async () => (await next(busy, `${after}&wait=1`)).status;
  const allFree = async () => {
    const free = async () =>
      (await Promise.all([probe(), probe(), probe(), probe()])).every((status) => status === 200);
    while (!(await free())) await pause(10 * LOOK_MS);
    return 'free';
  };
  t.equal(await Promise.race([allFree(), clock]), 'free', 'before their time is over');
  return async () => {
    const answer = await whole;
    t.same([answer.status, dataOf(answer).events], [200, []]);
  };
}

async function judgeHttp2(t: Test, { tlsPort, ca }: Front): Promise<void> {
  const session = connectHttp2(`https://127.0.0.1:${tlsPort}`, { ca, servername: HOST });
  const statuses = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const stream = session.request({ ':authority': HOST, ':path': '/healthz' });
      const [headers] = (await once(stream, 'response')) as [{ ':status'?: number }];
      stream.resume();
      await once(stream, 'end');
      return headers[':status'];
    }),
  );
  t.equal(session.alpnProtocol, 'h2');
  t.same(new Set(statuses), new Set([200]));
  session.close();
}

/** Without TLS there is only the way to TLS. */
async function judgeRedirect(t: Test, { plainPort }: Front): Promise<void> {
  const sent = requestPlain({
    ...{ host: '127.0.0.1', port: plainPort, path: '/healthz', headers: { host: HOST } },
  });
  sent.end();
  const [{ statusCode, headers }] = (await once(sent, 'response')) as [
    { statusCode: number; headers: IncomingHttpHeaders },
  ];
  t.ok([301, 308].includes(statusCode));
  t.match(headers.location, new RegExp(`^https://${HOST}(:\\d+)?/healthz$`));
  sent.destroy();
}

/** One process stops while requests that change nothing go on: none of them is refused. */
async function judgeRestart(t: Test, { ask }: Front, second: Running): Promise<void> {
  const stopped = new AbortController();
  const asking = Array.from({ length: 4 }, async () => {
    const statuses: number[] = [];
    while (!stopped.signal.aborted) statuses.push((await ask('/healthz')).status);
    return statuses;
  });
  await ask('/healthz');
  second.child.kill('SIGTERM');
  t.equal((await second.ended).code, 0);
  for (let more = 0; more < 20; more += 1) await ask('/healthz');
  stopped.abort();
  t.same([...new Set((await Promise.all(asking)).flat())], [200]);
}

for (const [program, ...own] of [
  ['nginx', 'nginx.conf', configureNginx],
  ['caddy', 'Caddyfile', configureCaddy],
] as const)
  void t.test(
    `${program} with deploy/proxy/${own[0]} balances requests between two serve processes`,
    async (t) => {
      const served = await startServe(t, { TRUST_PROXY: '127.0.0.1' });
      const second = start(t, ['serve'], { ...served.env, PORT: '0' });
      const { address } = JSON.parse(await second.line('"listening"')) as { address: string };
      const upstreams = [served.url, address].map((url) => new URL(url).host);
      const front = await startFront(t, program, own, upstreams);
      const { key, appId } = await served.merchant();
      await served.sql`update merchants set tier = 'pro'`;
      const wholeTime = await judgeLongPoll(t, front, served);
      await judgeAddresses(t, front, served);
      await judgeBodies(t, front, key, appId);
      await judgeHttp2(t, front);
      await judgeRedirect(t, front);
      const csv = await front.ask(`/merchant/apps/${appId}/transactions/export`, {
        headers: authorized(key),
      });
      t.match(csv, { status: 200, headers: { 'content-type': /^text\/csv/ } });
      // It has to have ended: a process that stops ends it.
      await wholeTime();
      await judgeRestart(t, front, second);
    },
  );
