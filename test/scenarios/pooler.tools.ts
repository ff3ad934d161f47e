// All three daemons behind Debian's PgBouncer in transaction mode, and what is refused there.
import bs58 from 'bs58';
import t, { type Test } from 'tap';
import type { Keypair } from '../../src/chain/keypair.ts';
import { loadConfig } from '../../src/config/config.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { SESSION_SETTINGS } from '../../src/db/postgres/settings.ts';
import { startStage } from '../fixtures/billing.ts';
import { run } from '../fixtures/command.ts';
import { asDaemon, daemonEnv, daemons, stageEnv, startReady } from '../fixtures/daemons.ts';
import { startPgBouncer } from '../fixtures/pgbouncer.ts';
import { makeTestRoles, testDatabase } from '../fixtures/postgres.ts';
import { startReceiver } from '../fixtures/receiver.ts';

/** Connections of the three daemons of a machine, those for LISTEN included. */
const MAX_CONNECTIONS = 12;

/** The token of a merchant that signs in. */
async function signIn(address: string, keypair: Keypair): Promise<string> {
  const post = async (path: string, body: unknown) => {
    const response = await fetch(`${address}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return ((await response.json()) as { data: Record<string, string> }).data;
  };
  const wallet = keypair.address;
  const { nonce, message = '' } = await post('/auth/nonce', { wallet });
  const signature = bs58.encode(keypair.sign(Buffer.from(message)));
  return (await post('/auth/verify', { wallet, nonce, signature })).token ?? '';
}

interface Session {
  role: string;
  count: number;
  listening: number;
}

/** The daemons' sessions on the server. */
function sessions(sql: Sql): Promise<Session[]> {
  return sql<Session[]>`
    select usename as role, count(*)::int as count,
      (count(*) filter (where query ilike 'listen %'))::int as listening
    from pg_stat_activity where datname = current_database()
      and usename = any(array['postgres_serve', 'postgres_keeper', 'postgres_dispatch'])
    group by usename order by usename`;
}

void t.test('payments, webhooks, the event feed and reports work through a pooler', async (t) => {
  const stage = await startStage(t);
  await makeTestRoles(stage.sql);
  const pooler = await startPgBouncer(t, stage.databaseUrl);
  const receiver = await startReceiver(t);
  const env = {
    ...stageEnv(stage),
    DATABASE_URL: pooler.url,
    DATABASE_DIRECT_URL: stage.databaseUrl,
  };
  const running = [];
  for (const daemon of daemons) running.push(await startReady(t, daemon, env));
  const { address } = JSON.parse((await running[0]?.line(/"address":.*"listening"/)) ?? '') as {
    address: string;
  };
  const plan = await stage.plan();
  await stage.sql`update merchants set tier = 'pro'`;
  const token = await signIn(address, plan.merchant);
  const call = (method: string, path: string, body?: unknown) =>
    fetch(`${address}/merchant/apps/${plan.appId}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  t.equal((await call('POST', '/webhooks', { url: receiver.url })).status, 201);
  // The feed listens in serve.
  const { data } = (await (await call('GET', '/events/next')).json()) as {
    data: { cursor: string };
  };
  const waiting = call('GET', `/events/next?wait=15&after=${encodeURIComponent(data.cursor)}`);
  const subscriptions = await Promise.all(
    Array.from({ length: 20 }, async () => stage.subscriber(plan)),
  );
  await stage.until('every payment is in the books', async () => {
    const [row] = await stage.sql<{ count: number }[]>`
      select count(*)::int as count from payments where status = 'succeeded'`;
    return row?.count === subscriptions.length;
  });
  await receiver.got(subscriptions.length);
  const events = (await (await waiting).json()) as { data: { events: unknown[] } };
  t.ok(events.data.events.length > 0, 'the feed sees events');
  t.equal((await call('GET', '/analytics')).status, 200);
  const csv = await (await call('GET', '/transactions/export')).text();
  t.equal(csv.trim().split('\r\n').length, subscriptions.length + 1);
  t.match(await run(t, ['status', '--json'], env), { stdout: /"keeper"/ });
  // PgBouncer keeps its sessions for ten minutes. Postgres may still have one whose client is gone.
  let open = await sessions(stage.sql);
  const total = () => open.reduce((sum, { count }) => sum + count, 0);
  await stage.until(`at most ${MAX_CONNECTIONS} sessions`, async () => {
    open = await sessions(stage.sql);
    return total() <= MAX_CONNECTIONS;
  });
  console.log(`sessions of three daemons: ${total()}, ${JSON.stringify(open)}`);
  t.same(
    open.map(({ listening }) => listening),
    [1, 1, 1],
    'each listens on a connection of its own',
  );
  for (const { child, ended } of running) {
    child.kill('SIGTERM');
    t.match(await ended, { code: 0 });
  }
});

async function scene(t: Test, settings: Record<string, string> = {}) {
  const { sql, url } = await testDatabase(t);
  const pooler = await startPgBouncer(t, url, settings);
  return { sql, url, pooler, env: await daemonEnv(t, url) };
}

void t.test('a pooler in DATABASE_URL alone is refused with the next step', async (t) => {
  const dropped = [
    ...Object.keys(SESSION_SETTINGS),
    ...['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout'],
    ...['enable_seqscan', 'jit', 'billing.direct'],
  ].join();
  // The default refuses the settings of sessions, the other drops them.
  for (const settings of [{}, { ignore_startup_parameters: dropped }] as Record<string, string>[]) {
    const { pooler, env, sql } = await scene(t, settings);
    // Then no setting differs.
    await makeTestRoles(sql);
    for (const daemon of daemons) {
      const refused = await run(
        t,
        [daemon],
        asDaemon({ ...env, DATABASE_URL: pooler.url }, daemon),
      );
      t.equal(refused.code, 2, daemon);
      t.match(refused.stderr, /There is a pooler at .*Set DATABASE_DIRECT_URL/, daemon);
    }
  }
});

void t.test('a pooler in DATABASE_DIRECT_URL, or another database there, is refused', async (t) => {
  const { pooler, env, sql, url } = await scene(t);
  await makeTestRoles(sql);
  const other = await testDatabase(t);
  const pooled = { ...env, DATABASE_URL: pooler.url };
  for (const [direct, code, words] of [
    [pooler.url, 2, /There is a pooler at .*DATABASE_DIRECT_URL/],
    [other.url, 1, /DATABASE_URL and DATABASE_DIRECT_URL lead to different databases/],
  ] as const) {
    const given = { ...pooled, DATABASE_DIRECT_URL: direct };
    const refused = await run(t, ['dispatch'], asDaemon(given, 'dispatch'));
    t.equal(refused.code, code);
    t.match(refused.stderr, words);
  }
  t.throws(
    () => loadConfig('serve', { env: { DATABASE_DIRECT_URL: url } }),
    /DATABASE_URL is required beside DATABASE_DIRECT_URL/,
  );
});

void t.test('a pooler whose role lacks its settings is refused until they are set', async (t) => {
  const { pooler, env, url } = await scene(t);
  const given = { ...env, DATABASE_URL: pooler.url, DATABASE_DIRECT_URL: url };
  const refused = await run(t, ['keeper'], asDaemon(given, 'keeper'));
  t.equal(refused.code, 2);
  t.match(
    refused.stderr,
    /Postgres has \w+ = .*"billing migrate --roles".*alter role postgres_keeper in database \w+ set/,
  );
});
