// The split of one installation into two cells, with the statements of docs/operators.md: daemons
// of both sides run afterwards on copies of one database.
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import t, { type Test } from 'tap';
import { connect, type Sql } from '../../src/db/postgres/connect.ts';
import { secretBox } from '../../src/domain/accounts/secrets.ts';
import { generateWebhookSecret } from '../../src/domain/outbox/endpoints.ts';
import { HOUR, type Plan, type Stage, startStage, type Subscription } from '../fixtures/billing.ts';
import { startReady } from '../fixtures/daemons.ts';
import { startReceiver, type Receiver } from '../fixtures/receiver.ts';
import { encryptionKey } from '../fixtures/webhooks.ts';

const SUBSCRIBERS = 3;
const PERIOD_HOURS = 24;
const AMOUNT = 5_000_000n;

interface Merchant {
  plan: Plan;
  subscriptions: Subscription[];
  receiver: Receiver;
}

async function merchant(t: Test, stage: Stage): Promise<Merchant> {
  const plan = await stage.plan({ amount: AMOUNT, periodHours: PERIOD_HOURS });
  const receiver = await startReceiver(t);
  const [{ id }] = await stage.sql<[{ id: string }]>`
    insert into webhook_endpoints (app_id, url, secret) values (${plan.appId}, ${receiver.url}, '') returning id`;
  const secret = secretBox([encryptionKey]).seal(generateWebhookSecret(), id);
  await stage.sql`update webhook_endpoints set secret = ${secret} where id = ${id}`;
  const subscriptions: Subscription[] = [];
  for (let n = 0; n < SUBSCRIBERS; n += 1) subscriptions.push(await stage.subscriber(plan));
  return { plan, subscriptions, receiver };
}

/** A copy of the stage's database, as a promoted replica is. */
async function copyOf(t: Test, stage: Stage): Promise<{ url: string; sql: Sql }> {
  const url = new URL(stage.databaseUrl);
  const original = url.pathname.slice(1);
  const name = `billing_test_cell_${process.pid}_${randomBytes(4).toString('hex')}`;
  const admin = connect(new URL('/postgres', url).href, { max: 1, name: 'billing test' });
  t.teardown(async () => {
    await admin.unsafe(`drop database if exists ${name} with (force)`);
    await admin.end();
  });
  await stage.until('the database is copied', async () => {
    await admin`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${original}`;
    return admin.unsafe(`create database ${name} template ${original}`).then(
      () => true,
      () => false,
    );
  });
  url.pathname = `/${name}`;
  const sql = connect(url.href, { max: 4, name: 'billing test' });
  t.teardown(() => sql.end({ timeout: 1 }));
  return { url: url.href, sql };
}

async function splitStatements(): Promise<string> {
  const page = await readFile(new URL('../../docs/operators.md', import.meta.url), 'utf8');
  const [, block] = /^```sql\n([\s\S]*?)^```$/m.exec(page) ?? [];
  if (block === undefined) throw new Error('docs/operators.md has no sql block');
  return block;
}

/** As an operator does on one side; `elsewhere`: the merchant of the other side. */
async function leave(sql: Sql, { plan }: Merchant, statements: string): Promise<void> {
  await sql`create table elsewhere (wallet text primary key)`;
  await sql`insert into elsewhere (wallet) values (${plan.merchant.address})`;
  const connection = await sql.reserve();
  await connection.unsafe(statements).simple();
  connection.release();
}

const paid = async (sql: Sql, { plan }: Merchant) =>
  (
    await sql<{ count: number }[]>`
      select count(distinct (subscription_id, period_start))::int as count from payments
      where app_id = ${plan.appId} and status = 'succeeded'`
  )[0]?.count ?? 0;

const idle = async (sql: Sql) =>
  (
    await sql`select 1 from delivery_queue union all select 1 from subscriptions where claim_id is not null limit 1`
  ).length === 0;

void t.test(
  'an installation is split into two cells: both continue, no subscriber is charged twice or skipped',
  async (t) => {
    const stage = await startStage(t);
    const [staying, moving] = [await merchant(t, stage), await merchant(t, stage)];
    const keeper = await stage.startKeeper();
    for (const one of [staying, moving])
      await stage.until(
        'the first period is paid',
        async () => (await paid(stage.sql, one)) === SUBSCRIBERS,
      );
    await stage.quiet();
    await keeper.stop();

    // At the split deliveries wait, and of each merchant a payment is signed and committed but was
    // never sent.
    const unsent: Subscription[] = [];
    for (const one of [staying, moving]) unsent.push(await stage.subscriber(one.plan));
    const parts = stage.parts();
    await parts.collect();
    t.equal(parts.taken.length, 2);
    await stage.sql`update subscriptions set lease_until = now() where claim_id is not null`;

    const other = await copyOf(t, stage);
    const cells = [
      { url: stage.databaseUrl, sql: stage.sql, own: staying, foreign: moving },
      { ...other, own: moving, foreign: staying },
    ];
    const statements = await splitStatements();
    for (const { sql, foreign } of cells) await leave(sql, foreign, statements);
    const before = await Promise.all(cells.map(({ sql, foreign }) => paid(sql, foreign)));

    const { config, net: chain } = stage;
    for (const { url } of cells) {
      const env = {
        DATABASE_URL: url,
        SOLANA_RPC_URL: chain.rpcUrl,
        SOLANA_WS_URL: chain.wsUrl,
        SOLANA_CLUSTER: 'localnet',
        USDC_MINT: chain.mint,
        KEEPER_KEYPAIR: config.keeperKeypairs?.join() ?? '',
        COLLECTION_WINDOW_SECONDS: '0',
        PLATFORM_TREASURY: stage.treasury.address,
        PLATFORM_FEE_BPS: '100',
        ENCRYPTION_KEY: encryptionKey,
        METRICS_PORT: '0',
      };
      await startReady(t, 'keeper', env);
      await startReady(t, 'dispatch', env);
    }
    const all = SUBSCRIBERS + 1;
    for (const { sql, own } of cells)
      await stage.until(
        'the payment in flight is collected',
        async () => (await paid(sql, own)) === all,
      );
    chain.passSeconds(PERIOD_HOURS * HOUR);
    for (const { sql, own } of cells) {
      await stage.until('the next period is paid', async () => (await paid(sql, own)) === 2 * all);
      await stage.until('everything is delivered', () => idle(sql));
    }

    const collected = AMOUNT - AMOUNT / 100n;
    for (const [place, { sql, own, foreign }] of cells.entries()) {
      t.equal(await paid(sql, foreign), before[place], 'the other cell’s are left alone');
      t.same(await sql`select 1 from payments where status = 'failed' or further`, []);
      t.same(await sql`select 1 from payment_attempts where state = 'open'`, []);
      const received = await stage.balance(own.plan.merchant.address);
      t.equal(
        received - 1_000_000_000n,
        collected * BigInt(2 * all),
        'each period moved money once',
      );
      const events = await sql<{ id: string }[]>`
        select id from events where app_id = ${own.plan.appId} order by id`;
      const told = own.receiver.requests.map(
        ({ body }) => (JSON.parse(body.toString()) as { id: string }).id,
      );
      t.same(
        [...told].sort(),
        events.map(({ id }) => id),
        'each event was told once',
      );
    }
  },
);
