// `billing serve` as processes: four of them on one Postgres, slow clients, and the memory that an
// export takes. REVOCATIONS, EXPORT_ROWS and PATIENCE make the long form (`npm run test:serve`).
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { generateKeypair } from '../../src/chain/keypair.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { generateKey } from '../../src/domain/accounts/keys.ts';
import { createTokens } from '../../src/domain/accounts/tokens.ts';
import { start, type Running } from '../fixtures/command.ts';
import { randomAddress } from '../fixtures/http.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { insertPlan, insertSubscription } from '../fixtures/rows.ts';

const revocations = Number(process.env.REVOCATIONS ?? 100);
const exportRows = Number(process.env.EXPORT_ROWS ?? 40_000);
/**
 * Waits for the 20 s that a request may take; test/http/door/errors.test.ts has the short form.
 */
const patient = process.env.PATIENCE === '1';
/** Requests for each public file on one connection. */
const pipelined = 500;
const heapMb = 96;
const jwtSecret = 'a JWT secret of thirty-two bytes!';
const publicUrl = 'http://billing.test';
const tokens = createTokens([jwtSecret], publicUrl);

interface Server {
  url: string;
  running: Running;
}

interface Setting {
  sql: Sql;
  servers: Server[];
}

/**
 * `heapMb`: the size of the heap at which a process ends, so that its memory does not depend on
 * when it collects garbage.
 */
async function serving(
  t: Test,
  count: number,
  { judged = true, heapMb }: { judged?: boolean; heapMb?: number } = {},
): Promise<Setting> {
  const { sql, url } = await testDatabase(t);
  const env = {
    DATABASE_URL: url,
    SOLANA_RPC_URL: 'http://127.0.0.1:1',
    SOLANA_CLUSTER: 'localnet',
    USDC_MINT: randomAddress(),
    KEEPER_ADDRESS: generateKeypair().address,
    PLATFORM_TREASURY: generateKeypair().address,
    JWT_SECRET: jwtSecret,
    ENCRYPTION_KEY: 'an encryption key of 32 bytes ...',
    PUBLIC_URL: publicUrl,
    PORT: '0',
    METRICS_PORT: '0',
    DATABASE_POOL: '4',
    TRUST_PROXY: '127.0.0.1',
    ...(heapMb !== undefined && { NODE_OPTIONS: `--max-old-space-size=${heapMb}` }),
  };
  const servers = await Promise.all(
    Array.from({ length: count }, async (): Promise<Server> => {
      const running = start(t, ['serve'], env, { judged });
      const { address } = JSON.parse(await running.line('"listening"')) as { address: string };
      return { url: address, running };
    }),
  );
  return { sql, servers };
}

async function newMerchant(sql: Sql, tier: 'free' | 'pro') {
  const wallet = randomAddress();
  const [merchant] = await sql<
    { id: string }[]
  >`insert into merchants (wallet, tier) values (${wallet}, ${tier}) returning id`;
  const [app] = await sql<
    { id: string }[]
  >`insert into apps (merchant_id, name) values (${merchant!.id}, 'App') returning id`;
  const { token } = await tokens.issue({ wallet, role: 'merchant', page: null });
  const newKey = async () => {
    const { key, prefix, hash } = generateKey('development');
    const [row] = await sql<
      { id: string }[]
    >`insert into api_keys (merchant_id, prefix, hash) values (${merchant!.id}, ${prefix}, ${hash}) returning id`;
    return { key, id: row!.id };
  };
  return { id: merchant!.id, wallet, appId: app!.id, token, newKey };
}

/** MB of resident memory at its peak. */
async function peakMemory({ child }: Running): Promise<number> {
  const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
}

