// Statements equal what the chain shows: payments and refunds, on the day of their blocks.
import t from 'tap';
import { generateKeypair } from '../../../../src/chain/keypair.ts';
import { addSignature } from '../../../../src/chain/transactions/message.ts';
import { reconcile } from '../../../../src/cli/operate/reconcile/compare.ts';
import {
  askRefund,
  type RefundablePayment,
  readRefundGround,
  recordRefunds,
} from '../../../../src/domain/offers/refunds.ts';
import { paidOnce } from '../../../fixtures/agreement.ts';
import { type Stage, startStage, type Subscription } from '../../../fixtures/billing.ts';

async function refund(stage: Stage, { id, wallet, plan }: Subscription, amount: bigint) {
  const [payment] = await stage.sql<
    Omit<RefundablePayment, 'subscriptionId' | 'subscriberWallet'>[]
  >`
    select id, app_id, plan_id, subscription_pda, status from payments where subscription_id = ${id}`;
  const { merchant } = plan;
  const parties = { merchant: merchant.address, subscriber: wallet.address };
  const ground = await readRefundGround(stage.rpc, { mint: stage.net.mint, ...parties });
  const asked = { ...payment!, subscriptionId: id, subscriberWallet: wallet.address };
  const { offer } = await stage.sql.begin((tx) => askRefund(tx, asked, amount, ground));
  const bytes = Buffer.from(addSignature(merchant, offer.transaction), 'base64');
  await stage.rpc.sendTransaction(bytes);
  const { context } = stage.parts();
  await stage.until('the refund is recorded', async () => {
    stage.net.mineBlocks(10);
    await stage.sql`update refunds set look_at = now()`;
    await recordRefunds(context);
    return (await stage.sql`select 1 from refunds where status = 'succeeded'`).length === 1;
  });
}

void t.test(
  'refunds are compared with their transfers, and each day of a statement with the chain',
  async (t) => {
    const stage = await startStage(t);
    const { sql } = stage;
    const subscription = await stage.subscriber(await stage.plan());
    const keeper = await stage.startKeeper();
    await paidOnce(stage, subscription);
    await keeper.stop();
    await refund(stage, subscription, 1_000_000n);
    const { rpc, net } = stage;
    const reconciler = { sql, rpc, programId: net.programId, keepers: [stage.keeper.address] };
    const range = { since: new Date(0), until: new Date('2100-01-01'), repair: false };
    const named = async () =>
      (await reconcile(reconciler, range)).differences.map(({ kind, detail }) => [kind, detail]);
    t.same(await named(), []);

    // Recorded on another day than its block's: both days' statements are wrong.
    await sql`update payments set occurred_at = occurred_at - interval '3 days'`;
    const [[first, detail] = [], [second] = [], ...none] = await named();
    t.same([first, second, none], ['statement_differs', 'statement_differs', []]);
    t.match(detail, /^app \S+ on \d{4}-\d\d-\d\d: gross 5000000, the chain shows 0; fees /);
    await sql`update payments set occurred_at = occurred_at + interval '3 days'`;

    await sql`update refunds set occurred_at = occurred_at + interval '2 days'`;
    t.match(await named(), [
      ['statement_differs', /: refunded 0, the chain shows 1000000$/],
      ['statement_differs', /: refunded 1000000, the chain shows 0$/],
    ]);
    await sql`update refunds set occurred_at = occurred_at - interval '2 days'`;

    await sql`update payments set amount_refunded = amount_refunded + 5`;
    t.match(await named(), [['refunds_differ', /1000005 recorded as refunded, .* 1000000$/]]);
    await sql`update payments set amount_refunded = amount_refunded - 5`;

    // A sponsorship that failed counts in analytics and statement alike.
    await sql`
      with sent as (
        insert into transactions (signature, bytes, last_valid_block_height)
        values (decode(repeat('07', 64), 'hex'), '\\x01', 1) returning id
      )
      insert into sponsorships (offer_id, purpose, wallet, address, sponsor, plan_id,
        subscription_pda, transaction_id, state, reason, fee, closing_fee, created_at, ended_at)
      select gen_random_uuid(), 'cancel', 'w', 'a', 's', p.plan_id, 'pda', sent.id, 'failed', 'x',
        700, 5, p.occurred_at, p.occurred_at
      from sent cross join payments p where p.status = 'succeeded'`;
    t.same(await named(), []);

    // A transfer of another amount, and one that is not there.
    await sql`update refunds set amount = 1000001`;
    await sql`update payments set amount_refunded = 1000001`;
    t.match(await named(), [['refund_not_on_chain', /does not pay it$/]]);
    await sql`update refunds set amount = 1000000, tx_signature = ${generateKeypair().address}`;
    await sql`update payments set amount_refunded = 1000000`;
    t.match(await named(), [['refund_not_on_chain', /no RPC endpoint has the transaction$/]]);
  },
);
