// Credit that `reconcile --repair` mends, and attempts that it closes.
import { createHash } from 'node:crypto';
import bs58 from 'bs58';
import t, { type Test } from 'tap';
import {
  compareCredits,
  type RecordRepair,
} from '../../../../src/cli/operate/reconcile/credits.ts';
import { compareJournal } from '../../../../src/cli/operate/reconcile/journal.ts';
import { compareUnexplained } from '../../../../src/cli/operate/reconcile/unexplained.ts';
import { giveBackUnmatched } from '../../../../src/db/invoices/given-back.ts';
import { journalBreaches } from '../../../fixtures/journal-breaches.ts';
import { testDatabase } from '../../../fixtures/postgres.ts';
import {
  grantCredit,
  insertInvoice,
  insertMerchant,
  insertPayment,
  insertPlan,
  insertSubscription,
} from '../../../fixtures/rows.ts';

const SPENT = 300n;

/** A subscription with an open invoice that has spent 300 of 1000 credit. */
async function scene(t: Test) {
  const { sql } = await testDatabase(t);
  const merchant = await insertMerchant(sql);
  const planId = await insertPlan(sql, merchant, { planPda: 'plan' });
  const id = await insertSubscription(sql, { appId: merchant.appId, planId });
  await grantCredit(sql, id, 1000n);
  const invoiceId = await insertInvoice(sql, id);
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      update invoices set credit_applied = ${SPENT}, amount_due = amount_due - ${SPENT}`;
  });
  const spend = (amount: bigint) => sql`
    insert into credits (customer_id, amount, reason, invoice_id)
    select customer_id, ${-amount}, 'spent', id from invoices`;
  const balance = async () => {
    const [row] = await sql<[{ balance: bigint }]>`select balance from credit_balances`;
    return row.balance;
  };
  const recorded: string[] = [];
  const record: RecordRepair = (_tx, what) => Promise.resolve(void recorded.push(what));
  const compared = async (recordRepair?: RecordRepair) =>
    (await compareCredits(sql, recordRepair)).map(({ repaired }) => repaired);
  return { sql, id, invoiceId, spend, balance, record, recorded, compared };
}

void t.test('a balance is set to the sum of its movements, with a record', async (t) => {
  const { sql, spend, balance, record, recorded, compared } = await scene(t);
  await spend(SPENT);
  await sql`update credit_balances set balance = 5`;
  t.same(await compared(), [false]);
  t.equal(await balance(), 5n, 'only with --repair');
  t.same(await compared(record), [true]);
  t.equal(await balance(), 700n);
  t.match(recorded, [/the balance was 5, the movements make 700/]);
  t.same(await compared(record), []);
});

void t.test('an invoice spends what it applies, as far as there is credit', async (t) => {
  for (const [spent, other] of [
    [200n, 100n],
    [400n, -100n],
  ] as const) {
    const { sql, spend, balance, record, compared } = await scene(t);
    await spend(spent);
    t.same(await compared(), [false]);
    t.same(await compared(record), [true], `${other} is missing`);
    t.equal(await balance(), 700n);
    t.same(await journalBreaches(sql, () => null), []);
  }
  const poor = await scene(t);
  await poor.spend(200n);
  await poor.sql`
    insert into credits (customer_id, amount, reason, note, noted_by)
    select customer_id, -790, 'taken_back', 'x', 'y' from invoices`;
  t.same(await poor.compared(poor.record), [false], 'the credit is gone');
});

void t.test('what was closed without a payment gives back what it kept', async (t) => {
  const { sql, spend, balance, record, compared } = await scene(t);
  await spend(SPENT);
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      update invoices set state = 'uncollectible', closed_at = now(), unpaid_at = now(),
        troubled_at = now()`;
  });
  t.same(await compared(), [false]);
  t.same(await compared(record), [true]);
  t.equal(await balance(), 1000n);
});

