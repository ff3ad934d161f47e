// The invariants that the database enforces independent of the code.
import t from 'tap';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { insertInvoice } from '../fixtures/rows.ts';

const wallet = 'De1egAFMkMWZSN5rYXRj9CAdheBamobVNubTsi9avR44';

async function subscribed(sql: Sql) {
  const [row] = await sql<{ appId: string; planId: string; id: string }[]>`
    with merchant as (insert into merchants (wallet) values (${wallet}) returning id),
    app as (insert into apps (merchant_id, name) select id, 'app' from merchant returning id),
    plan as (
      insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours)
      select id, 'plan', 'pda', 1, ${wallet}, ${wallet}, ${wallet}, ${wallet}, 100, 24 from app returning id, app_id)
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours)
    select app_id, id, 'subscription pda', ${wallet}, 100, 24 from plan returning app_id, plan_id, id`;
  if (row === undefined) throw new Error('nothing was inserted');
  return row;
}

const start = new Date('2026-01-01T00:00:00Z');
const end = new Date('2026-01-02T00:00:00Z');

void t.test('the gross amount is fee plus net, in attempts and in payments', async (t) => {
  const { sql } = await testDatabase(t);
  const { id, appId, planId } = await subscribed(sql);
  await t.rejects(
    sql`insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, period_start, period_end, amount_gross,
      platform_fee, amount_net, tx_signature, occurred_at)
      values (${appId}, ${planId}, ${id}, 'p', ${wallet}, 'succeeded', ${start}, ${end}, 100, 1, 98, 's', ${start})`,
    /payment_adds_up/,
  );
  await t.rejects(
    sql`insert into payment_attempts (subscription_id, invoice_id, subscription_pda, transaction_id, period_start, claim_id, amount_gross, platform_fee, amount_net)
      values (${id}, gen_random_uuid(), 'subscription pda', gen_random_uuid(), ${start}, gen_random_uuid(), 100, 2, 99)`,
    /attempt_adds_up/,
  );
});

void t.test('a period is paid once, and a signature pays a subscription once', async (t) => {
  const { sql } = await testDatabase(t);
  const { id, appId, planId } = await subscribed(sql);
  const pay = (
    signature: string,
    from: Date,
    further?: 'foreign' | 'keeper',
    status = 'succeeded',
  ) => sql`
    insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, source, further, period_start, period_end, amount_gross,
      platform_fee, amount_net, tx_signature, failure_reason, occurred_at)
    values (${appId}, ${planId}, ${id}, 'p', ${wallet}, ${status}, ${further ?? 'keeper'}, ${further !== undefined}, ${from}, ${new Date(from.getTime() + 86_400_000)}, 100, 1, 99, ${signature},
      ${status === 'failed' ? 'insufficient_funds' : null}, ${from})`;
  await pay('one', start);
  await t.rejects(pay('two', start), /one_payment_per_period/);
  await t.rejects(pay('one', end), /one_payment_per_pull/);
  await t.resolves(pay('two', end));
  await t.resolves(pay('three', start, 'foreign'), 'but for what another puller pulls besides');
  await t.resolves(pay('four', start, 'keeper'), 'or a second payment of the keeper');
  await t.rejects(pay('five', start, 'keeper', 'failed'), /further_is_success/);
});

void t.test(
  'a subscription address has at most one open payment attempt, for any period',
  async (t) => {
    const { sql } = await testDatabase(t);
    const { id } = await subscribed(sql);
    const invoiceId = await insertInvoice(sql, id, { amount: 100n });
    const attempt = (signature: string, period = start) => sql`
    with signed as (
      insert into transactions (signature, bytes, last_valid_block_height) values (sha512(${signature}::text::bytea), '\\x00', 1) returning id
    )
    insert into payment_attempts (subscription_id, invoice_id, subscription_pda, transaction_id, period_start, claim_id, amount_gross, platform_fee, amount_net)
    select ${id}, ${invoiceId}, 'subscription pda', id, ${period}, gen_random_uuid(), 100, 1, 99 from signed`;
    await attempt('one');
    await t.rejects(attempt('two'), /one_open_attempt_per_address/);
    await t.rejects(attempt('two', end), /one_open_attempt_per_address/);
    await sql`update payment_attempts set state = 'expired', resolved_at = now()`;
    await t.resolves(attempt('two'));
  },
);

