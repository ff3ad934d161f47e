// Credit that moves while something else depends on it: a subscription gets another customer, a
// sponsored change is under way, a refund lands twice.
import t, { type Test } from 'tap';
import { creditUnmatched } from '../../src/db/invoices/credits.ts';
import { recordRefund, recordRepeat } from '../../src/db/money/refunds.ts';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import { HOUR, type Plan, startStage, type Stage } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import { grantCredit } from '../fixtures/rows.ts';
import {
  asks,
  buys,
  changeScene,
  endOf,
  FINAL_BLOCKS,
  hands,
  HOURS,
} from '../fixtures/sponsored-changes.ts';

const AMOUNT = 5_000_000n;
const PERIOD = 720 * HOUR;

/** What a merchant's PATCH of externalId writes. */
const rename = ({ sql }: Pick<Stage, 'sql'>, id: string, externalId: string) => sql`
  update subscriptions set external_id = ${externalId}, own_ids_from = 'merchant'
  where id = ${id}`;

for (const hasBalance of [true, false])
  void t.test(
    `an open invoice that spent the credit of an earlier customer is given up, the new one ${hasBalance ? 'with' : 'without'} a balance`,
    async (t) => {
      const stage = await startStage(t);
      const plan = await stage.plan();
      const one = await stage.subscriber(plan, { usdc: AMOUNT });
      const other = await stage.subscriber(plan, { usdc: 10n * AMOUNT });
      const keeper = await stage.startKeeper();
      const paid = async (count: number) =>
        (await stage.sql`select 1 from payments where status = 'succeeded'`).length === count;
      await stage.until('both are paid', () => paid(2));
      await rename(stage, other.id, 'team');
      await grantCredit(stage.sql, one.id, 1_000_000n);
      if (hasBalance) await grantCredit(stage.sql, other.id, 1n);
      stage.net.passSeconds(PERIOD);
      await stage.until(
        'it is past due',
        async () => (await stage.row(one)).status === 'past_due' && (await paid(3)),
      );
      await keeper.stop();
      await rename(stage, one.id, 'team');
      stage.net.passSeconds(PERIOD + 60);
      stage.net.fund(one.wallet.address, { usdc: 10n * AMOUNT });
      await stage.sql`
        update subscription_work set due_at = ${new Date(stage.net.now())}
        where subscription_id = ${one.id}`;
      await stage.startKeeper();
      await stage.until('it is paid again', async () => (await stage.row(one)).status === 'active');
      t.match(
        await stage.sql`
          select state from invoices where subscription_id = ${one.id} order by created_at`,
        [{ state: 'paid' }, { state: 'uncollectible' }, { state: 'paid' }],
      );
      t.same(await listCreditFaults(stage.sql), []);
    },
  );

/** A sponsored change that is committed and not sent yet. */
async function committed(t: Test, usdcCredit: bigint) {
  const { stage, small, large } = await changeScene(t);
  const buyer = await buys(stage, small);
  if (usdcCredit > 0n) await grantCredit(stage.sql, buyer.first.id, usdcCredit);
  return { stage, small, large, buyer, ...buyer };
}

