// What each kind of row means in the journal: its entries, with the accounts and their amounts.
import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import type { Sql } from '../../../src/db/postgres/connect.ts';
import { journalBreaches } from '../../fixtures/journal-breaches.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import {
  grantCredit,
  insertInvoice,
  insertMerchant,
  insertPayment,
  insertPlan,
  insertSubscription,
} from '../../fixtures/rows.ts';

const START = '2027-01-01T00:00:00.000Z';

async function scene(t: Test) {
  const { sql } = await testDatabase(t);
  const merchant = await insertMerchant(sql);
  const planId = await insertPlan(sql, merchant);
  const of = { appId: merchant.appId, planId };
  const subscriptionId = await insertSubscription(sql, of);
  const [{ customerId }] = await sql<[{ customerId: string }]>`
    select customer_id from subscriptions where id = ${subscriptionId}`;
  const close = (id: string, fields: Record<string, unknown>) => {
    const at = new Date(START);
    const unpaid = fields.state === 'paid' ? {} : { unpaidAt: at, troubledAt: at };
    return sql`
      update invoices set ${sql({ closedAt: at, ...unpaid, ...fields })} where id = ${id}`;
  };
  return { sql, subscriptionId, customerId, close, entries: () => entriesOf(sql, t) };
}

/** The entries by kind, in the order of the accounts. Each adds up, and the balances agree. */
async function entriesOf(sql: Sql, t: Test) {
  t.same(await journalBreaches(sql, () => null), []);
  const rows = await sql<{ kind: string; entryId: string; account: string; amount: bigint }[]>`
    select kind, entry_id, account, amount from journal order by account`;
  const entries: Record<string, Record<string, bigint>[]> = {};
  for (const id of new Set(rows.map(({ entryId }) => entryId))) {
    const postings = rows.filter(({ entryId }) => entryId === id);
    const accounts = Object.fromEntries(postings.map(({ account, amount }) => [account, amount]));
    (entries[postings[0]!.kind] ??= []).push(accounts);
  }
  return entries;
}

/** An open invoice with lines of several kinds, of which credit pays a part. */
async function mixedInvoice(sql: Sql, subscriptionId: string): Promise<string> {
  const lines = Object.entries({
    ...{ plan: 1000n, usage: 300n, item: 70n, discount: -200n, adjustment: -50n, tax: 80n },
  }).map(([kind, amount]) => ({ kind, amount: amount.toString() }));
  const [{ id }] = await sql<[{ id: string }]>`
    insert into invoices (app_id, customer_id, subscription_id, subscription_pda, period_start,
      period_end, covers_from, covers_to, lines, plan_amount, usage_amount, items_amount,
      discount_amount, adjustment_amount, tax_amount, total, credit_applied, amount_due, due_at,
      drawn_up_at)
    select app_id, customer_id, id, subscription_pda, ${START}, '2027-02-01', ${START},
      '2027-02-01', ${sql.json(lines)}, 1000, 300, 70, -200, -50, 80, 1200, 500, 700, ${START},
      ${START}
    from subscriptions where id = ${subscriptionId} returning id`;
  await sql`
    insert into credits (customer_id, amount, reason, invoice_id, subscription_id)
    select customer_id, -500, 'spent', id, subscription_id from invoices where id = ${id}`;
  return id;
}

/** Pays the invoice `id`. */
const pay = (sql: Sql, id: string, amounts: Record<string, number>) =>
  sql`
    with given as (
      select * from jsonb_to_record(${sql.json(amounts)}) as g (amount_gross int8, platform_fee int8,
        amount_net int8, fee_owed int8)
    )
    insert into payments (app_id, plan_id, subscription_id, invoice_id, subscription_pda,
      subscriber_wallet, status, period_start, period_end, amount_gross, platform_fee,
      amount_net, fee_owed, tx_signature, occurred_at)
    select i.app_id, s.plan_id, s.id, i.id, i.subscription_pda, s.subscriber_wallet, 'succeeded',
      i.period_start, i.period_end, g.amount_gross, g.platform_fee,
      g.amount_net, coalesce(g.fee_owed, 0), 'signature',
      i.closed_at
    from given g, invoices i join subscriptions s on s.id = i.subscription_id where i.id = ${id}`;

const drawnUp = [{ receivable: 1200n, revenue: -1170n, adjustments: 50n, tax: -80n }];
const spent = [{ customer_credit: 500n, receivable: -500n }];
const reversed = [{ customer_credit: -500n, receivable: 500n }];
const granted = [{ customer_credit: -500n, credits_granted: 500n }];

