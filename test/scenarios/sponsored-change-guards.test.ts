// Sponsored changes of plan: what becomes of a replaced subscription that runs again, and what a
// taken-over `serve` gains with a forged credit. And what the wallet is shown is what it pays.
import t from 'tap';
import { resumeSubscription } from '../../src/chain/program/instructions.ts';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import { connect } from '../../src/db/postgres/connect.ts';
import { Unregistered } from '../../src/keeper/follow/unregistered.ts';
import { asRole } from '../fixtures/postgres.ts';
import { grantCredit } from '../fixtures/rows.ts';
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
  type Shown,
} from '../fixtures/sponsored-changes.ts';

void t.test(
  'a replaced subscription that its wallet resumes early is not charged beside the new one',
  async (t) => {
    const { stage, small, large } = await changeScene(t);
    const { sql, net } = stage;
    const buyer = await buys(stage, small);
    const { wallet, first, post } = buyer;
    const shown = await asks(buyer, large);
    await hands(buyer, shown);
    t.match(
      await post(`subscriptions/${first.id}/resume`),
      { status: 409, body: { error: { message: /change of plan is under way/ } } },
      'not by the API, as soon as the wallet has signed',
    );
    let landed = 0;
    const { sponsor, context } = stage.sponsor({}, () => (landed += 1));
    await sponsor.turn(true);
    net.mineBlocks(2);
    t.match(
      await post(`subscriptions/${first.id}/resume`),
      { status: 409 },
      'nor after the landing',
    );

    // The wallet can do this with another tool.
    net.fund(wallet.address, { lamports: 1_000_000_000n });
    const { expiresAt } = (await stage.onChain(first))!;
    const parties = { subscriber: wallet.address, plan: small.pda, subscription: first.pda };
    await stage.send(
      [wallet],
      [resumeSubscription(net.programId, { ...parties, mint: net.mint, expiresAt })],
    );
    t.equal((await stage.onChain(first))!.expiresAt, 0n, 'it runs again');
    net.mineBlocks(FINAL_BLOCKS);
    t.equal(landed, 0);
    await sponsor.turn(true);
    t.equal(landed, 1, 'the collect loop is woken to end the replaced one');

    const { state, id } = (await endOf(stage, shown))!;
    t.equal(state, 'landed');
    const fresh = { ...first, id: id!, pda: shown.subscriptionPda, plan: large };
    t.match(await stage.payments(fresh), [{ amountGross: BigInt(shown.today) }], 'paid as shown');
    t.match(
      await sql`select replaced_by from subscriptions where id = ${first.id}`,
      [{ replacedBy: id }],
      'the change stands: the wallet has paid its price',
    );
    t.same(await listCreditFaults(sql), []);
    const listed = () => sql<{ pda: string; app: string }[]>`
    select subscription_pda as pda, app_id as app from unregistered_subscriptions`;
    t.same(
      await listed(),
      [{ pda: first.pda, app: small.appId }],
      'the merchant sees that it runs',
    );

    // Whatever the app says: without an offer of its own, the account pays for no second plan.
    await sql`update apps set register_unclaimed = true where id = ${small.appId}`;
    const unregistered = new Unregistered(context, () => undefined);
    // One turn for each plan.
    await unregistered.turn();
    await unregistered.turn();
    t.same(await listed(), [{ pda: first.pda, app: small.appId }]);
    await sql`delete from unregistered_subscriptions`;
    unregistered.gap();
    await unregistered.turn();
    t.same(await listed(), [{ pda: first.pda, app: small.appId }], 'found without a notification');

    await stage.startKeeper();
    stage.mine();
    stage.passHours(HOURS + 1);
    await stage.until('the next payment', async () => (await stage.payments(fresh)).length === 2);
    await stage.until(
      'the replaced one has ended',
      async () => (await stage.row(first)).status === 'cancelled',
    );
    await stage.quiet();
    const [{ paid }] = await sql<[{ paid: bigint }]>`
    select sum(i.total)::int8 as paid from payments p join invoices i on i.id = p.invoice_id
    where p.subscriber_wallet = ${wallet.address} and p.subscription_id <> ${first.id}
      and p.status = 'succeeded'`;
    t.equal(paid, 2n * LARGE, 'one plan is paid');
    t.equal((await stage.payments(first)).length, 1, 'and nothing more of the other');
    t.match(await listed(), [{ pda: first.pda }], 'it still runs');
  },
);

