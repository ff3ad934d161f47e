// The strict envelope, and client errors below the routes; over real sockets if needed.
import { connect, type AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { connect as connectDatabase } from '../../../src/db/postgres/connect.ts';
import { daemonLimits } from '../../../src/db/postgres/settings.ts';
import { testApi, type TestApi } from '../../fixtures/http.ts';
import { asRole, testDatabase } from '../../fixtures/postgres.ts';
import { until } from '../../fixtures/webhooks.ts';

const envelope = { success: false, data: null };

async function listening(t: Test): Promise<{ api: TestApi; port: number }> {
  const api = await testApi(t);
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  return { api, port: (api.app.server.address() as AddressInfo).port };
}

/**
 * Sends raw text and resolves with everything that came back until the server closed the
 * connection.
 */
function raw(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    socket.setEncoding('utf8').on('data', (chunk: string) => (answer += chunk));
    socket.on('error', reject).on('close', () => resolve(answer));
  });
}

void t.test('no response of the API may be cached, whatever its status', async (t) => {
  const { api, port } = await listening(t);
  const { token } = await api.signIn('merchant');
  const { token: subscriber } = await api.signIn('subscriber');
  for (const [url, bearer] of [
    ['/merchant/profile', token],
    ['/merchant/profile', undefined],
    ['/merchant/apps/1', token],
    ['/subscriber/subscriptions', subscriber],
    ['/nowhere', undefined],
    ['/healthz', undefined],
    ['/%zz', undefined],
  ] as const) {
    const authorization = bearer === undefined ? {} : { authorization: `Bearer ${bearer}` };
    const { headers } = await api.app.inject({ method: 'GET', url, headers: authorization });
    t.equal(headers['cache-control'], 'no-store', url);
  }
  t.match(await raw(port, 'nonsense\r\n\r\n'), /^HTTP\/1.1 400[^]*\r\ncache-control: no-store\r\n/);
});

void t.test(
  'malformed JSON, another content type, no body and an over-large body get VALIDATION_ERROR',
  async (t) => {
    const api = await testApi(t);
    const { token } = await api.signIn('merchant');
    const post = (payload: string | undefined, type: string | undefined) =>
      api.call('POST', '/merchant/apps', {
        token,
        ...(payload === undefined ? {} : { payload }),
        ...(type === undefined ? {} : { headers: { 'content-type': type } }),
      });
    const json = 'application/json';
    const cases: [string, string | undefined, string | undefined][] = [
      ['cut off', '{"name":"x"', json],
      ['not JSON', 'name=x', json],
      ['a trailing comma', '{"name":"x",}', json],
      ['a form', 'name=x', 'application/x-www-form-urlencoded'],
      ['text', '{"name":"x"}', 'text/plain'],
      ['XML', '<name>x</name>', 'application/xml'],
      ['a type that is none', '{"name":"x"}', 'nonsense'],
      ['no body', undefined, json],
      ['nothing at all', undefined, undefined],
      ['an array', '[]', json],
      ['null', 'null', json],
      ['a number', '1e999', json],
      ['a string', '"x"', json],
      ['__proto__', '{"name":"x","__proto__":{"admin":true}}', json],
      ['constructor', '{"name":"x","constructor":{"prototype":{}}}', json],
      ['deep', `{"name":${'['.repeat(5000)}${']'.repeat(5000)}}`, json],
      [
        '65537 bytes',
        JSON.stringify({ name: 'x', description: 'x'.repeat(65_536 - 27) }).padEnd(65_537, ' '),
        json,
      ],
    ];
    for (const [what, payload, type] of cases) {
      t.match(
        await post(payload, type),
        { status: 400, body: { ...envelope, error: { code: 'VALIDATION_ERROR' } } },
        what,
      );
    }
    t.equal(
      (await post(`{"name":"x"}${' '.repeat(65_524)}`, json)).status,
      201,
      '65536 bytes are fine',
    );
    t.equal((await post('{"name":"x"}', 'application/json; charset=UTF-8')).status, 201);
    t.equal(
      (await post('{"name":"x","name":"y"}', json)).body.data.name,
      'y',
      'the last of two, as JSON.parse has it',
    );
  },
);