const ask = (server: Server, path: string, token: string, init: RequestInit = {}) =>
  fetch(`${server.url}${path}`, {
    ...init,
    headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${token}` },
  });

void t.test(
  'four serve processes on one Postgres share rate limits, API keys and idempotency',
  async (t) => {
    const { sql, servers } = await serving(t, 4);
    const at = (n: number) => servers[n % servers.length]!;

    await t.test(
      'four processes allow the limit and at most 1% more, with a correct Retry-After',
      async (t) => {
        for (const [tier, limit] of [
          ['free', 100],
          ['pro', 1000],
        ] as const) {
          const { id, token } = await newMerchant(sql, tier);
          // A window that outlasts the requests, however slow the machine is.
          await sql`
          insert into rate_budgets (subject, number, ends_at, spent, granted, most) values (${`merchant:${id}`}, 0, clock_timestamp() + interval '1 hour', 0, 0, ${limit})`;
          let sent = 0;
          const statuses: number[] = [];
          const client = async () => {
            while (sent < limit * 1.4) {
              sent += 1;
              const answer = await ask(at(sent), '/merchant/profile', token);
              await answer.arrayBuffer();
              statuses.push(answer.status);
              if (answer.status !== 429) continue;
              const wait = Number(answer.headers.get('retry-after'));
              if (!Number.isInteger(wait) || wait < 1 || wait > 3600)
                t.fail(`Retry-After: ${String(answer.headers.get('retry-after'))}`);
            }
          };
          await Promise.all(Array.from({ length: 16 }, client));
          const through = statuses.filter((status) => status === 200).length;
          t.equal(through + statuses.filter((status) => status === 429).length, statuses.length);
          t.ok(
            through >= limit && through <= limit * 1.01,
            `${tier}: ${through} of ${statuses.length} came through, the limit is ${limit}`,
          );
        }
        const { token: first } = await newMerchant(sql, 'free');
        const started = await ask(at(0), '/merchant/profile', first);
        t.match(started.headers.get('ratelimit-reset'), /^([1-5]?[0-9]|60)$/, 'a minute');

        // A window that is spent but for two requests and about to end: a longer one where it ended
        // before they were sent.
        let refused: Response | undefined;
        for (let ms = 2500; refused === undefined; ms *= 2) {
          const { id, token } = await newMerchant(sql, 'free');
          await sql`
          insert into rate_budgets (subject, number, ends_at, spent, granted, most) values (${`merchant:${id}`}, 0, clock_timestamp() + ${ms} * interval '1 ms', 98, 1, 100)`;
          for (let n = 0; n < 4 && refused === undefined; n += 1) {
            const answer = await ask(at(n), '/merchant/profile', token);
            if (answer.status === 429) refused = answer;
          }
          if (refused === undefined) continue;
          const wait = Number(refused.headers.get('retry-after'));
          t.ok(wait >= 1 && wait <= Math.ceil(ms / 1000), `asked to wait ${wait} s`);
          await pause(wait * 1000);
          for (const server of servers)
            t.equal(
              (await ask(server, '/merchant/profile', token)).status,
              200,
              'who waited gets through',
            );
        }
      },
    );

    await t.test(
      `a revoked key gets 401 on the very next request to any process, ${revocations} times`,
      async (t) => {
        const perMerchant = 100;
        let index = 0;
        const merchants = await Promise.all(
          Array.from({ length: Math.ceil(revocations / perMerchant) }, () =>
            newMerchant(sql, 'pro'),
          ),
        );
        const worker = async () => {
          while (index < revocations) {
            const n = (index += 1);
            const { token, newKey } = merchants[Math.floor((n - 1) / perMerchant)]!;
            const { key, id } = await newKey();
            // Each server has just seen the key, and gets requests with it during the revocation.
            const before = await Promise.all(
              servers.map((server) => ask(server, '/merchant/profile', key)),
            );
            if (before.some(({ status }) => status !== 200))
              t.fail(`a live key: ${before.map(({ status }) => status).join()}`);
            const underWay = [
              ask(at(n + 1), '/merchant/profile', key),
              ask(at(n + 2), '/merchant/profile', key),
            ];
            const revoked = await ask(at(n), `/merchant/api-keys/${id}`, token, {
              method: 'DELETE',
            });
            // Refused credentials count against an address: one of its own for each round.
            const headers = { 'x-forwarded-for': `2001:db8:${n.toString(16)}::1` };
            const after = await Promise.all(
              servers.map((server) => ask(server, '/merchant/profile', key, { headers })),
            );
            if (revoked.status !== 200 || after.some(({ status }) => status !== 401)) {
              t.fail(
                `revoked (${revoked.status}), and then ${after.map(({ status }) => status).join()}`,
              );
            }
            await Promise.all(
              [...before, ...after, ...(await Promise.all(underWay)), revoked].map((answer) =>
                answer.arrayBuffer(),
              ),
            );
          }
        };
        await Promise.all(Array.from({ length: 8 }, worker));
        t.equal(index, Math.max(index, revocations));
      },
    );

    await t.test('a change of tier takes effect with the very next request', async (t) => {
      const { id, token, appId } = await newMerchant(sql, 'free');
      for (const server of servers)
        t.equal(
          (await ask(server, `/merchant/apps/${appId}/transactions/export`, token)).status,
          403,
        );
      for (const [tier, status, limit] of [
        ['pro', 200, '1000'],
        ['free', 403, '100'],
      ] as const) {
        await sql`update merchants set tier = ${tier} where id = ${id}`;
        for (const server of servers) {
          const answer = await ask(server, `/merchant/apps/${appId}/transactions/export`, token);
          t.equal(answer.status, status);
          t.equal(answer.headers.get('ratelimit-limit'), limit);
          await answer.arrayBuffer();
        }
      }
    });

    await t.test(
      'concurrent requests to several processes with one Idempotency-Key have one effect and one response',
      async (t) => {
        const { token, id } = await newMerchant(sql, 'pro');
        for (let round = 0; round < 10; round += 1) {
          const headers = {
            'idempotency-key': `round ${round}`,
            'content-type': 'application/json',
          };
          const answers = await Promise.all(
            servers.map(async (server) => {
              const answer = await ask(server, '/merchant/apps', token, {
                method: 'POST',
                headers,
                body: JSON.stringify({ name: 'Once' }),
              });
              return `${answer.status} ${await answer.text()}`;
            }),
          );
          t.equal(new Set(answers).size, 1);
          t.match(answers[0], /^201 /);
        }
        t.equal(
          (await sql`select 1 from apps where merchant_id = ${id} and name = 'Once'`).length,
          10,
        );
      },
    );

    await t.test(
      'every log line of a request has its X-Request-Id, received or generated',
      async (t) => {
        const { token, appId } = await newMerchant(sql, 'free');
        const [server] = servers as [Server];
        const ids: string[] = [];
        for (const path of [
          '/healthz',
          '/nowhere',
          '/merchant/profile',
          '/subscriber/subscriptions',
          `/merchant/apps/${appId}/subscriptions`,
        ]) {
          const given = `given-${ids.length}`;
          ids.push(given, (await ask(server, path, token)).headers.get('x-request-id') ?? '');
          t.equal(
            (await ask(server, path, token, { headers: { 'x-request-id': given } })).headers.get(
              'x-request-id',
            ),
            given,
          );
        }
        // An outage of the chain has a line of its own besides.
        const headers = { 'x-request-id': 'our-fault', 'content-type': 'application/json' };
        const body = JSON.stringify({ name: 'Plan', amount: '1000000', periodHours: 1 });
        t.equal(
          (
            await ask(server, `/merchant/apps/${appId}/plans`, token, {
              method: 'POST',
              headers,
              body,
            })
          ).status,
          503,
        );
        ids.push('our-fault');
        server.running.child.kill('SIGTERM');
        const { stdout, code } = await server.running.ended;
        t.equal(code, 0);
        const lines = stdout.split('\n').map((line) => JSON.parse(line) as Record<string, unknown>);
        const of = (id: string) => lines.filter(({ requestId }) => requestId === id);
        for (const id of ids)
          t.match(
            of(id).at(-1),
            { msg: 'answered', route: String, status: Number, ms: Number },
            id,
          );
        t.match(of('our-fault'), [
          { level: 40, err: Object },
          { msg: 'answered', status: 503 },
        ]);
        const nameless = lines.filter(
          (line) =>
            line.requestId === undefined &&
            ('route' in line || 'req' in line || 'reqId' in line || 'err' in line),
        );
        t.same(nameless, []);
      },
    );
  },
);

if (patient)
  void t.test(
    'a client that never completes its request is disconnected after half a minute',
    async (t) => {
      const { servers } = await serving(t, 1);
      const { port } = new URL(servers[0]!.url);
      const began = performance.now();
      const drip = (text: string) =>
        new Promise<string>((resolve) => {
          const socket = connect(Number(port), '127.0.0.1');
          let answer = '';
          socket.setEncoding('utf8').on('data', (part: string) => (answer += part));
          socket.on('error', () => undefined);
          socket.write(text);
          // A byte now and then keeps no connection alive.
          const timer = setInterval(() => socket.write('x'), 1000);
          socket.once('close', () => {
            clearInterval(timer);
            resolve(answer);
          });
        });
      const slow = Promise.all([
        drip('GET /healthz HTTP/1.1\r\nhost: x\r\nx-header: '),
        drip(
          'POST /auth/nonce HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{',
        ),
      ]);
      t.equal((await fetch(`${servers[0]!.url}/healthz`)).status, 200);
      for (const answer of await slow) t.match(answer, /^HTTP\/1\.1 408 [\s\S]*"success":false/);
      const seconds = (performance.now() - began) / 1000;
      t.ok(seconds >= 29, `after ${seconds} s`);
    },
  );

void t.test(
  'pipelined requests for public files whose responses are not read use less than 200 MB',
  async (t) => {
    const { servers } = await serving(t, 1, { heapMb });
    const { url, running } = servers[0]!;
    const page = await (await fetch(`${url}/docs/`)).text();
    const loaded = new Set(
      [...page.matchAll(/<(?:link|script|img)[^>]*? (?:src|href)="([^"]+)"/g)].map(
        ([, file]) => `/docs/${file}`,
      ),
    );
    const documents = [
      '/s/019a2f6e-7c3a-7d5e-9b1f-3c8a5d2e4f60',
      '/checkout/019a2f6e-7c3a-7d5e-9b1f-3c8a5d2e4f60',
      '/account',
      '/dashboard',
    ];
    const assets = new Set<string>();
    for (const document of documents)
      for (const [, file = ''] of (await (await fetch(url + document)).text()).matchAll(
        /(?:src|href)="([^"]+)"/g,
      ))
        assets.add(file);
    t.equal(assets.size, 6, 'three scripts, the demo wallet, a style, an icon');
    const files = ['/openapi.json', '/docs', '/docs/', ...loaded, ...documents, ...assets];
    t.equal(files.length, 18);
    for (const file of files) {
      const socket = connect(Number(new URL(url).port), '127.0.0.1');
      socket.on('error', () => undefined);
      await once(socket, 'connect');
      socket.pause();
      socket.write(`GET ${file} HTTP/1.1\r\nhost: x\r\n\r\n`.repeat(pipelined));
      t.teardown(() => socket.destroy());
    }
    // Answered after all of them have been read.
    await (await fetch(`${url}/healthz`)).arrayBuffer();
    const peak = await peakMemory(running);
    t.comment(`${Math.round(peak)} MB at its peak`);
    t.ok(peak < 200, `${Math.round(peak)} MB at its peak`);
    const statuses: number[] = [];
    for (let n = 0; n <= 100; n += 1) {
      const answer = await fetch(`${url}/docs/start.js`);
      await answer.arrayBuffer();
      statuses.push(answer.status);
    }
    t.equal(statuses.at(-1), 200, 'no budget of the address closes them');
  },
);

void t.test(`the CSV of ${exportRows} rows needs less than 200 MB of memory`, async (t) => {
  const { sql, servers } = await serving(t, 1, { judged: false, heapMb });
  const { wallet, appId, token } = await newMerchant(sql, 'pro');
  const planId = await insertPlan(sql, { appId, wallet });
  const subscription = await insertSubscription(sql, { appId, planId });
  await sql`
    insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, period_start, period_end, amount_gross,
      platform_fee, amount_net, tx_signature, occurred_at)
    select ${appId}, ${planId}, ${subscription}, ${randomAddress()}, ${randomAddress()}, 'succeeded', at, at + interval '1 hour', 10000000, 100000, 9900000,
      md5(at::text) || md5(n::text) || 'aaaaaaaaaaaaaaaaaaaaaaaa', at
    from (select n, timestamptz '2020-01-01' + n * interval '1 minute' as at from generate_series(1, ${exportRows}::int) n) as made`;
  await sql`analyze payments`;
  const answer = await ask(servers[0]!, `/merchant/apps/${appId}/transactions/export`, token);
  t.equal(answer.status, 200);
  let lines = 0;
  for await (const part of answer.body!)
    lines += Buffer.from(part).filter((byte) => byte === 10).length;
  t.equal(lines, exportRows + 1);
  const peak = await peakMemory(servers[0]!.running);
  t.comment(`${Math.round(peak)} MB at its peak`);
  t.ok(peak < 200, `${Math.round(peak)} MB at its peak`);
});