void t.test('serve changes a balance by movements alone, and spends none', async (t) => {
  const { stage, small, large } = await changeScene(t);
  const { sql } = stage;
  const buyer = await buys(stage, small);
  const { id } = buyer.first;
  const serve = connect(asRole(stage.databaseUrl, 'serve'), { max: 1, name: 'billing test' });
  t.teardown(() => serve.end());
  const denied = { code: '42501' };
  await grantCredit(serve, id, 3_000_000n);
  const [{ customerId, invoiceId }] = await sql<[{ customerId: string; invoiceId: string }]>`
      select s.customer_id, i.id as invoice_id from subscriptions s
        join invoices i on i.subscription_id = s.id where s.id = ${id}`;
  await t.rejects(serve`update credit_balances set balance = 9000000`, denied);
  await t.rejects(serve`update credits set amount = 9000000`, denied);
  await t.rejects(serve`delete from credits`, denied);
  await t.rejects(
    serve`insert into credits (customer_id, amount, reason, invoice_id)
        values (${customerId}, -1, 'spent', ${invoiceId})`,
    denied,
  );
  await t.rejects(
    serve`insert into credits (customer_id, amount, reason) values (${customerId}, -3000001,
        'taken_back')`,
    { code: '23514', constraint_name: 'credit_is_there' },
    'a balance is never below 0',
  );
  await t.rejects(
    serve`insert into credit_notes (invoice_id, payment_id, subscription_pda, reason, amount,
          takes_time_from)
        select i.id, p.id, i.subscription_pda, 'change_of_plan', i.total + 1, i.covers_from
        from invoices i join payments p on p.invoice_id = i.id`,
    { code: '23514', constraint_name: 'notes_fit' },
    'never more than the wallet has paid',
  );
  await t.rejects(
    serve`insert into credit_notes (invoice_id, payment_id, subscription_pda, reason, amount,
          takes_time_from)
        select i.id, uuid_v7(), i.subscription_pda, 'change_of_plan', 0, i.covers_from
        from invoices i`,
    { code: /23503|23514/ },
    'a note names the payment of its invoice',
  );
  await t.rejects(
    serve`insert into credit_notes (invoice_id, payment_id, subscription_pda, reason, amount,
          refund_id) values (${invoiceId}, ${id}, 'a', 'refund', 0, ${id})`,
    denied,
  );
  await t.rejects(serve`insert into refunds (status) values ('succeeded')`, denied);
  const shown = await asks(buyer, large);
  await hands(buyer, shown);
  await settles(stage);
  t.match(await endOf(stage, shown), { state: 'landed' });
  t.ok(BigInt(shown.today) < LARGE - 3_000_000n, 'what it grants is the merchant’s loss alone');
  t.same(await listCreditFaults(sql), []);
});

void t.test('a sponsored change charges exactly the amount that was shown', async (t) => {
  const { stage, small, large } = await changeScene(t);
  const buyer = await buys(stage, small);
  const { first } = buyer;
  const path = `subscriptions/${first.id}/change?planId=${large.id}&when`;
  const preview = () => buyer.get<Shown>(`${path}=now&sponsored=true`);
  stage.passHours(240);
  const passes = (seconds: number) => {
    stage.net.passSeconds(seconds);
    stage.net.mineBlocks(2);
  };
  passes(1);
  const shown = await preview();
  const own = await buyer.get<Shown>(`${path}=now`);
  t.ok(BigInt(own.today) < BigInt(shown.today), 'more than if it landed now');
  const later = await buyer.get<Shown>(`${path}=period_end&sponsored=true`);
  t.ok(later.asOf < shown.asOf && later.today === '0', 'that one is not sponsored');
  const { asOf, credit, today, next } = shown;
  passes(140);
  t.match(await asks(buyer, large, { asOf }), { asOf, credit, today, next });
  passes(60);
  const late = await asks(buyer, large, { asOf });
  t.ok(late.asOf > asOf && BigInt(late.today) > BigInt(today), 'too old: other amounts');
  const far = new Date(Date.parse(late.asOf) + 3_600_000).toISOString();
  t.ok((await asks(buyer, large, { asOf: far })).asOf < far, 'never far ahead');

  const again = await preview();
  passes(20);
  const offer = await asks(buyer, large, { asOf: again.asOf });
  const before = await stage.balance(buyer.wallet.address);
  await hands(buyer, offer);
  await settles(stage);
  t.match(await endOf(stage, offer), { state: 'landed' });
  t.equal(await stage.balance(buyer.wallet.address), before - BigInt(again.today));
});
