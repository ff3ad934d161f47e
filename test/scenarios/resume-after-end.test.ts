// A resume that was asked for while the registration was live, and is sent after it has ended: it
// would be registered anew, with the public terms of the plan. The service refuses it instead.
import t, { type Test } from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { startApiStage } from '../fixtures/api-stage.ts';
import {
  merchantOf,
  type Offer,
  offerOf,
  paid,
  registered,
  rowsOf,
} from '../fixtures/shown-terms.ts';

/** A cancelled subscription in a trial with 50 % off, and the offer to resume it. */
async function ending(t: Test) {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  await stage.sql`update plans set trial_hours = 168 where id = ${plan.id}`;
  const merchant = await merchantOf(stage, plan);
  await stage.startKeeper();
  const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
  const buyer = await stage.buyer(plan);
  const { transaction } = await offerOf(buyer, { checkoutSessionId: session.id });
  await stage.land(buyer.keypair, transaction);
  await registered(stage, buyer);
  await stage.quiet();
  const [row] = await rowsOf(stage, buyer);
  const first = { id: row!.id, pda: '', wallet: buyer.keypair, plan };
  await buyer.cancel(first);
  await stage.until('cancelled', async () => (await stage.row(first)).cancelRequestedAt !== null);
  await stage.quiet();
  stage.net.passSeconds(Math.floor(row!.trialEndsAt!.getTime() / 1000) - stage.now() - 30);
  const { body } = await buyer.post<Offer>(`subscriptions/${first.id}/resume`);
  const shown = await buyer.get(`subscriptions/${first.id}`);
  t.match(shown.body.data, { status: 'active', discount: { percentOff: 50 } }, 'it is live');
  const relay = ({ offerId, transaction: unsigned }: Offer) =>
    buyer.post<{ status: string }>('transactions', {
      offerId,
      transaction: addSignature(buyer.keypair, unsigned),
    });
  const end = async () => {
    stage.net.passSeconds(40);
    await stage.until('ended', async () => (await stage.row(first)).status === 'cancelled');
  };
  return { stage, buyer, merchant, first, offer: body.data, relay, end };
}

void t.test(
  'the relay refuses a resume offered before the end, and the wallet asks for another',
  async (t) => {
    const { stage, buyer, first, offer, relay, end } = await ending(t);
    await end();
    const refused = await relay(offer);
    t.match(refused, {
      status: 409,
      body: { error: { code: 'CONFLICT', message: /has ended.*ask .*again/ } },
    });
    await stage.quiet();
    t.equal((await rowsOf(stage, buyer)).length, 1);
    t.same(await paid(stage, buyer), []);
    const again = await buyer.post<Offer>(`subscriptions/${first.id}/resume`);
    t.match(await relay(again.body.data), { status: 200, body: { data: { status: 'confirmed' } } });
    await registered(stage, buyer, 2);
  },
);

void t.test(
  'the relay repeats its response to a resume that it accepted before the end',
  async (t) => {
    const { stage, buyer, merchant, first, offer, relay } = await ending(t);
    t.match((await relay(offer)).body.data, { status: 'confirmed' });
    await stage.until('it is resumed', async () => {
      return (await stage.row(first)).cancelRequestedAt === null;
    });
    const path = `${merchant.path}/subscriptions/${first.id}/cancel`;
    await stage.api.call('POST', path, { token: merchant.token, body: { mode: 'force' } });
    t.equal((await stage.row(first)).status, 'cancelled');
    t.match((await relay(offer)).body.data, { status: 'confirmed' });
    t.equal((await rowsOf(stage, buyer)).length, 1);
  },
);

void t.test(
  'a resume that landed before the end, and reaches the relay after it, registers nothing',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const merchant = await merchantOf(stage, plan);
    await stage.startKeeper();
    const buyer = await stage.buyer(plan, { usdc: 1n });
    const first = await buyer.buy();
    await stage.until('past due', async () => (await stage.row(first)).status === 'past_due');
    await buyer.cancel(first);
    await stage.until('ended', async () => (await stage.row(first)).status === 'cancelled');

    const { body } = await buyer.post<Offer>(`subscriptions/${first.id}/resume`);
    const { offerId, transaction } = body.data;
    await stage.land(buyer.keypair, transaction);
    await registered(stage, buyer, 2);
    const second = { ...first, id: (await rowsOf(stage, buyer))[1]!.id };
    await stage.until('past due', async () => (await stage.row(second)).status === 'past_due');
    const path = `${merchant.path}/subscriptions/${second.id}/cancel`;
    await stage.api.call('POST', path, { token: merchant.token, body: { mode: 'period_end' } });
    await stage.until('ended', async () => (await stage.row(second)).status === 'cancelled');

    stage.net.fund(buyer.wallet, { usdc: 20_000_000n });
    const signed = { offerId, transaction: addSignature(buyer.keypair, transaction) };
    const answer = await buyer.post('transactions', signed);
    t.match(answer.body.data, { status: 'confirmed' });
    await stage.quiet();
    t.equal((await rowsOf(stage, buyer)).length, 2, 'what has ended stays ended');
    t.same(await paid(stage, buyer), [], 'nothing is charged');
  },
);

void t.test(
  'a resume in the second in which the ended invoice began its cover is billed from the next one',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const keeper = await stage.startKeeper();
    const buyer = await stage.buyer(plan, { usdc: 1n });
    const first = await buyer.buy();
    await stage.until('past due', async () => (await stage.row(first)).status === 'past_due');
    await buyer.cancel(first);
    await stage.until('ended', async () => (await stage.row(first)).status === 'cancelled');
    await keeper.stop();
    const { body } = await buyer.post<Offer>(`subscriptions/${first.id}/resume`);
    const { offerId, transaction } = body.data;
    const signed = { offerId, transaction: addSignature(buyer.keypair, transaction) };
    t.match((await buyer.post('transactions', signed)).body.data, { status: 'confirmed' });
    const second = { ...first, id: (await rowsOf(stage, buyer))[1]!.id };
    await stage.sql`
      update subscriptions s set billed_from = i.covers_from from invoices i
      where i.subscription_id = ${first.id} and s.id = ${second.id}`;
    await stage.startKeeper();
    await stage.until('past due', async () => (await stage.row(second)).status === 'past_due');
    const covers = await stage.sql<{ coversFrom: Date }[]>`
      select covers_from from invoices order by id`;
    const [ended, next] = covers.map(({ coversFrom }) => coversFrom.getTime());
    t.equal(next! - ended!, 1000);
  },
);