void t.test(
  'an unknown route, a wrong method, an undecodable URL and a too long URL get NOT_FOUND',
  async (t) => {
    const api = await testApi(t);
    const { token } = await api.signIn('merchant');
    const notFound = { status: 404, body: { ...envelope, error: { code: 'NOT_FOUND' } } };
    for (const url of [
      '/merchant',
      '/merchant/',
      '/merchant/nothing',
      '/MERCHANT/profile',
      '/merchant/profile/',
      '//',
      '/%zz',
      '/merchant/apps/%E0%A4%A',
      `/merchant/apps/${'x'.repeat(5000)}`,
      '/metrics',
      '/..%2f..%2fetc%2fpasswd',
      '/docs/..%2f..%2fpackage.json',
      '/docs/%00',
    ]) {
      t.match(await api.call('GET', url, { token }), notFound, url.slice(0, 40));
    }
    for (const [method, url] of [
      ['PUT', '/merchant/profile'],
      ['DELETE', '/merchant/profile'],
      ['POST', '/merchant/profile'],
      ['GET', '/auth/nonce'],
    ] as const) {
      t.match(
        await api.call(method, url, { token }),
        {
          status: 405,
          headers: {
            allow: url === '/auth/nonce' ? 'POST' : /^GET, HEAD, PATCH$|^HEAD, GET, PATCH$/,
          },
          body: { success: false, data: null, error: { code: 'METHOD_NOT_ALLOWED' } },
        },
        `${method} ${url}`,
      );
    }
    for (const [payload, type] of [
      ['{', 'application/json'],
      ['x', 'text/plain'],
      ['x'.repeat(70_000), 'application/json'],
    ] as const) {
      t.match(
        await api.call('POST', '/nothing', { payload, headers: { 'content-type': type } }),
        notFound,
        'whatever its body is',
      );
    }
  },
);

void t.test(
  'a docs file requested with an If-Match that does not match gets 400 VALIDATION_ERROR',
  async (t) => {
    const api = await testApi(t);
    const headers = { 'if-match': '"x"' };
    const refused = await api.call('GET', '/docs/swagger-ui.css', { headers });
    t.match(refused, { status: 400, body: { ...envelope, error: { code: 'VALIDATION_ERROR' } } });
  },
);