void t.test(
  'a refund that is found while a sponsored change is under way leaves the change as it was shown',
  async (t) => {
    const { stage, large, buyer, first } = await committed(t, 0n);
    const [refund] = await stage.sql<[{ id: string }]>`
      insert into refunds (app_id, payment_id, subscription_id, amount, reference, blockhash,
        last_valid_block_height, blockhash_slot)
      select app_id, id, subscription_id, 2000000, ${first.pda}, ${first.pda}, 1, 1
      from payments where subscription_id = ${first.id} returning id`;
    await stage.sql`update refunds set status = 'expired'`;
    const shown = await asks(buyer, large);
    await hands(buyer, shown);
    await stage.sponsor().sponsor.turn(true);
    t.match(await endOf(stage, shown), { state: 'open' });
    const found = { txSignature: '5'.repeat(88), occurredAt: new Date(stage.net.now()) };
    await stage.sql.begin((tx) => recordRefund(tx, refund.id, found));
    stage.net.mineBlocks(FINAL_BLOCKS);
    await stage.orphan();
    await stage.sponsor().sponsor.turn(true);
    t.match(await endOf(stage, shown), { state: 'landed' }, 'what the wallet paid is recorded');
    t.match(await stage.sql`select reason from credits where reason = 'granted'`, [{}]);
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'the open invoice of a replaced subscription is not collected while a sponsored change may land',
  async (t) => {
    const { stage, large, buyer, first, wallet } = await committed(t, 4_500_000n);
    const has = (amount: number) =>
      stage.net.rpc('surfnet_setTokenAccount', wallet.address, stage.net.mint, { amount });
    await has(1);
    const keeper = await stage.startKeeper();
    stage.mine();
    stage.passHours(HOURS + 1);
    await stage.until('it is past due', async () => (await stage.row(first)).status === 'past_due');
    await keeper.stop();
    stage.passHours(150);
    stage.net.mineBlocks(2);
    await has(100_000_000);
    const shown = await asks(buyer, large);
    await hands(buyer, shown);
    const { sponsor } = stage.sponsor({ sendTransaction: () => Promise.resolve('') });
    while (await sponsor.decide());
    t.match(await endOf(stage, shown), { state: 'open' });
    const now = new Date(stage.net.now() - 60_000);
    await stage.sql`update subscriptions set next_payment_due = ${now} where id = ${first.id}`;
    await stage.sql`
      update subscription_work set due_at = ${now} where subscription_id = ${first.id}`;
    const { collect, taken } = stage.parts();
    await collect();
    t.same(taken, []);
    for (let turn = 0; turn < 3; turn += 1) {
      await stage.orphan();
      await stage.sponsor().sponsor.turn(true);
      stage.net.mineBlocks(FINAL_BLOCKS);
    }
    t.match(await endOf(stage, shown), { state: 'landed' });
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'what a subscriber sets at a change of plan takes no credit from the merchant’s customer',
  async (t) => {
    const { stage, plans, buyer, ask } = await startPlanChanges(t, [10, 20]);
    const [small, large] = plans as [Plan, Plan];
    await stage.sql`update apps set own_ids_by_subscriber = true`;
    const keeper = await stage.startKeeper();
    const first = await buyer.buy();
    await stage.quiet();
    await rename(stage, first.id, 'team');
    await grantCredit(stage.sql, first.id, 3_000_000n);
    const have = await stage.balance(buyer.wallet);
    const has = (amount: bigint) =>
      stage.net.rpc('surfnet_setTokenAccount', buyer.wallet, stage.net.mint, {
        amount: Number(amount),
      });
    await has(1n);
    stage.passHours(721);
    await stage.until('it is past due', async () => (await stage.row(first)).status === 'past_due');
    await keeper.stop();
    await has(have);
    const shown = await ask(first, large);
    await stage.land(buyer.keypair, shown.transaction);
    const before = await stage.balance(buyer.wallet);
    const { status } = await buyer.post('subscriptions', {
      ...{ appId: small.appId, planId: large.id, subscriptionPda: shown.subscriptionPda },
      metadata: { a: 'b' },
    });
    t.equal(status, 201);
    await stage.startKeeper();
    await stage.quiet();
    t.equal(before - (await stage.balance(buyer.wallet)), BigInt(shown.today), 'as it was shown');
    t.match(
      await stage.sql`
        select c.external_id from credit_balances b join customers c on c.id = b.customer_id`,
      [{ externalId: 'team' }],
    );
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'a refund of a further pull whose transfer lands twice takes its credit twice',
  async (t) => {
    const stage = await startStage(t);
    const one = await stage.subscriber(await stage.plan());
    const keeper = await stage.startKeeper();
    await stage.until('it is paid', async () => (await stage.payments(one)).length === 1);
    await stage.quiet();
    await keeper.stop();
    const signature = '3'.repeat(87);
    const [pull] = await stage.sql<[{ id: string; net: bigint }]>`
    insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet,
      status, source, further, period_start, period_end, amount_gross, platform_fee, amount_net,
      tx_signature, occurred_at)
    select app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, source,
      true, period_start, period_end, amount_gross, platform_fee, amount_net, ${signature},
      occurred_at
    from payments returning id, amount_net as net`;
    await creditUnmatched(stage.sql, [signature]);
    const balance = async () =>
      (await stage.sql<[{ balance: bigint }]>`select balance from credit_balances`)[0].balance;
    const before = await balance();
    const half = pull.net / 2n;
    const [refund] = await stage.sql<[{ id: string }]>`
    insert into refunds (app_id, payment_id, subscription_id, amount, reference, blockhash,
      last_valid_block_height, blockhash_slot)
    select app_id, id, subscription_id, ${half}, ${one.pda}, ${one.pda}, 1, 1
    from payments where id = ${pull.id} returning id`;
    t.equal(await balance(), before - half);
    const occurredAt = new Date(stage.net.now());
    await stage.sql.begin((tx) =>
      recordRefund(tx, refund.id, { occurredAt, txSignature: 'a'.repeat(87) }),
    );
    await stage.sql.begin((tx) =>
      recordRepeat(tx, refund.id, { occurredAt, txSignature: 'b'.repeat(87) }),
    );
    t.equal(await balance(), before - 2n * half, 'what came back as USDC is no credit as well');
  },
);

void t.test('a registration names the credit that its own customer has', async (t) => {
  const { stage, buyer, read, forceAndReinstate, register } = await startPlanChanges(t, [10]);
  await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  await rename(stage, first.id, 'team');
  await grantCredit(stage.sql, first.id, 25_000_000n);
  await forceAndReinstate(first);
  const { status, body } = await register(first);
  t.equal(status, 201);
  await stage.quiet();
  const again = { ...first, id: body.data.id };
  const [created] = await stage.events(again);
  t.equal(created?.data.credit, undefined, 'it belongs to the wallet, not to the team');
  t.equal((await read(again)).credit, 0n);
  t.equal((await read(first)).credit, 25_000_000n, 'which keeps its own');
});
