// Queues that strangers can enter: what was put off is skipped, merchants take turns, and the age
// of the oldest row that is due is measured.
import t from 'tap';
import {
  putOffPlans,
  readOldestPlan,
  takeUnwatchedPlans,
  type WatchTimes,
} from '../../src/db/plan-watch.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { newId } from '../../src/db/postgres/ids.ts';
import { readOldestRefund, takeAwaitedRefunds } from '../../src/db/refunds.ts';
import { claimRentOut, readOldestRentCheck } from '../../src/db/sponsor-rent.ts';
import { readOldestOffer } from '../../src/db/sponsored-offers.ts';
import { readAwaited } from '../../src/db/unregistered.ts';
import { randomAddress } from '../fixtures/http.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { insertMerchant, insertPayment, insertPlan, insertSubscription } from '../fixtures/rows.ts';

const times: WatchTimes = { everySeconds: 3600, blockedSeconds: 300, pendingAgeSeconds: 10 };
/** Rows of the stranger, and the rows that one look takes. */
const [MANY, LIMIT] = [30, 10];

async function twoMerchants(sql: Sql) {
  return { stranger: await insertMerchant(sql), honest: await insertMerchant(sql) };
}

void t.test('pending plans: merchants take turns, and leave half to published ones', async (t) => {
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
});

void t.test('plans that were put off are skipped, and due again', async (t) => {
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

void t.test('refunds: merchants take turns', async (t) => {
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

void t.test('rent: merchants take turns', async (t) => {
  const { sql } = await testDatabase(t, { max: 2 });
  const { stranger, honest } = await twoMerchants(sql);
  const out = async ({ id }: typeof honest, count: number, days: number) => {
    for (let place = 0; place < count; place += 1) {
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

void t.test('awaited subscriptions: merchants take turns', async (t) => {
  const { sql } = await testDatabase(t, { max: 2 });
  const { stranger, honest } = await twoMerchants(sql);
  const offers = async (of: typeof honest, count: number) => {
    const planId = await insertPlan(sql, of);
    for (let place = 0; place < count; place += 1)
      await sql`
        insert into offered_transactions (wallet, blockhash, message, last_valid_block_height,
          purpose, plan_id, subscription_pda)
        values (${randomAddress()}, 'hash', '\\x00', 1, 'subscribe', ${planId}, ${`${planId}${place}`})`;
    return planId;
  };
  const own = await offers(honest, 3);
  await offers(stranger, MANY);
  const found = await readAwaited(sql, LIMIT);
  t.equal(found.length, LIMIT);
  t.equal(found.filter((pda) => pda.startsWith(own)).length, 3, 'older ones of another merchant');
});

void t.test('an offer that is taken or put off does not count as late', async (t) => {
  const { sql } = await testDatabase(t, { max: 2 });
  const { honest } = await twoMerchants(sql);
  const planId = await insertPlan(sql, honest);
  t.equal(await readOldestOffer(sql), 0);
  await sql`
    insert into sponsored_offers (purpose, wallet, sponsor, plan_id, subscription_pda, address,
      message, blockhash, last_valid_block_height, blockhash_slot, compute_units, unit_price,
      loaded_data_bytes, signed, signed_at)
    values ('subscribe', 'wallet', 'sponsor', ${planId}, 'pda', 'address:10.0.0.1', '\\x00', 'hash',
      1, 1, 1, 0, 1, '\\x00', now() - interval '90 seconds')`;
  t.ok((await readOldestOffer(sql)) >= 90);
  await sql`update sponsored_offers set look_at = now() + interval '1 second'`;
  t.equal(await readOldestOffer(sql), 0);
});