void t.test(
  "an unexpected error gets INTERNAL_ERROR without internals and is logged with the request's id",
  async (t) => {
    const { pino } = await import('pino');
    const lines: Record<string, unknown>[] = [];
    const log = pino(
      {},
      { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
    );
    const api = await testApi(t, { log });
    const merchant = await api.merchant();
    await api.sql`alter table apps rename to hidden`;
    const answer = await api.call('GET', '/merchant/apps', {
      token: merchant.token,
      headers: { 'x-request-id': 'my-own-id' },
    });
    t.match(answer, {
      status: 500,
      body: { ...envelope, error: { code: 'INTERNAL_ERROR' } },
      headers: { 'x-request-id': 'my-own-id' },
    });
    t.notMatch(answer.text, /relation|apps|postgres|stack|\.ts/i);
    const logged = lines.find(({ level }) => level === 50);
    t.match(logged, { requestId: 'my-own-id', err: { message: /relation "apps" does not exist/ } });
  },
);

void t.test(
  'X-Request-Id is returned if it is a plain word, else generated; every log line of the request has it',
  async (t) => {
    const api = await testApi(t);
    t.equal(
      (await api.call('GET', '/healthz', { headers: { 'x-request-id': 'abc-123' } })).headers[
        'x-request-id'
      ],
      'abc-123',
    );
    for (const id of ['', 'a b', 'x'.repeat(129), '"}', 'é']) {
      const given = (await api.call('GET', '/healthz', { headers: { 'x-request-id': id } }))
        .headers['x-request-id'];
      t.match(given, /^[0-9a-f-]{36}$/, id.slice(0, 10));
    }
  },
);

void t.test(
  'malformed HTTP and endless headers are answered in the envelope, and the connection is closed',
  async (t) => {
    const { port } = await listening(t);
    const nonsense = await raw(port, 'HELLO\r\n\r\n');
    t.match(nonsense, /^HTTP\/1\.1 400 /);
    t.match(JSON.parse(nonsense.split('\r\n\r\n')[1]!), {
      ...envelope,
      error: { code: 'VALIDATION_ERROR' },
    });
    const flood = await raw(
      port,
      `GET /healthz HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`,
    );
    t.match(flood, /^HTTP\/1\.1 431 /);
    const smuggled = await raw(
      port,
      'POST /auth/nonce HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    );
    t.match(smuggled, /^HTTP\/1\.1 400 /);
    const hostless = await raw(port, 'GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n');
    t.match(hostless, /^HTTP\/1\.1 400 /);
    t.match(JSON.parse(hostless.split('\r\n\r\n')[1]!), {
      ...envelope,
      error: { code: 'VALIDATION_ERROR' },
    });
    t.match(
      await raw(port, 'GET /healthz HTTP/1.0\r\n\r\n'),
      /^HTTP\/1\.1 200 /,
      'HTTP 1.0 has no host',
    );
  },
);

void t.test('an unknown Expect header is ignored', async (t) => {
  const { port } = await listening(t);
  t.match(
    await raw(
      port,
      'GET /healthz HTTP/1.1\r\nhost: x\r\nexpect: more\r\nconnection: close\r\n\r\n',
    ),
    /^HTTP\/1\.1 200 /,
  );
});

void t.test(
  'a client that sends too slowly is disconnected, and others are served meanwhile',
  async (t) => {
    const { api, port } = await listening(t);
    t.equal(api.app.server.requestTimeout, 20_000, 'twenty seconds for a whole request');
    t.ok(api.app.server.headersTimeout > 0 && api.app.server.headersTimeout <= 60_000);
    // The same server with shorter patience.
    api.app.server.requestTimeout = 300;
    api.app.server.headersTimeout = 300;
    const dripping = raw(
      port,
      'POST /auth/nonce HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{',
    );
    t.equal((await fetch(`http://127.0.0.1:${port}/healthz`)).status, 200);
    t.match(await dripping, /^HTTP\/1\.1 408 /);
  },
);

void t.test('a stop closes idle and unused connections and finishes open requests', async (t) => {
  const { api, port } = await listening(t);
  // Nothing but the stop ends a connection.
  Object.assign(api.app.server, { requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 0 });
  const unused = connect(port, '127.0.0.1');
  await new Promise((resolve) => unused.once('connect', resolve));
  const idle = connect(port, '127.0.0.1');
  idle.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
  await new Promise((resolve) => idle.once('data', resolve));
  const closed = Promise.all(
    [idle, unused].map((socket) => new Promise((resolve) => socket.once('close', resolve))),
  );
  const body = JSON.stringify({ wallet: api.deps.network.treasury });
  const inHand = connect(port, '127.0.0.1');
  const answered = new Promise<string>((resolve) =>
    inHand.setEncoding('utf8').once('data', resolve),
  );
  const begun = new Promise((resolve) => api.app.server.once('request', resolve));
  inHand.write(
    `POST /auth/nonce HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
  );
  await begun;
  const stopped = api.app.close();
  await closed;
  inHand.write(body.slice(5));
  t.match(await answered, /^HTTP\/1\.1 200 /);
  await stopped;
});

void t.test(
  'a request whose client disconnects before the response is counted once, as 499',
  async (t) => {
    const counted: { route: string; status: number; seconds: number }[] = [];
    const database = await testDatabase(t);
    const api = await testApi(t, { database, onResponse: (answer) => counted.push(answer) });
    const address = await api.app.listen({ port: 0, host: '127.0.0.1' });
    const { token } = await api.signIn('merchant');
    counted.length = 0;
    let release: () => void = () => undefined;
    let locked: () => void = () => undefined;
    const isLocked = new Promise<void>((resolve) => (locked = resolve));
    const holding = database.sql.begin(async (tx) => {
      await tx`lock table apps`;
      locked();
      await new Promise<void>((resolve) => (release = resolve));
    });
    await isLocked;
    const leave = new AbortController();
    const left = t.rejects(
      fetch(`${address}/merchant/apps`, {
        headers: { authorization: `Bearer ${token}` },
        signal: leave.signal,
      }),
    );
    await until(
      async () =>
        (
          await database.sql`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
        ).length === 1,
    );
    leave.abort();
    await left;
    await until(() => counted.length > 0);
    release();
    await holding;
    await new Promise((resolve) => setTimeout(resolve, 100));
    t.match(counted, [{ route: '/merchant/apps', status: 499, seconds: Number }]);
    t.equal(counted.length, 1);
  },
);

void t.test('only configured origins are allowed by CORS', async (t) => {
  const api = await testApi(t, { corsOrigins: ['https://shop.test/'] });
  const preflight = (origin: string) =>
    api.call('OPTIONS' as 'GET', '/merchant/profile', {
      headers: {
        origin,
        'access-control-request-method': 'GET',
        'access-control-request-headers': 'authorization',
      },
    });
  const good = await preflight('https://shop.test');
  t.equal(good.status, 204);
  t.match(good.headers, {
    'access-control-allow-origin': 'https://shop.test',
    'access-control-allow-headers': /authorization/,
  });
  t.equal((await preflight('https://evil.test')).headers['access-control-allow-origin'], undefined);
  const answer = await api.call('GET', '/merchant/profile', {
    headers: { origin: 'https://shop.test' },
  });
  t.match(answer, {
    status: 401,
    headers: {
      'access-control-allow-origin': 'https://shop.test',
      'access-control-expose-headers': /x-next-cursor/,
    },
  });
  const none = await testApi(t);
  t.equal(
    (await none.call('GET', '/healthz', { headers: { origin: 'https://shop.test' } })).headers[
      'access-control-allow-origin'
    ],
    undefined,
  );
});

void t.test(
  '/healthz reports that the process runs, /readyz whether Postgres responds',
  async (t) => {
    const database = await testDatabase(t);
    let gone = false;
    let asked = 0;
    const sql = new Proxy(database.sql, {
      apply: (target, self, given) => {
        asked += 1;
        return gone
          ? Promise.reject(new Error('connection refused'))
          : (Reflect.apply(target, self, given) as unknown);
      },
    });
    const api = await testApi(t, { database, sql });
    const ready = { status: 200, body: { success: true, data: { status: 'ready' } } };
    for (let n = 0; n < 20; n += 1) t.match(await api.call('GET', '/readyz'), ready);
    t.ok(asked <= 3, `${asked} statements for 20 probes`);
    gone = true;
    let answer = await api.call('GET', '/readyz');
    while (answer.status === 200) answer = await api.call('GET', '/readyz');
    t.match(answer, { status: 503, body: { ...envelope, error: { code: 'INTERNAL_ERROR' } } });
    t.match(await api.call('GET', '/healthz'), {
      status: 200,
      body: { success: true, data: { status: 'ok' } },
    });
    gone = false;
    while (answer.status === 503) answer = await api.call('GET', '/readyz');
    t.match(answer, ready);
  },
);

void t.test('every response has the security headers that helmet sets', async (t) => {
  const api = await testApi(t);
  for (const url of ['/healthz', '/nowhere', '/merchant/profile', '/openapi.json']) {
    const { headers } = await api.call('GET', url);
    t.match(
      headers,
      {
        'x-content-type-options': 'nosniff',
        'content-security-policy': /default-src 'none'/,
        'referrer-policy': 'no-referrer',
      },
      url,
    );
    t.equal(headers['strict-transport-security'], undefined, 'over http it would be a lie');
  }
  const secure = await testApi(t, { publicUrl: 'https://billing.test' });
  t.match((await secure.call('GET', '/healthz')).headers['strict-transport-security'], /max-age=/);
});

void t.test(
  'a list query that Postgres cancels as too slow gets 503 with advice to narrow it',
  async (t) => {
    const database = await testDatabase(t);
    const limits = { ...daemonLimits, statementMs: 2000 };
    const impatient = connectDatabase(asRole(database.url, 'serve'), {
      max: 4,
      name: 'impatient',
      limits,
    });
    t.teardown(() => impatient.end());
    const api = await testApi(t, { database, sql: impatient });
    const merchant = await api.merchant();
    await database.sql.begin(async (tx) => {
      await tx`lock table payments in access exclusive mode`;
      const path = `/merchant/apps/${merchant.appId}/transactions?status=failed`;
      const answer = await api.call('GET', path, { token: merchant.token });
      t.match(answer, {
        status: 503,
        headers: { 'retry-after': '5' },
        body: {
          ...envelope,
          error: { code: 'INTERNAL_ERROR', message: /did not answer in time.*since and until/ },
        },
      });
    });
  },
);

void t.test(
  'a request that Postgres aborts because of a deadlock gets 503 and may be repeated',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    // The session that detects the deadlock gets the error. The request checks for one five seconds
    // after it began to wait, the other session never.
    await sql`do $$ begin execute format('alter database %I set deadlock_timeout = ''5s''', current_database()); end $$`;
    const api = await testApi(t, { database });
    const { appId, token } = await api.merchant();
    const path = `/merchant/apps/${appId}/webhooks`;
    const create = () =>
      api.call<{ id: string }>('POST', path, { token, body: { url: 'https://a.test/' } });
    const { id } = (await create()).body.data;
    await api.call('DELETE', `${path}/${id}`, { token });
    await sql.begin(async (tx) => {
      await tx`set local deadlock_timeout = '1h'`;
      await tx`lock table delivery_queue`;
      const asked = create();
      const waiting = () =>
        sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      await until(async () => (await waiting()).length > 0);
      // The request has stored the endpoint and waits for the queue.
      await tx`lock table webhook_endpoints`;
      t.match(await asked, { status: 503, headers: { 'retry-after': '5' }, body: envelope });
    });
    t.equal((await create()).status, 201);
  },
);

