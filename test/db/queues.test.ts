// Queues that strangers can enter: what was put off is skipped, merchants take turns, and the age
// of the oldest row that is due is measured.
import { randomUUID } from 'node:crypto';
import t from 'tap';
import { readOldestMail, takeMails } from '../../src/db/delivering/mails.ts';
import { lockRequestedRun, updateRun } from '../../src/db/delivering/replays.ts';
import { readOldestRefund, takeAwaitedRefunds } from '../../src/db/money/refunds.ts';
import { readOldestOffer } from '../../src/db/offers/signed-offers.ts';
import { claimRentOut, readOldestRentCheck } from '../../src/db/offers/sponsor-rent.ts';
import { claimSponsorships, readOldestSponsorship } from '../../src/db/offers/sponsorships.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { newId } from '../../src/db/postgres/ids.ts';
import {
  putOffPlans,
  readOldestPlan,
  takeUnwatchedPlans,
  type WatchTimes,
} from '../../src/db/subscriptions/plan-watch.ts';
import { readOldestAwaited, takeAwaited } from '../../src/db/subscriptions/unregistered.ts';
import { randomAddress } from '../fixtures/http.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { insertMerchant, insertPayment, insertPlan, insertSubscription } from '../fixtures/rows.ts';

const times: WatchTimes = { everySeconds: 3600, blockedSeconds: 300, pendingAgeSeconds: 10 };
/** Rows of the stranger, and the rows that one look takes. */
const [MANY, LIMIT] = [30, 10];

async function twoMerchants(sql: Sql) {
  return { stranger: await insertMerchant(sql), honest: await insertMerchant(sql) };
}

void t.test(
  'pending plans are read in turns of merchants and leave half the batch to published plans',
  async (t) => {
    const { sql } = await testDatabase(t, { max: 2 });
    const { stranger, honest } = await twoMerchants(sql);
    const pending = (of: typeof honest) =>
      insertPlan(sql, of, { status: 'pending', chainCreatedAt: null });
    for (let count = 0; count < MANY; count += 1) await pending(stranger);
    const own = await pending(honest);
    const published = await insertPlan(sql, honest);
    const taken = await takeUnwatchedPlans(sql, { ...times, limit: LIMIT });
    t.equal(taken.length, LIMIT / 2 + 1);
    const ids = taken.map(({ id }) => id);
    t.ok(ids.includes(own), 'the honest merchant’s is among the first');
    t.ok(ids.includes(published));
  },
);

void t.test('plans that were postponed are skipped and become due again', async (t) => {
  const { sql } = await testDatabase(t, { max: 2 });
  const { stranger, honest } = await twoMerchants(sql);
  for (let count = 0; count < LIMIT; count += 1) await insertPlan(sql, stranger);
  const own = await insertPlan(sql, honest);
  const take = async () =>
    (await takeUnwatchedPlans(sql, { ...times, limit: LIMIT })).map(({ id }) => id);
  const first = await take();
  t.equal(first.length, LIMIT);
  await putOffPlans(sql, first);
  t.same(await take(), [own]);
  t.same(await take(), []);
  t.equal(await readOldestPlan(sql, times), 0);
  await sql`update plans set look_at = now() - interval '1 minute' where look_at is not null`;
  t.ok((await readOldestPlan(sql, times)) >= 60);
  t.same((await take()).sort(), first.sort());
});

void t.test('refunds are processed in turns of merchants', async (t) => {
  const { sql } = await testDatabase(t, { max: 2 });
  const { stranger, honest } = await twoMerchants(sql);
  const refunds = async (of: typeof honest, count: number) => {
    const planId = await insertPlan(sql, of);
    const id = await insertSubscription(sql, { appId: of.appId, planId });
    const payment = await insertPayment(sql, id, '2026-01-01T00:00:00Z');
    await sql`
      insert into refunds (app_id, payment_id, subscription_id, amount, reference)
      select ${of.appId}, ${payment}, ${id}, 1, ${id} || n from generate_series(1, ${count}) as n`;
    return id;
  };
  await refunds(stranger, MANY);
  const own = await refunds(honest, 2);
  await sql`update refunds set look_at = now() - interval '1 minute' + (case
    when subscription_id = ${own} then 1 else 0 end) * interval '10 seconds'`;
  t.ok((await readOldestRefund(sql)) >= 60);
  const taken = await takeAwaitedRefunds(sql, LIMIT);
  t.equal(taken.length, LIMIT);
  t.equal(taken.filter(({ reference }) => reference.startsWith(own)).length, 2);
  while ((await takeAwaitedRefunds(sql, LIMIT)).length > 0);
  t.equal(await readOldestRefund(sql), 0, 'none is due');
});