/** The invoice is uncollectible, because its attempt ended unexplained. */
async function unexplained(t: Test) {
  const made = await scene(t);
  const { sql, spend, record } = made;
  await spend(SPENT);
  const hash = createHash('sha512').update('a').digest();
  await sql`
    with sent as (
      insert into transactions (signature, state, blockhash_slot, last_valid_block_height)
      values (${hash}, 'expired', 100, 1) returning id
    )
    insert into payment_attempts (subscription_id, invoice_id, subscription_pda, transaction_id,
      claim_id, period_start, amount_gross, platform_fee, amount_net, state, resolved_at)
    select subscription_id, i.id, subscription_pda, sent.id, uuid_v7(), period_start, amount_due, 0,
      amount_due, 'unexplained', now()
    from invoices i, sent`;
  await sql`
    update invoices set state = 'uncollectible', closed_at = now(), unpaid_at = now(),
      troubled_at = now()`;
  const seen = {
    range: { since: new Date(0), until: new Date('2100-01-01') },
    ...{ onChain: [], reached: new Map([['plan', 99n]]), read: () => Promise.resolve(null) },
    recordRepair: record as RecordRepair | undefined,
  };
  const look = async (changes: Partial<typeof seen> = {}) =>
    (await compareUnexplained(sql, { ...seen, ...changes })).map(({ repaired }) => repaired);
  return { ...made, look, signature: bs58.encode(hash) };
}

void t.test('an unexplained attempt that no history has is closed, its credit back', async (t) => {
  const { sql, balance, recorded, look, compared } = await unexplained(t);
  t.same(await compared(), [], 'what it keeps is no difference');
  const late = { since: new Date(Date.now() - 600_000), until: new Date('2100-01-01') };
  for (const [what, changes] of [
    ['a history that begins later', { reached: new Map([['plan', 101n]]) }],
    ['one that was not read', { reached: new Map() }],
    ['a range that begins later', { range: late }],
    [
      'a transaction that nobody reads',
      {
        read: () => Promise.resolve({ signature: '', unreadable: 'missing' as const }),
      },
    ],
    ['no --repair', { recordRepair: undefined }],
  ] as const)
    t.same(await look(changes as Parameters<typeof look>[0]), [false], what);
  t.equal(await balance(), 700n);
  t.same(await look(), [true]);
  t.equal(await balance(), 1000n);
  t.match(recorded, [/never landed, 300 of credit given back/]);
  t.same(await look(), [], 'once');
  t.same(await journalBreaches(sql, () => null), []);
});

void t.test('a pull that pays another period gives its invoice the credit back', async (t) => {
  const { sql, id, balance, signature } = await unexplained(t);
  const [{ pda }] = await sql<[{ pda: string }]>`
    select subscription_pda as pda from subscriptions where id = ${id}`;
  await giveBackUnmatched(sql, [{ subscriptionPda: 'another', txSignature: signature }]);
  t.equal(await balance(), 700n, 'not that of another payment of the transaction');
  for (let times = 0; times < 2; times += 1)
    await giveBackUnmatched(sql, [{ subscriptionPda: pda, txSignature: signature }]);
  t.equal(await balance(), 1000n);
});

void t.test('what the journal says of a transaction is compared with the chain', async (t) => {
  const { sql, id } = await scene(t);
  const signature = bs58.encode(createHash('sha512').update('b').digest());
  await insertPayment(sql, id, '2026-01-01', { txSignature: signature });
  const [{ pda }] = await sql<[{ pda: string }]>`
    select subscription_pda as pda from subscriptions where id = ${id}`;
  const look = async (net: bigint, named: string[] = [], subscriptionPda = pda) => {
    const gross = 10_000_000n;
    const times = { at: 0n, periodStart: 0n, periodEnd: 1n };
    const pull = { signature, ...times, gross, net, fee: gross - net, source: 'keeper' } as const;
    const pulls = [{ subscriptionPda, planPda: 'plan', pull }];
    return (await compareJournal(sql, pulls, [], new Set(named))).map(({ kind }) => kind);
  };
  t.same(await look(9_900_000n), []);
  t.same(await look(0n), [], 'of a merchant whose wallet is a treasury only the sum counts');
  t.same(await look(9_900_001n), ['journal_differs']);
  t.same(await look(9_900_001n, [signature]), [], 'it has a difference already');
  t.same(await look(9_900_001n, [], 'another'), [], 'a pull that is not recorded');
});