void t.test('a validation error states the rule in words, never a pattern', async (t) => {
  const api = await testApi(t);
  const { token } = await api.signIn('merchant');
  const { body } = await api.call<{ id: string }>('POST', '/merchant/apps', {
    token,
    body: { name: 'A' },
  });
  const app = `/merchant/apps/${body.data.id}`;
  const cases: ['GET' | 'POST' | 'PATCH', string, unknown, string, string][] = [
    ['GET', '/merchant/apps?limit=0', undefined, 'limit', 'must be at least 1'],
    ['GET', '/merchant/apps?limit=101', undefined, 'limit', 'must be at most 100'],
    ['GET', '/merchant/apps?limit=x', undefined, 'limit', 'must be a whole number'],
    ['POST', '/merchant/apps', { name: 5 }, 'name', 'must be a string'],
    [
      'POST',
      `${app}/plans`,
      { name: 'P', amount: '1.5', periodHours: 1 },
      'amount',
      'must be a whole number of USDC base units as a string, from "1" to "9223372036854775807"',
    ],
    [
      'POST',
      `${app}/plans`,
      { name: 'P', amount: '1', periodHours: 0 },
      'periodHours',
      'must be at least 1',
    ],
  ];
  for (const [method, url, given, path, message] of cases)
    t.same(
      (await api.call(method, url, { token, body: given })).body.error?.details,
      [{ path, message }],
      `${method} ${url}`,
    );
});

void t.test('an id in upper case in a path finds the row', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const token = merchant.key;
  const id = merchant.appId.toUpperCase();
  t.match(await api.call('GET', `/merchant/apps/${id}`, { token }), {
    status: 200,
    body: { data: { id: merchant.appId } },
  });
  t.equal(
    (await api.call('GET', `/merchant/apps/${id}/subscriptions?planId=${id}`, { token })).status,
    200,
  );
});
