// A rolling upgrade, seen from the old release: the next release has migrated the database. It is
// made here, one migration after this release's last.
import t from 'tap';
import { keypairFromSecret } from '../../src/chain/keypair.ts';
import { readRelease } from '../../src/config/release.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { listMigrations } from '../../src/db/postgres/migration-files.ts';
import { type ApiBuyer, apiBuyer } from '../fixtures/api-buyer.ts';
import { startStage } from '../fixtures/billing.ts';
import { run } from '../fixtures/command.ts';
import { asDaemon, daemons, stageEnv, startReady } from '../fixtures/daemons.ts';
import { publish, startChainServe, startServe } from '../fixtures/serve.ts';
import { until } from '../fixtures/webhooks.ts';

/** Adds a column to every table: the results of all statements that read `*` change. */
async function widen(sql: Sql): Promise<void> {
  const tables = await sql<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = 'public'::regnamespace
      and relkind in ('r', 'p') and not relispartition order by 1`;
  for (const { name } of tables)
    await sql`alter table ${sql(name)} add column if not exists of_next_release int`;
}

/** Applies a migration that only adds, as the next release does. */
async function expand(sql: Sql, minRelease: string | null): Promise<void> {
  const version = (await listMigrations()).length + 1;
  await widen(sql);
  await sql`
    insert into schema_migrations (version, name, checksum, min_release)
    values (${version}, 'next.sql', 'of the next release', ${minRelease})
    on conflict (version) do update set min_release = excluded.min_release`;
}

void t.test(
  "this release runs on the next release's schema if that schema allows this release",
  async (t) => {
    const stage = await startStage(t);
    const { sql } = stage;
    const env = stageEnv(stage);
    const plan = await stage.plan();
    const collects = async () => {
      const subscription = await stage.subscriber(plan);
      await stage.until(
        'it is paid',
        async () => (await stage.payments(subscription)).length === 1,
      );
    };
    const before = await Promise.all(daemons.map((daemon) => startReady(t, daemon, env)));
    await collects();
    await expand(sql, readRelease());
    await collects();
    // Restarted, as by systemd in the middle of the upgrade.
    for (const { child, ended } of before) {
      child.kill('SIGTERM');
      t.match(await ended, { code: 0 });
    }
    const after = await Promise.all(daemons.map((daemon) => startReady(t, daemon, env)));
    await collects();
    for (const running of after) await running.line('schema is that of a newer release');
    const migrated = await run(t, ['migrate'], env);
    t.match(migrated, { code: 0, stdout: /newer release/ }, 'it leaves the schema alone');

    await expand(sql, null);
    await collects();
    for (const daemon of daemons) {
      const refused = await run(t, [daemon], asDaemon(env, daemon));
      t.equal(refused.code, 1, `systemd starts ${daemon} again, until the next release is there`);
      t.match(refused.stderr, /newer than this build's \d+, on which release .* cannot run/);
    }
  },
);

void t.test('warm connections of serve continue when every table gets a column', async (t) => {
  const served = await startServe(t, { DATABASE_POOL: '3' });
  const { token, key, appId } = await served.merchant();
  // The tier `pro` has the rate limit that this test needs.
  await served.sql`update merchants set tier = 'pro'`;
  const app = `/merchant/apps/${appId}`;
  const { id } = await served.call<{ id: string }>('POST', `${app}/webhooks`, {
    token,
    body: { url: 'https://shop.test/hook', extraEvents: ['refund_recorded'] },
  });
  const requests: [string, string, unknown?][] = [
    // Arrays.
    ['PATCH', app, { returnOrigins: ['https://shop.test', 'https://other.test'] }],
    ['POST', '/merchant/apps', { name: 'Tea', returnOrigins: ['https://tea.test'] }],
    // Bytes: the hash of a key, sealed secrets and headers.
    ['POST', '/merchant/api-keys'],
    ['POST', `${app}/webhooks/${id}/rotate-secret`],
    ['PATCH', `${app}/webhooks/${id}`, { headers: { 'x-shop': 'one' }, maxPerSecond: 5 }],
    ['PATCH', '/merchant/profile', { name: 'Coffee', mails: true }],
    ['GET', '/merchant/profile'],
    ['GET', '/merchant/api-keys'],
    ['GET', '/merchant/apps'],
    ['GET', `${app}/attention`],
    ...[
      '',
      '/plans',
      '/subscriptions',
      '/subscriptions?status=active,past_due',
      '/unregistered',
      '/transactions',
      '/refunds',
      '/checkout-sessions',
      '/analytics',
      '/webhooks',
      `/webhooks/${id}`,
      `/webhooks/${id}/deliveries`,
      '/deliveries',
      '/events',
      '/search?q=coffee',
      `/access?wallet=${served.env.PLATFORM_TREASURY}`,
    ].map((path): [string, string] => ['GET', app + path]),
  ];
  const bearers: Record<string, string> = { '/merchant/api-keys': token };
  /** Each request often enough at once that all connections have prepared its statements. */
  const ask = async () => {
    for (const [method, path, body] of requests) {
      const options = { token: bearers[path] ?? key, ...(body !== undefined && { body }) };
      await Promise.all(Array.from({ length: 6 }, () => served.call(method, path, options)));
    }
  };
  await ask();
  await ask();
  await widen(served.sql);
  await ask();
  const { returnOrigins } = await served.call<{ returnOrigins: string[] }>('GET', app, { token });
  t.same(returnOrigins, ['https://shop.test', 'https://other.test']);
  const endpoint = await served.call<object>('GET', `${app}/webhooks/${id}`, { token });
  t.match(endpoint, { extraEvents: ['refund_recorded'], maxPerSecond: 5 });
  await served.judge();
});

void t.test(
  'warm connections that write payments and register a wallet survive a new column in every table',
  async (t) => {
    const { chain, served } = await startChainServe(t, { DATABASE_POOL: '3' });
    const seller = chain.wallet();
    const merchant = await served.merchant(keypairFromSecret(seller.keypair.secretKey));
    const { key, appId } = merchant;
    await served.sql`update merchants set tier = 'pro'`;
    const app = `/merchant/apps/${appId}`;
    const [plan, other] = [
      await publish(served, merchant, seller, {}),
      await publish(served, merchant, seller, { amount: '20000000' }),
    ];
    const { id: webhook } = await served.call<{ id: string }>('POST', `${app}/webhooks`, {
      token: key,
      body: { url: 'https://127.0.0.1:9/hook' },
    });
    const newBuyer = () => apiBuyer({ chain, served }, 100_000_000n);
    const buyer = await newBuyer();
    const subscribe = async (one: ApiBuyer) => {
      const path = `${app}/checkout-sessions`;
      const options = { token: key, body: { planId: plan.id } };
      return one.sign(plan.id, (await served.call<{ id: string }>('POST', path, options)).id);
    };
    const id = await subscribe(buyer);
    // Each round ends one by force.
    const [first, second] = [await subscribe(await newBuyer()), await subscribe(await newBuyer())];
    served.daemon('keeper');
    let payments: { id: string; subscriptionId: string }[] = [];
    await until(async () => {
      payments = await served.call('GET', `${app}/transactions`, { token: key });
      return payments.length === 3;
    });
    const paymentOf = (subscription: string) =>
      payments.find(({ subscriptionId }) => subscriptionId === subscription)!.id;
    const [event] = await served.sql<{ id: string }[]>`select id from events limit 1`;
    const own = `${app}/subscriptions/${id}`;
    const writesWith = (forced: string): [string, string, unknown?][] => [
      ['POST', `${app}/transactions/${paymentOf(forced)}/refunds`],
      ['POST', `${app}/checkout-sessions`, { planId: plan.id, metadata: { a: 'b' } }],
      ['POST', `${app}/plans`, { name: 'Draft', amount: '5000000', periodHours: 24 }],
      ['PATCH', `${app}/plans/${plan.id}`, { name: 'Club' }],
      ['PATCH', own, { metadata: { a: 'b' } }],
      ['POST', `${own}/pause`],
      ['POST', `${own}/unpause`],
      ['POST', `${app}/subscriptions/${forced}/cancel`, { mode: 'force' }],
      ['POST', `${app}/subscriptions/${forced}/reinstate`],
      ['POST', `${app}/events/sample`, { type: 'payment_success' }],
      ['POST', `${app}/events/${event!.id}/replay`],
      ['POST', `${app}/replays`, { since: '2020-01-01T00:00:00.000Z' }],
      ['POST', `${app}/webhooks/${webhook}/test`],
      ['DELETE', `${app}/logo`],
      ['POST', '/auth/nonce', { wallet: buyer.address, role: 'subscriber' }],
    ];
    const reads = [
      own,
      `${own}/timeline`,
      `${own}/change?planId=${other.id}&when=now`,
      `${app}/transactions/${paymentOf(id)}`,
      `${app}/transactions/${paymentOf(id)}/refunds`,
      `${app}/events/${event!.id}`,
      `${app}/customer?wallet=${buyer.address}`,
      `${app}/statements/2026-01`,
      '/merchant/subscriptions',
      '/merchant/transactions',
      '/merchant/events',
    ].map((path): [string, string] => ['GET', path]);
    const mine = `/subscriber/subscriptions/${id}`;
    const walletWrites: [string, string, unknown?][] = [
      ['POST', `/subscriber/plans/${other.id}/subscribe`],
      ['POST', `${mine}/cancel`],
      ['POST', `${mine}/change`, { planId: other.id, when: 'period_end' }],
      ['POST', '/subscriber/approval/revoke'],
    ];
    const walletReads = [
      `/subscriber/plans/${other.id}`,
      `/subscriber/plans/${other.id}/standing`,
      '/subscriber/subscriptions',
      mine,
      `${mine}/change?planId=${other.id}&when=now`,
      `${mine}/plan`,
      `${mine}/plans`,
      `${mine}/transactions`,
    ].map((path): [string, string] => ['GET', path]);

    const ask = async (times: number, token: string, requests: [string, string, unknown?][]) => {
      for (const [method, path, body] of requests) {
        const one = async () => {
          const response = await fetch(`${served.url}${path}`, {
            method,
            headers: {
              authorization: `Bearer ${token}`,
              ...(body !== undefined && { 'content-type': 'application/json' }),
            },
            ...(body !== undefined && { body: JSON.stringify(body) }),
          });
          return { status: response.status, text: await response.text() };
        };
        const answers = await Promise.all(Array.from({ length: times }, one));
        const [failed] = answers.filter(({ status }) => status >= 500);
        t.equal(failed, undefined, `${method} ${path}`);
        // All simultaneous writes except one may conflict.
        t.ok(
          answers.some(({ status }) => status < 300),
          `${method} ${path}: ${answers[0]?.text ?? ''}`,
        );
      }
    };
    const round = async (forced: string) => {
      await ask(6, key, [...writesWith(forced), ...reads]);
      await ask(3, buyer.token, [...walletWrites, ...walletReads]);
    };
    await round(first);
    await widen(served.sql);
    await round(second);
  },
);