void t.test('rent is checked for each merchant in turn', async (t) => {
  const { sql } = await testDatabase(t, { max: 2 });
  const { stranger, honest } = await twoMerchants(sql);
  const out = async ({ id }: typeof honest, count: number, days: number) => {
    for (let index = 0; index < count; index += 1) {
      const [transaction] = await sql<{ id: string }[]>`
        insert into transactions (signature, last_valid_block_height, state)
        values (sha512(${randomAddress()}::bytea), 1, 'landed') returning id`;
      await sql`
        insert into sponsorships (offer_id, purpose, wallet, address, sponsor, merchant_id, state,
          transaction_id, authority_rent, ended_at, checked_at)
        values (${await newId(sql)}, 'subscribe', ${id}, '', 'sponsor', ${id}, 'landed',
          ${transaction!.id}, 1, now(), now() - ${days} * interval '1 day')`;
    }
  };
  await out(stranger, MANY, 3);
  await out(honest, 1, 2);
  t.ok((await readOldestRentCheck(sql)) >= 2 * 86_400);
  const taken = await claimRentOut(sql, LIMIT);
  t.equal(taken.length, LIMIT);
  t.ok(taken.some(({ wallet }) => wallet === honest.id));
  while ((await claimRentOut(sql, LIMIT)).length > 0);
  t.equal(await readOldestRentCheck(sql), 0);
});

/** Stores `count` subscribe offers for a plan of `of`. Their addresses begin with its id. */
async function insertOffers(
  sql: Sql,
  of: { id: string; wallet: string; appId: string },
  count: number,
) {
  const planId = await insertPlan(sql, of);
  for (let index = 0; index < count; index += 1)
    await sql`
      insert into offers (wallet, blockhash, message, last_valid_block_height,
        purpose, plan_id, subscription_pda)
      values (${randomAddress()}, 'hash', '\\x00', 1, 'subscribe', ${planId}, ${`${of.id}${index}`})`;
}

void t.test('unregistered subscriptions are processed in turns of merchants', async (t) => {
  const { sql } = await testDatabase(t, { max: 2 });
  const { stranger, honest } = await twoMerchants(sql);
  await insertOffers(sql, honest, 3);
  await insertOffers(sql, stranger, MANY);
  const found = await takeAwaited(sql, { limit: LIMIT, again: false });
  t.equal(found.length, LIMIT);
  t.equal(found.filter((pda) => pda.startsWith(honest.id)).length, 3, 'of another merchant');
});

void t.test(
  'unregistered subscriptions that were just checked are skipped and become due again',
  async (t) => {
    const { sql } = await testDatabase(t, { max: 2 });
    const { honest } = await twoMerchants(sql);
    await insertOffers(sql, honest, 1);
    await sql`update offers set created_at = now() - interval '1 hour'`;
    // The same merchant's, which strangers asked for later.
    await insertOffers(sql, { ...honest, id: 'stranger' }, MANY);
    await sql`
    insert into unregistered_subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet)
    select ${honest.appId}, id, 'listed', 'wallet' from plans limit 1`;
    t.ok((await readOldestAwaited(sql)) >= 3600);
    const take = (again = false) => takeAwaited(sql, { limit: LIMIT, again });
    const seen = new Set<string>();
    for (let looks = 0; looks <= MANY / LIMIT; looks += 1)
      for (const pda of await take()) {
        t.notOk(seen.has(pda), 'once');
        seen.add(pda);
      }
    t.equal(seen.size, MANY + 2, 'all of them, the oldest too');
    t.same(await take(), []);
    t.equal(await readOldestAwaited(sql), 0);
    t.equal((await take(true)).length, LIMIT + 1, 'after a gap they are read again');
    await sql`update unregistered_subscriptions set look_at = now() - interval '1 minute'`;
    t.ok((await readOldestAwaited(sql)) >= 60);
    t.same(await take(), ['listed']);
  },
);

