// Sponsored changes of plan: a wallet without SOL cancels one subscription, opens another and pays
// what its credit leaves, in one transaction. The books add up to the base unit.
import t from 'tap';
import { unixSeconds } from '../../src/chain/time.ts';
import { creditOf } from '../../src/db/invoices/credits.ts';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import { closeAccount } from '../fixtures/gone-accounts.ts';
import { grantCredit, insertInvoice } from '../fixtures/rows.ts';
import {
  asks,
  buys,
  changeScene,
  endOf,
  FINAL_BLOCKS,
  hands,
  HOURS,
  LARGE,
  settles,
  SMALL,
  unused,
} from '../fixtures/sponsored-changes.ts';

void t.test(
  'a sponsored upgrade charges the amount shown, in one transaction, and is recorded at once',
  async (t) => {
    const { stage, small, large } = await changeScene(t);
    const buyer = await buys(stage, small);
    const { wallet, first } = buyer;
    await stage.sql`update subscriptions set external_id = 'alice' where id = ${first.id}`;
    const start = (await stage.onChain(first))!.periodStart;
    stage.passHours(240);
    stage.net.mineBlocks(2);
    const before = await stage.balance(wallet.address);
    const shown = await asks(buyer, large);
    t.match(shown, { sponsored: true, notSponsored: null });
    const asOf = BigInt(Date.parse(shown.asOf) / 1000);
    t.equal(BigInt(shown.credit), unused(SMALL, start, asOf));
    t.equal(BigInt(shown.today), LARGE - BigInt(shown.credit));
    t.ok(Number(asOf) > stage.now(), 'the credit of a time after the landing');
    const bytes = Buffer.from(shown.transaction, 'base64').length;
    t.ok(bytes + 222 <= 1232, `${bytes} bytes leave room for assertions`);

    await hands(buyer, shown);
    // The first keeper dies after the commit; another one settles.
    await stage.sponsor().sponsor.turn(true);
    stage.net.mineBlocks(FINAL_BLOCKS);
    await stage.orphan();
    await stage.sponsor().sponsor.turn(true);
    const end = await endOf(stage, shown);
    t.match(end, { state: 'landed' });
    const today = BigInt(shown.today);
    t.equal(await stage.balance(wallet.address), before - today, 'exactly what was shown');
    t.equal(await stage.rpc.getBalance(wallet.address), 0n, 'no SOL');
    t.not((await stage.onChain(first))!.expiresAt, 0n, 'the old one is cancelled on chain');

    const fresh = { id: end!.id!, pda: shown.subscriptionPda, wallet, plan: large };
    const [payment] = await stage.payments(fresh);
    t.match(payment, { amountGross: today, creditSpent: LARGE - today, platformFee: today / 100n });
    t.same((await stage.onChain(fresh))!.amountPulled, today);
    const [row] = await stage.sql<[{ credit: bigint; externalId: string; start: Date }]>`
    select ${creditOf(stage.sql)} as credit, s.external_id, s.chain_period_start as start
    from subscriptions s where s.id = ${fresh.id}`;
    const landed = unixSeconds(row.start);
    const taken = unused(SMALL, start, landed);
    t.equal(row.credit, taken - (LARGE - today), 'the seconds to that time pay the next payment');
    t.ok(landed < asOf && row.credit > 0n && row.credit < 1000n, `${row.credit} base units`);
    t.equal(row.externalId, 'alice', 'the ids are kept');
    t.match(await stage.sql`select replaced_by from subscriptions where id = ${first.id}`, [
      { replacedBy: fresh.id },
    ]);
    t.match(
      (await stage.events(fresh)).map(({ type }) => type),
      ['subscription_created', 'payment_success'],
    );
    t.match((await stage.events(fresh))[0], {
      data: { replaces: first.id, credit: String(taken) },
    });
    t.match((await stage.events(first)).at(-1), {
      type: 'cancel_requested',
      data: { replacedBy: fresh.id },
    });
    const [{ commits }] = await stage.sql<[{ commits: number }]>`
    select count(distinct xmin::text)::int as commits from (
      select xmin from events where subscription_id = ${fresh.id} or type = 'cancel_requested'
      union all select xmin from payments where subscription_id = ${fresh.id}
    ) as written`;
    t.equal(commits, 1, 'in one database transaction');
    t.same(await listCreditFaults(stage.sql), []);

    // The credit that is left pays a part of the next payment.
    await stage.startKeeper();
    stage.mine();
    stage.passHours(HOURS + 1);
    await stage.until('the next payment', async () => (await stage.payments(fresh)).length === 2);
    t.match((await stage.payments(fresh)).at(-1), {
      amountGross: LARGE - row.credit,
      creditSpent: row.credit,
    });
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'a sponsored change whose account is closed before a keeper records it keeps the credit',
  async (t) => {
    const { stage, small, large } = await changeScene(t);
    const buyer = await buys(stage, small);
    const { wallet, first } = buyer;
    const shown = await asks(buyer, large);
    await hands(buyer, shown);
    await stage.sponsor().sponsor.turn(true);
    stage.net.mineBlocks(FINAL_BLOCKS);
    await closeAccount(stage, { plan: large, wallet, pda: shown.subscriptionPda });
    await stage.orphan();
    await stage.sponsor().sponsor.turn(true);
    const { id } = (await endOf(stage, shown))!;
    const fresh = { ...first, id: id! };
    const [payment] = await stage.payments(fresh);
    const today = BigInt(shown.today);
    t.match(payment, { amountGross: today, creditSpent: LARGE - today });
    const [ended] = await stage.sql<[{ credit: bigint; status: string }]>`
        select ${creditOf(stage.sql)} as credit, s.status from subscriptions s where s.id = ${id}`;
    t.equal(ended.status, 'cancelled');
    t.match((await stage.events(fresh)).at(-1), {
      ...{ type: 'cancel_finalized', data: { credit: String(ended.credit) } },
    });
    t.match(await stage.sql`select replaced_by from subscriptions where id = ${first.id}`, [
      { replacedBy: id },
    ]);
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'until a sponsored change is final, nothing else spends or refunds its credit',
  async (t) => {
    const { stage, small, large } = await changeScene(t);
    const { merchant, appId } = small;
    const third = await stage.plan({ amount: LARGE, periodHours: HOURS, merchant });
    await stage.sql`update plans set app_id = ${appId} where id = ${third.id}`;
    const buyer = await buys(stage, small);
    const { first, post } = buyer;
    const shown = await asks(buyer, large);
    await hands(buyer, shown);
    const { sponsor } = stage.sponsor();
    await sponsor.turn(true);
    t.match(await endOf(stage, shown), { state: 'open' });

    for (const when of ['now', 'period_end'])
      t.match(
        await post(`subscriptions/${first.id}/change`, { planId: third.id, when }),
        { status: 409, body: { error: { message: /under way/ } } },
        when,
      );
    const [paid] = await stage.sql<[{ id: string }]>`
    select id from payments where subscription_id = ${first.id}`;
    const refund = `/merchant/apps/${appId}/transactions/${paid.id}/refunds`;
    const { token } = await stage.api.signIn('merchant', merchant);
    t.match(await stage.api.call('POST', refund, { token, body: {} }), {
      status: 409,
      body: { error: { message: /change of plan/ } },
    });

    stage.net.mineBlocks(FINAL_BLOCKS);
    await sponsor.turn(true);
    const { id } = (await endOf(stage, shown))!;
    const [payment] = await stage.payments({ ...first, id: id! });
    t.equal(payment!.creditSpent, LARGE - BigInt(shown.today));
    t.match(await stage.sql`select replaces from subscriptions where id = ${id}`, [
      { replaces: first.id },
    ]);
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test('a sponsored downgrade of a past-due subscription replaces it', async (t) => {
  const { stage, small, large } = await changeScene(t);
  const buyer = await buys(stage, large);
  const { wallet, first } = buyer;
  await stage.net.rpc('surfnet_setTokenAccount', wallet.address, stage.net.mint, {
    amount: 10_000_000,
  });
  await stage.startKeeper(stage.sponsoring);
  stage.mine();
  stage.passHours(HOURS + 1);
  await stage.until('it is past due', async () => (await stage.row(first)).status === 'past_due');
  const shown = await asks(buyer, small);
  t.match(shown, { sponsored: true, today: String(SMALL) });
  await hands(buyer, shown);
  const replaced = async () => {
    const [row] = await stage.sql<[{ replacedBy: string | null; endReason: string | null }]>`
      select replaced_by, end_reason from subscriptions where id = ${first.id}`;
    return row;
  };
  await stage.until('it has ended', async () => (await stage.row(first)).status === 'cancelled');
  const { id } = (await endOf(stage, shown))!;
  t.same(await replaced(), { replacedBy: id, endReason: 'replaced' });
  t.match(await stage.sql`select replaces from subscriptions where id = ${id}`, [
    { replaces: first.id },
  ]);
  t.match((await stage.events(first)).at(-1), {
    type: 'cancel_finalized',
    data: { endReason: 'replaced', replacedBy: id },
  });
});

void t.test(
  'a change of plan with no payment or too small a payment due today is not sponsored',
  async (t) => {
    const { stage, small, large } = await changeScene(t);
    const buyer = await buys(stage, large);
    const later = await asks(buyer, small, { when: 'period_end' });
    t.match(later, { sponsored: false, notSponsored: { code: 'change_of_plan' }, today: '0' });
    const covered = await asks(buyer, small);
    t.match(covered, { sponsored: false, notSponsored: { code: 'change_of_plan' }, today: '0' });
    t.type(covered.transaction, 'string', 'the wallet can pay for it');
    // 0.50 USDC are left to pay: below SPONSOR_MINIMUM_AMOUNT.
    await grantCredit(stage.sql, buyer.first.id, LARGE);
    const near = await stage.plan({
      ...{ amount: 2n * LARGE + 500_000n, periodHours: HOURS, merchant: small.merchant },
    });
    await stage.sql`update plans set app_id = ${small.appId} where id = ${near.id}`;
    t.match(await asks(buyer, near), { sponsored: false, notSponsored: { code: 'below_minimum' } });
    t.same(
      await stage.sql`select 1 from offers where replaces is not null and sponsor is not null`,
      [],
    );
  },
);

void t.test(
  'a failed sponsored change changes nothing, and forged offers are refused',
  async (t) => {
    const { stage, small, large } = await changeScene(t);
    const buyer = await buys(stage, small);
    const { wallet, first } = buyer;
    const isUnchanged = async () => {
      t.equal((await stage.onChain(first))!.expiresAt, 0n, 'it is not cancelled');
      t.match(await stage.row(first), { status: 'active', cancelRequestedAt: null });
      t.match(await stage.sql`select count(*)::int as count from subscriptions`, [{ count: 1 }]);
    };
    const drain = (amount: number) =>
      stage.net.rpc('surfnet_setTokenAccount', wallet.address, stage.net.mint, { amount });
    const failing = await asks(buyer, large);
    await hands(buyer, failing);
    const { sponsor } = stage.sponsor({
      async sendTransaction(bytes, options) {
        await drain(0);
        return stage.rpc.sendTransaction(bytes, options);
      },
    });
    await settles(stage, sponsor);
    t.match(await endOf(stage, failing), { state: 'failed' });
    await isUnchanged();
    stage.net.fund(wallet.address, { usdc: 100_000_000n });
    stage.net.mineBlocks(2);
    await stage.sql`update sponsorships set ended_at = now() - interval '2 hours'`;

    const stranger = await buys(stage, small);
    const at = (seconds: number) => new Date((stage.now() + seconds) * 1000);
    /** What a taken-over `serve` may write into a signed offer, and what the keeper says. */
    const forged: [string, Record<string, unknown>, string][] = [
      ['a credit of an earlier time', { creditAt: at(-86_400) }, 'lapsed'],
      ['a credit of a far later time', { creditAt: at(86_400) }, 'lapsed'],
      ['a larger credit', { creditAt: at(20) }, 'changed'],
      ["another wallet's subscription", { replaces: stranger.first.id }, 'changed'],
      ['no change', { replaces: null, creditAt: null }, 'changed'],
    ];
    for (const [name, change, reason] of forged) {
      const offer = await asks(buyer, large);
      t.equal(offer.sponsored, true, name);
      await hands(buyer, offer);
      await stage.sql`update offers set ${stage.sql(change)} where id = ${offer.offerId}`;
      await stage.sponsor().sponsor.turn(true);
      t.match(await endOf(stage, offer), { state: 'refused', reason }, name);
    }

    // The merchant refunds while the wallet signs: the credit is smaller than what was signed.
    const offer = await asks(buyer, large);
    await stage.sql`update payments set amount_refunded = 1000000 where subscription_id = ${first.id}`;
    await hands(buyer, offer);
    await stage.sponsor().sponsor.turn(true);
    t.match(await endOf(stage, offer), { state: 'refused', reason: 'changed' });

    // A payment of the replaced one may still land: the keeper waits.
    const waiting = await asks(buyer, large);
    await hands(buyer, waiting);
    const invoiceId = await insertInvoice(stage.sql, first.id, { amount: 5_000_000n });
    await stage.sql`
    with signed as (
      insert into transactions (signature, bytes, last_valid_block_height, blockhash_slot)
      values (decode(repeat('ab', 64), 'hex'), '\x01', 1000000, 0) returning id
    )
    insert into payment_attempts (subscription_id, invoice_id, subscription_pda, transaction_id, position,
      period_start, claim_id, amount_gross, platform_fee, amount_net, fee_owed)
    select ${first.id}, ${invoiceId}, ${first.pda}, id, 0, now(), gen_random_uuid(), 5000000, 50000, 4950000, 0
    from signed`;
    await stage.sponsor().sponsor.turn(true);
    t.equal(await endOf(stage, waiting), undefined, 'undecided');
    await stage.sql`update payment_attempts set state = 'expired', resolved_at = now(), error = 'x'
    where subscription_pda = ${first.pda} and state = 'open'`;
    const keeper = stage.sponsor().sponsor;
    await stage.until('the offer is due again and decided', async () => {
      await keeper.turn(true);
      return (await endOf(stage, waiting)) !== undefined;
    });
    await settles(stage, keeper);
    t.match(await endOf(stage, waiting), { state: 'landed' });
    t.same(await listCreditFaults(stage.sql), []);
  },
);
