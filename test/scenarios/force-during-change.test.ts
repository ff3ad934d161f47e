// A subscription ends while a change of its plan is under way. The credit that pays the new
// subscription is recorded, and is not refunded too.
import bs58 from 'bs58';
import t, { type Test } from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { creditOf } from '../../src/db/invoices/credits.ts';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import type { Subscription } from '../fixtures/billing.ts';
import {
  asks,
  type Buyer,
  buys,
  changeScene,
  endOf,
  FINAL_BLOCKS,
  hands,
  HOURS,
  LARGE,
  SMALL,
  unused,
} from '../fixtures/sponsored-changes.ts';

/** More blocks than a blockhash lives. */
const LIFETIME = 200;

async function scene(t: Test) {
  const { stage, small, large } = await changeScene(t);
  const buyer = await buys(stage, small);
  const { first, wallet, post } = buyer;
  const { token } = await stage.api.signIn('merchant', small.merchant);
  const path = `/merchant/apps/${small.appId}`;
  const merchant = (of: string, body: object = {}) =>
    stage.api.call<Record<string, string>>('POST', `${path}/${of}`, { token, body });
  const payment = async () => (await stage.payments(first))[0]!;
  return {
    ...{ stage, small, large, buyer, merchant, payment },
    force: () => merchant(`subscriptions/${first.id}/cancel`, { mode: 'force' }),
    /** Asks for a change that the wallet pays, and returns its unsigned transaction. */
    offered: async (when: 'now' | 'period_end' = 'now') => {
      stage.net.fund(wallet.address, { lamports: 1_000_000_000n });
      stage.net.mineBlocks(2);
      const { status, body } = await post(`subscriptions/${first.id}/change`, {
        ...{ planId: large.id, when },
      });
      t.equal(status, 200, JSON.stringify(body));
      return body.data as { transaction: string; offerId: string; subscriptionPda: string };
    },
    register: async (pda: string): Promise<Subscription> => {
      const { status, body } = await post('subscriptions', {
        ...{ appId: large.appId, planId: large.id, subscriptionPda: pda },
      });
      t.equal(status, 201, JSON.stringify(body));
      return { id: (body.data as { id: string }).id, pda, wallet, plan: large };
    },
    read: async ({ id }: { id: string }) => {
      const [row] = await stage.sql<[Books]>`
        select s.status, s.end_reason, ${creditOf(stage.sql)} as credit, s.replaced_by,
          s.billed_from, s.chain_period_start
        from subscriptions s where s.id = ${id}`;
      return row;
    },
  };
}

interface Books {
  status: string;
  endReason: string | null;
  credit: bigint;
  replacedBy: string | null;
  billedFrom: Date | null;
  chainPeriodStart: Date;
}

const wait = { status: 409, body: { error: { code: 'CONFLICT', message: /may still land/ } } };