void t.test(
  'e-mails are sent in turns of merchants, and confirmations fill half a batch',
  async (t) => {
    const { sql } = await testDatabase(t, { max: 2 });
    const { stranger, honest } = await twoMerchants(sql);
    const other = await insertMerchant(sql);
    const queue = (merchant: string, kind: string, age: string, count = 1) => sql`
    insert into mails (merchant_id, kind, about, data, open, due_at, mailbox, token)
    select ${merchant}, ${kind}, gen_random_uuid(), '{}', true, now() - ${age}::interval,
      case when ${kind} = 'confirm_address' then sha256(${merchant}::bytea) end,
      case when ${kind} = 'confirm_address' then gen_random_uuid() end
    from generate_series(1, ${count})`;
    const takeKinds = async () => {
      const mails = await takeMails(sql, LIMIT);
      return (wanted: string) => mails.filter(({ kind }) => kind === wanted).length;
    };
    for (let count = 0; count < MANY; count += 1)
      await queue((await insertMerchant(sql)).id, 'confirm_address', '3 minutes');
    await queue(stranger.id, 'endpoint_failing', '2 minutes', MANY);
    await queue(honest.id, 'plan_blocked', '1 minute');
    await queue(other.id, 'endpoint_disabled', '1 minute');
    t.ok((await readOldestMail(sql)) >= 180);
    const first = await takeKinds();
    t.equal(first('confirm_address'), LIMIT / 2);
    t.equal(first('plan_blocked'), 1);
    t.equal(first('endpoint_disabled'), 1);
    await sql`delete from mails where kind = 'endpoint_failing'`;
    t.equal((await takeKinds())('confirm_address'), LIMIT, 'the rest of a batch too');
    while ((await takeMails(sql, LIMIT)).length > 0);
    t.equal(await readOldestMail(sql), 0, 'none is due');
  },
);

void t.test(
  'open sponsored transactions are processed in turns of networks and merchants',
  async (t) => {
    const { sql } = await testDatabase(t, { max: 2 });
    const { stranger, honest } = await twoMerchants(sql);
    const other = await insertMerchant(sql);
    const open = async ({ id }: typeof honest, address: string, wallet: string) => {
      const [transaction] = await sql<{ id: string }[]>`
      insert into transactions (signature, bytes, last_valid_block_height, blockhash_slot)
      values (sha512(${randomAddress()}::bytea), '\\x00', 1, 1) returning id`;
      await sql`
      insert into sponsorships (offer_id, purpose, wallet, address, sponsor, merchant_id, state,
        transaction_id, created_at)
      values (${await newId(sql)}, 'close', ${wallet}, ${address}, 'sponsor', ${id}, 'open',
        ${transaction!.id}, now() - interval '1 minute')`;
    };
    for (let count = 0; count < MANY; count += 1) {
      await open(stranger, `address:10.0.0.${count}`, 'one merchant, many addresses');
      const merchant = await insertMerchant(sql);
      await open(merchant, `address:2001:db8:1:${count}00`, 'many merchants, one address');
    }
    await open(honest, 'address:10.1.0.1', 'honest');
    await open(other, 'address:10.1.0.2', 'honest');
    t.ok((await readOldestSponsorship(sql)) >= 60);
    const claim = () => claimSponsorships(sql, { claimId: randomUUID(), limit: LIMIT });
    const claimed = await claim();
    t.equal(claimed.length, LIMIT);
    t.equal(claimed.filter(({ wallet }) => wallet === 'honest').length, 2);
    while ((await claim()).length > 0);
    t.equal(await readOldestSponsorship(sql), 0, 'all have a lease');
  },
);

void t.test('replay runs of merchants are processed in turns', async (t) => {
  const { sql } = await testDatabase(t, { max: 2 });
  const { stranger, honest } = await twoMerchants(sql);
  for (const { appId } of [stranger, honest])
    await sql`
      insert into replays (app_id, selection, until, finished_before, total)
      values (${appId}, ${appId}, now(), 0, 1)`;
  const step = () =>
    sql.begin(async (tx) => {
      const run = await lockRequestedRun(tx);
      const to = { stage: 'deliveries', cursor: null, queued: 1, finished: false };
      if (run !== undefined) await updateRun(tx, run.id, to);
      return run?.appId;
    });
  t.same(
    [await step(), await step(), await step()],
    [stranger, honest, stranger].map(({ appId }) => appId),
  );
});

void t.test('an offer that a keeper has claimed or postponed does not count as late', async (t) => {
  const { sql } = await testDatabase(t, { max: 2 });
  const { honest } = await twoMerchants(sql);
  const planId = await insertPlan(sql, honest);
  t.equal(await readOldestOffer(sql), 0);
  await sql`
    insert into offers (purpose, wallet, sponsor, plan_id, subscription_pda, address,
      message, blockhash, last_valid_block_height, blockhash_slot, compute_units, unit_price,
      loaded_data_bytes, signed, signed_at)
    values ('subscribe', 'wallet', 'sponsor', ${planId}, 'pda', 'address:10.0.0.1', '\\x00', 'hash',
      1, 1, 1, 0, 1, '\\x00', now() - interval '90 seconds')`;
  t.ok((await readOldestOffer(sql)) >= 90);
  await sql`update offers set look_at = now() + interval '1 second'`;
  t.equal(await readOldestOffer(sql), 0);
});