void t.test('an account has at most one live registration', async (t) => {
  const { sql } = await testDatabase(t);
  const { id, appId, planId } = await subscribed(sql);
  const again = () => sql`
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours)
    values (${appId}, ${planId}, 'subscription pda', ${wallet}, 100, 24)`;
  await t.rejects(again(), /one_live_registration_per_pda/);
  await sql`update subscriptions set status = 'cancelled', cancelled_at = now(), ended_at = now() where id = ${id}`;
  await t.resolves(again());
});

void t.test(
  'an app has one live webhook endpoint, and another only after it is deleted',
  async (t) => {
    const { sql } = await testDatabase(t);
    const { appId } = await subscribed(sql);
    const add = () =>
      sql`insert into webhook_endpoints (app_id, url, secret) values (${appId}, 'http://x', '\\x00')`;
    await add();
    await t.rejects(add(), /one_endpoint_per_app/);
    await sql`update webhook_endpoints set deleted_at = now()`;
    await t.resolves(add());
  },
);

void t.test(
  'the database refuses every write that would leave a gap or a repeat in a sequence of events',
  async (t) => {
    const { sql } = await testDatabase(t);
    const { id, appId } = await subscribed(sql);
    const bump = (tx: Sql, by = 1) =>
      tx`update subscriptions set event_sequence = event_sequence + ${by} where id = ${id}`;
    const insertEvent = (tx: Sql, sequence: number) => tx`
    insert into events (app_id, subscription_id, sequence, type, body, created_at) values (${appId}, ${id}, ${sequence}, 'payment_success', '{}', now())`;
    const inTransaction = (work: (tx: Sql) => Promise<unknown>) =>
      sql.begin((tx) => work(tx as unknown as Sql));

    await t.rejects(
      inTransaction((tx) => bump(tx)),
      /has no event/,
      'a counter that moved without its event',
    );
    await t.rejects(
      inTransaction((tx) => insertEvent(tx, 1)),
      /is not its counter/,
      'an event without the counter',
    );
    await t.rejects(
      inTransaction(async (tx) => {
        await bump(tx, 2);
        await insertEvent(tx, 2);
      }),
      /has no event/,
      'a skipped number',
    );
    await t.resolves(
      inTransaction(async (tx) => {
        await bump(tx);
        await insertEvent(tx, 1);
        await bump(tx);
        await insertEvent(tx, 2);
      }),
    );
    await t.rejects(
      inTransaction((tx) => insertEvent(tx, 2)),
      /is not its counter/,
      'a number that another transaction has taken',
    );
    await t.rejects(
      inTransaction(async (tx) => {
        await bump(tx);
        await insertEvent(tx, 3);
        await insertEvent(tx, 3);
      }),
      /sequence_is_unique/,
      'a number twice in the transaction that took it',
    );
  },
);

void t.test('generated ids sort by their creation time on the database’s clock', async (t) => {
  const { sql } = await testDatabase(t);
  const clock = async () => {
    const [now] = await sql<
      { ms: number }[]
    >`select floor(extract(epoch from now()) * 1000)::float8 as ms`;
    return now!.ms;
  };
  const before = await clock();
  const rows = await sql<
    { id: string }[]
  >`select uuid_v7() as id, pg_sleep(0.0001) from generate_series(1, 200)`;
  const ids = rows.map((row) => row.id);
  t.same(ids, [...ids].sort());
  for (const id of ids)
    t.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const made = Number.parseInt(ids.at(-1)?.replace('-', '').slice(0, 12) ?? '', 16);
  t.ok(made >= before && made <= (await clock()));
});