void t.test(
  'a forced cancellation waits while a sponsored change is handed over or sent but not registered',
  async (t) => {
    const { stage, large, buyer, force, merchant, payment } = await scene(t);
    const shown = await asks(buyer, large);
    await hands(buyer, shown);
    t.match(await force(), wait, 'handed over');
    const { sponsor } = stage.sponsor();
    await sponsor.turn(true);
    t.match(await endOf(stage, shown), { state: 'open' });
    t.match(await force(), wait, 'sent');
    stage.net.mineBlocks(FINAL_BLOCKS);
    await sponsor.turn(true);
    const { id } = (await endOf(stage, shown))!;
    const fresh = { ...buyer.first, id: id!, pda: shown.subscriptionPda, plan: large };
    const credit = LARGE - BigInt(shown.today);
    t.match(await stage.payments(fresh), [{ creditSpent: credit }], 'the books have the credit');
    const { amountCredited } = await payment();
    t.ok(amountCredited !== null && amountCredited >= credit);
    t.equal((await force()).status, 200, 'the replaced one can be ended now');
    stage.net.fund(buyer.first.plan.merchant.address, { usdc: 50_000_000n });
    stage.net.mineBlocks(2);
    const [{ id: paid }] = await stage.sql<[{ id: string }]>`
    select id from payments where subscription_id = ${buyer.first.id}`;
    t.match(
      await merchant(`transactions/${paid}/refunds`),
      { status: 409, body: { error: { message: /Nothing/ } } },
      'what became a credit is not refunded',
    );
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'a forced cancellation does not wait for a change whose blockhash has expired',
  async (t) => {
    const { stage, large, buyer, force } = await scene(t);
    await hands(buyer, await asks(buyer, large));
    stage.net.mineBlocks(LIFETIME);
    t.equal((await force()).status, 200, 'its blockhash is dead');
    const { sponsor } = stage.sponsor();
    await sponsor.turn(true);
    t.match(await stage.sql`select state from sponsorships where replaces is not null`, [
      { state: 'refused' },
    ]);
  },
);

void t.test('a forced cancellation waits until a relayed change can no longer land', async (t) => {
  const { stage, buyer, force, offered, read } = await scene(t);
  const offer = await offered();
  const send = () => relayed(buyer, offer);
  await stage.net.rpc('localnet_setFault', { kind: 'drop', count: 1000 });
  const first = send();
  await stage.until('the relay has it', async () => {
    const rows = await stage.sql`
      select 1 from offers where signed_blockhash is not null`;
    return rows.length > 0;
  });
  t.match(await force(), wait);
  stage.net.mineBlocks(LIFETIME);
  t.match((await first).body.data, { status: 'lapsed' });
  stage.api.deps.chain.getBlockHeight = () => Promise.resolve(1n);
  t.equal((await force()).status, 200, 'whatever height one endpoint names');
  t.match(await read(buyer.first), { endReason: 'forced' });
  t.match((await send()).body.data, { status: 'lapsed' }, 'the same request again is answered');
});

void t.test(
  'the relay refuses an older transaction of an offer while a newer one may land',
  async (t) => {
    const { stage, buyer, force, offered } = await scene(t);
    const offer = await offered();
    const rows = () => stage.sql<{ old: string; taken: string | null }[]>`
    select blockhash as old, signed_blockhash as taken from offers
    where id = ${offer.offerId}`;
    const { old } = (await rows())[0]!;
    // The wallet signs again with a newer blockhash, after the first one has expired.
    stage.net.mineBlocks(LIFETIME);
    const { blockhash: fresh } = await stage.rpc.getLatestBlockhash();
    const bytes = Buffer.from(offer.transaction, 'base64');
    Buffer.from(bs58.decode(fresh)).copy(bytes, bytes.indexOf(Buffer.from(bs58.decode(old))));
    await stage.net.rpc('localnet_setFault', { kind: 'drop', count: 1000 });
    const newer = relayed(buyer, { ...offer, transaction: bytes.toString('base64') });
    await stage.until('the relay has it', async () => (await rows())[0]?.taken === fresh);
    t.match(await force(), wait);
    t.match(await relayed(buyer, offer), wait, 'the older one is not taken beside it');
    t.match(await force(), wait);
    stage.net.mineBlocks(LIFETIME);
    t.match((await newer).body.data, { status: 'lapsed' });
    t.match((await relayed(buyer, offer)).body.data, { status: 'lapsed' }, 'both are dead');
    t.equal((await force()).status, 200);
  },
);

void t.test(
  'a forced cancellation waits for the blockhash, not for the clock, while the chain stands still',
  async (t) => {
    const { stage, buyer, force, offered } = await scene(t);
    const offer = await offered();
    await stage.net.rpc('localnet_setFault', { kind: 'drop', count: 1000 });
    const sent = relayed(buyer, offer);
    await stage.until('the relay has it', async () => {
      const rows = await stage.sql`
      select 1 from offers where signed_blockhash is not null`;
      return rows.length > 0;
    });
    await stage.sql`
    update offers set created_at = created_at - interval '16 minutes',
      signed_at = signed_at - interval '16 minutes'`;
    t.match(await force(), wait, 'its blockhash is still valid');
    stage.net.mineBlocks(LIFETIME);
    t.equal((await force()).status, 200);
    await sent;
  },
);

void t.test('the relay refuses a change of a subscription that was ended by force', async (t) => {
  const { buyer, force, offered } = await scene(t);
  const offer = await offered();
  t.equal((await force()).status, 200, 'an offer alone holds nothing up');
  t.match(await relayed(buyer, offer), {
    status: 409,
    body: { error: { message: /has ended/ } },
  });
});

for (const refund of [0n, 2_000_000n])
  void t.test(
    `a forced cancellation after the wallet sent its change keeps the unused credit, refunded ${refund}`,
    async (t) => {
      const { stage, buyer, force, offered, register, read, payment, merchant } = await scene(t);
      // The chain's clock is far from the database's.
      stage.passHours(240);
      stage.net.mineBlocks(2);
      const { transaction, subscriptionPda } = await offered();
      await stage.land(buyer.wallet, transaction);
      stage.net.passSeconds(5);
      stage.net.mineBlocks(2);
      t.equal((await force()).status, 200);
      if (refund > 0n) {
        const [{ id }] = await stage.sql<[{ id: string }]>`
        select id from payments where subscription_id = ${buyer.first.id}`;
        const seller = buyer.first.plan.merchant;
        stage.net.fund(seller.address, { usdc: 50_000_000n, lamports: 1_000_000_000n });
        stage.net.mineBlocks(2);
        const asked = await merchant(`transactions/${id}/refunds`, { amount: String(refund) });
        t.equal(asked.status, 201, JSON.stringify(asked.body));
        await stage.land(seller, asked.body.data.transaction!);
        await stage.startKeeper();
        stage.mine();
        await stage.until('the refund is booked', async () => {
          const [row] = await stage.sql`select 1 from refunds where status = 'succeeded'`;
          return row !== undefined;
        });
      }
      const fresh = await register(subscriptionPda);
      const { credit, chainPeriodStart } = await read(fresh);
      const { periodStart, amountCredited } = await payment();
      const from = BigInt(periodStart.getTime() / 1000);
      const at = BigInt(chainPeriodStart.getTime() / 1000);
      const expected = unused(SMALL - refund, from, at);
      const [{ spent }] = await stage.sql<[{ spent: bigint }]>`
      select coalesce(sum(credit_applied), 0)::int8 as spent from invoices where state = 'paid'`;
      t.equal(credit + spent, expected, 'what was unused when it landed');
      t.equal(amountCredited, expected);
      t.match(await read(buyer.first), {
        ...{ status: 'cancelled', endReason: 'forced', replacedBy: fresh.id },
      });
      t.same(await listCreditFaults(stage.sql), []);
    },
  );

void t.test(
  'a change that was offered before a forced cancellation and lands after it is credited as shown',
  async (t) => {
    const { stage, buyer, force, offered, register, read, payment } = await scene(t);
    stage.passHours(240);
    stage.net.mineBlocks(2);
    const { transaction, subscriptionPda } = await offered();
    t.equal((await force()).status, 200);
    stage.net.passSeconds(5);
    stage.net.mineBlocks(2);
    await stage.land(buyer.wallet, transaction);
    const fresh = await register(subscriptionPda);
    const { credit, chainPeriodStart } = await read(fresh);
    const { periodStart, amountCredited } = await payment();
    const [from, at] = [periodStart, chainPeriodStart].map((time) => BigInt(time.getTime() / 1000));
    t.equal(credit, unused(SMALL, from!, at!), 'what was unused when it landed');
    t.equal(amountCredited, credit);
    t.match(await read(buyer.first), { endReason: 'forced', replacedBy: fresh.id });
  },
);

void t.test(
  'a change that is sent while a past-due subscription expires is charged as shown',
  async (t) => {
    const { stage, large, small } = await changeScene(t);
    const { sql, net } = stage;
    const { merchant, appId } = small;
    const more = async (amount: bigint) => {
      const made = await stage.plan({ amount, periodHours: HOURS, merchant });
      // The plan has one retry, at the expiry a day later.
      await sql`update plans set app_id = ${appId}, past_due_days = 1, retry_hours = '{24}'
      where id = ${made.id}`;
      return { ...made, appId };
    };
    const [dear, middle] = [await more(200_000_000n), await more(60_000_000n)];
    const buyer = await buys(stage, large);
    const { wallet, post } = buyer;
    net.fund(wallet.address, { lamports: 1_000_000_000n });
    net.mineBlocks(2);
    // A change to a plan that the wallet cannot pay. The subscription is then past due, with a
    // credit.
    const asked = await post(`subscriptions/${buyer.first.id}/change`, {
      ...{ planId: dear.id, when: 'now' },
    });
    const { transaction, subscriptionPda: pda } = asked.body.data as {
      transaction: string;
      subscriptionPda: string;
    };
    await stage.land(wallet, transaction);
    const made = await post('subscriptions', { appId, planId: dear.id, subscriptionPda: pda });
    const second: Subscription = { ...(made.body.data as { id: string }), pda, wallet, plan: dear };
    const parts = stage.parts();
    await parts.collect();
    const { pastDueSince } = await stage.row(second);
    net.passSeconds(Math.floor(pastDueSince!.getTime() / 1000) + 86_400 - stage.now() - 30);
    net.mineBlocks(2);
    const shown = await asks({ ...buyer, first: second }, middle);
    await hands(buyer, shown);
    const { sponsor } = stage.sponsor();
    await stage.net.rpc('localnet_setFault', { kind: 'drop', count: 1000 });
    await sponsor.turn(true);
    t.match(await endOf(stage, shown), { state: 'open' }, 'it is sent');
    net.passSeconds(40);
    net.mineBlocks(2);
    await parts.collect();
    t.match(await stage.row(second), { status: 'past_due' }, 'the end waits for the change');
    const failed = await sql`select 1 from payments where subscription_id = ${second.id}
    and status = 'failed'`;
    t.equal(failed.length, 1, 'and its last try does not count');
    await stage.net.rpc('localnet_clearFaults');
    await stage.until('the change is settled', async () => {
      await sponsor.turn(true);
      net.mineBlocks(1);
      return (await endOf(stage, shown))?.state === 'landed';
    });
    const { id } = (await endOf(stage, shown))!;
    const [books] = await sql`
    select credit_applied, amount_due from invoices where subscription_id = ${id}`;
    const today = BigInt(shown.today);
    t.match(books, { amountDue: today, creditApplied: 60_000_000n - today }, 'as it was shown');
    t.match(await sql`select replaced_by from subscriptions where id = ${second.id}`, [
      { replacedBy: id },
    ]);
    t.same(await listCreditFaults(sql), []);
  },
);

const relayed = (
  { post, wallet }: Buyer,
  { offerId, transaction }: { offerId: string; transaction: string },
) => post('transactions', { offerId, transaction: addSignature(wallet, transaction) });