void t.test('an invoice that credit and a pull pay, with a fee and one that is owed', async (t) => {
  const { sql, subscriptionId, close, entries } = await scene(t);
  await grantCredit(sql, subscriptionId, 500n);
  const id = await mixedInvoice(sql, subscriptionId);
  t.same(await entries(), { granted, drawn_up: drawnUp, spent });
  await close(id, { state: 'paid' });
  await pay(sql, id, { amount_gross: 700, platform_fee: 7, amount_net: 693, fee_owed: 3 });
  t.same(await entries(), {
    ...{ granted, drawn_up: drawnUp, spent },
    paid: [{ receivable: -700n, usdc: 693n, platform_fee: 10n, platform_fee_owed: -3n }],
  });
});

void t.test('a void invoice takes everything back, an uncollectible one is bad debt', async (t) => {
  for (const voidReason of ['forgiven', 'replaced', 'ended']) {
    const { sql, subscriptionId, close, entries } = await scene(t);
    await grantCredit(sql, subscriptionId, 500n);
    await close(await mixedInvoice(sql, subscriptionId), { state: 'void', voidReason });
    t.same(await entries(), {
      ...{ granted, drawn_up: drawnUp, spent, reversed },
      [voidReason]: [{ receivable: -1200n, revenue: 1170n, adjustments: -50n, tax: 80n }],
    });
  }
  const { sql, subscriptionId, close, entries } = await scene(t);
  await grantCredit(sql, subscriptionId, 500n);
  await close(await mixedInvoice(sql, subscriptionId), { state: 'uncollectible' });
  t.same(await entries(), {
    ...{ granted, drawn_up: drawnUp, spent, reversed },
    uncollectible: [{ receivable: -1200n, revenue: 370n, bad_debt: 750n, tax: 80n }],
  });
});

void t.test('an uncollectible invoice whose pull is found is collectible after all', async (t) => {
  const { sql, subscriptionId, close, entries } = await scene(t);
  await grantCredit(sql, subscriptionId, 500n);
  const id = await mixedInvoice(sql, subscriptionId);
  await sql`
    with sent as (
      insert into transactions (signature, state, last_valid_block_height)
      values (sha512('a'), 'expired', 1) returning id
    )
    insert into payment_attempts (subscription_id, invoice_id, subscription_pda, transaction_id,
      claim_id, period_start, amount_gross, platform_fee, amount_net, state, resolved_at)
    select subscription_id, i.id, subscription_pda, sent.id, uuid_v7(), period_start, amount_due, 0,
      amount_due, 'unexplained', now()
    from invoices i, sent where i.id = ${id}`;
  await close(id, { state: 'uncollectible' });
  const uncollectible = [{ receivable: -1200n, revenue: 370n, bad_debt: 750n, tax: 80n }];
  const before = { granted, drawn_up: drawnUp, spent, uncollectible };
  t.same(await entries(), before, 'its credit stays spent');
  await close(id, { state: 'paid' });
  await pay(sql, id, { amount_gross: 700, platform_fee: 0, amount_net: 700 });
  t.same(await entries(), {
    ...before,
    collectible: [{ receivable: 1200n, revenue: -370n, bad_debt: -750n, tax: -80n }],
    paid: [{ receivable: -700n, usdc: 700n }],
  });
});

void t.test('what credit pays whole, and what costs nothing, move no money', async (t) => {
  const { sql, subscriptionId, customerId, entries } = await scene(t);
  const draw = async (kind: string, adjustment: bigint) => {
    const lines = [
      { kind: 'plan', amount: '9' },
      { kind: 'adjustment', amount: adjustment.toString() },
    ];
    const total = 9n + adjustment;
    const [{ id }] = await sql<[{ id: string }]>`
      insert into invoices (app_id, customer_id, subscription_id, subscription_pda, reason,
        period_start, period_end, lines, plan_amount, adjustment_amount, total, credit_applied,
        amount_due, state, due_at, drawn_up_at, closed_at)
      select app_id, customer_id, id, subscription_pda, ${kind}, ${START}, '2027-02-01',
        ${sql.json(lines)}, 9, ${adjustment}, ${total}, ${total}, 0, 'paid', ${START}, ${START},
        ${START}
      from subscriptions returning id`;
    return id;
  };
  await grantCredit(sql, subscriptionId, 9n);
  const id = await draw('items', 0n);
  const about = { amount: -9, reason: 'spent', invoiceId: id };
  await sql`insert into credits ${sql({ customerId, ...about })}`;
  const whole = {
    granted: [{ customer_credit: -9n, credits_granted: 9n }],
    spent: [{ customer_credit: 9n, receivable: -9n }],
    drawn_up: [{ receivable: 9n, revenue: -9n }],
  };
  t.same(await entries(), whole);
  await draw('final', -9n);
  const free = (await entries()).drawn_up?.find(({ receivable }) => receivable === undefined);
  t.same(free, { revenue: -9n, adjustments: 9n });
});

void t.test('a change of plan, a grant and what is taken back', async (t) => {
  const { sql, subscriptionId, customerId, entries } = await scene(t);
  const paymentId = await insertPayment(sql, subscriptionId, START);
  const rows = [
    { customerId, amount: 600, reason: 'change_of_plan', paymentId, note: null, notedBy: null },
    { customerId, amount: -100, reason: 'taken_back', paymentId: null, note: 'x', notedBy: 'y' },
    { customerId, amount: 30, reason: 'negative_item', paymentId: null, note: null, notedBy: null },
  ];
  for (const row of rows) await sql`insert into credits ${sql(row)}`;
  const { drawn_up, paid, ...credits } = await entries();
  t.same([drawn_up?.length, paid?.length], [1, 1]);
  t.same(credits, {
    change_of_plan: [{ customer_credit: -600n, revenue: 600n }],
    taken_back: [{ customer_credit: 100n, credits_granted: -100n }],
    negative_item: [{ customer_credit: -30n, adjustments: 30n }],
  });
});

void t.test('a pull without an invoice is credit until a refund takes it', async (t) => {
  const { sql, subscriptionId, customerId, entries } = await scene(t);
  const paymentId = await insertPayment(sql, subscriptionId, START, { further: true });
  const amount = 10_000_000n;
  await sql`
    insert into credits ${sql({ customerId, amount, reason: 'unmatched_pull', paymentId })}`;
  const pull = [{ customer_credit: -amount, platform_fee: 100_000n, usdc: 9_900_000n }];
  t.same(await entries(), { unmatched_pull: pull });
  const refund = async (asked: bigint) => {
    const [{ id }] = await sql<[{ id: string }]>`
      insert into refunds (app_id, payment_id, subscription_id, amount, reference)
      select app_id, id, subscription_id, ${asked}, ${randomUUID()} from payments returning id`;
    return id;
  };
  const expired = await refund(400n);
  t.same(await entries(), {
    unmatched_pull: pull,
    refund_of_unmatched: [{ customer_credit: 400n, refunds: -400n }],
  });
  await sql`update refunds set status = 'expired' where id = ${expired}`;
  const landed = await refund(900n);
  await sql`
    update refunds set status = 'succeeded', tx_signature = 'one', occurred_at = ${START},
      recorded_at = now() where id = ${landed}`;
  t.same(await entries(), {
    unmatched_pull: pull,
    refund_of_unmatched: [
      { customer_credit: 400n, refunds: -400n },
      { customer_credit: -400n, refunds: 400n },
      { customer_credit: 900n, refunds: -900n },
    ],
    refunded: [{ refunds: 900n, usdc: -900n }],
  });
  const [named] = await sql`
    select tx_signature, refund_id, payment_id, customer_id from journal where kind = 'refunded'`;
  t.same(named, { txSignature: 'one', refundId: landed, paymentId, customerId });
});

void t.test(
  'a refund beyond its payment, and one that lands twice, are booked whole',
  async (t) => {
    const { sql, subscriptionId, entries } = await scene(t);
    await insertPayment(sql, subscriptionId, START);
    for (const [signature, excess] of [
      ['one', 0],
      ['two', 40],
    ] as const)
      await sql`
      insert into refunds (app_id, payment_id, subscription_id, amount, reference, status,
        tx_signature, occurred_at, excess)
      select app_id, id, subscription_id, 50, ${signature}, 'succeeded', ${signature}, ${START},
        ${excess} from payments`;
    const { refunded } = await entries();
    const one = { refunds: 50n, usdc: -50n };
    t.same(refunded, [one, one]);
  },
);

void t.test('the invoice of an offer is no entry until it has a subscription', async (t) => {
  const { sql, subscriptionId, customerId, entries } = await scene(t);
  await grantCredit(sql, subscriptionId, 500n);
  const id = await insertInvoice(sql, subscriptionId, { amount: 500n });
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      update invoices set offer_id = ${randomUUID()}, subscription_id = null, customer_id = null,
        credit_applied = 500, amount_due = 0`;
  });
  const about = { amount: -500, reason: 'spent', invoiceId: id };
  await sql`insert into credits ${sql({ customerId, ...about })}`;
  t.same(await entries(), { granted, spent });
  await sql`update invoices set subscription_id = ${subscriptionId}, customer_id = ${customerId}`;
  t.same(await entries(), {
    ...{ granted, spent, drawn_up: [{ receivable: 500n, revenue: -500n }] },
  });
});
