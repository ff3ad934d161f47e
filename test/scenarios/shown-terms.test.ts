// What a wallet is charged equals what the page showed before it signed, whoever registers the
// account first.
import t from 'tap';
import { signatureOf } from '../../src/chain/keypair.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { recordRelayed } from '../../src/db/offers/offers.ts';
import { startApiStage } from '../fixtures/api-stage.ts';
import {
  merchantOf,
  nextBlockhash,
  type Offer,
  offerOf,
  paid,
  post,
  registered,
  rowsOf,
} from '../fixtures/shown-terms.ts';

/** An app with registerUnclaimed, a keeper, and an account that the wallet's own client opened. */
async function openedElsewhere(t: Parameters<typeof startApiStage>[0], trialHours?: number) {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  if (trialHours !== undefined)
    await stage.sql`update plans set trial_hours = ${trialHours} where id = ${plan.id}`;
  const merchant = await merchantOf(stage, plan);
  await merchant.patch({ registerUnclaimed: true });
  const keeper = await stage.startKeeper();
  const buyer = await stage.buyer(plan);
  const open = async () => {
    const pda = await stage.open(plan, buyer.keypair);
    await registered(stage, buyer);
    await stage.quiet();
    return pda;
  };
  return { stage, plan, merchant, keeper, buyer, open };
}

void t.test(
  'without an offer the keeper waits two minutes, and the wallet’s session sets the terms',
  async (t) => {
    const { stage, merchant, buyer, keeper, open } = await openedElsewhere(t);
    const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
    const other = await merchant.session({ externalId: 'bob', discount: { percentOff: 90 } });
    const pda = await open();
    const [waiting] = await rowsOf(stage, buyer);
    t.ok(Number(waiting!.nextPaymentDue) / 1000 > stage.now() + 60, 'due later');
    t.same(
      (await stage.sql`select type from events where type = 'renewal_upcoming'`).length,
      0,
      'a first payment is no renewal',
    );
    await keeper.stop();
    await stage.startKeeper();
    await stage.quiet();
    t.same(await paid(stage, buyer), [], 'a restart does not end the wait');
    const { status, body } = await post(buyer, pda, { checkoutSessionId: session.id });
    t.equal(status, 201);
    t.match(body.data, { id: waiting!.id, nextAmount: '2500000' });
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length > 0);
    t.same(await paid(stage, buyer), [2_500_000n]);
    t.match(await rowsOf(stage, buyer), [{ externalId: 'alice', discountPercent: 50 }]);
    t.match(await merchant.read(session), { subscriptionId: waiting!.id });
    const later = await post(buyer, pda, { checkoutSessionId: other.id });
    t.equal(later.status, 409);
    t.match(later.body.error?.message, new RegExp(`${waiting!.id}.*PATCH`));
    t.match(await merchant.read(other), { subscriptionId: null });
  },
);

void t.test(
  'without an offer a registration without a session ends the keeper’s wait',
  async (t) => {
    const { stage, buyer, open } = await openedElsewhere(t);
    const pda = await open();
    t.same(await paid(stage, buyer), []);
    t.equal((await post(buyer, pda)).status, 201);
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length > 0);
    t.same(await paid(stage, buyer), [5_000_000n]);
  },
);

void t.test(
  'without an offer the public terms are charged after two minutes, and a later session is refused',
  async (t) => {
    const { stage, merchant, buyer, open } = await openedElsewhere(t);
    const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
    const pda = await open();
    t.same(await paid(stage, buyer), []);
    stage.net.passSeconds(121);
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length > 0);
    t.same(await paid(stage, buyer), [5_000_000n], 'for the whole period');
    const [row] = await rowsOf(stage, buyer);
    const late = await post(buyer, pda, { checkoutSessionId: session.id });
    t.equal(late.status, 409);
    t.match(late.body.error?.message, new RegExp(`${row!.id}.*PATCH`));
    t.match(await rowsOf(stage, buyer), [{ externalId: null, discountPercent: null }]);
    t.equal((await post(buyer, pda)).status, 201, 'it is still claimed');
  },
);

void t.test(
  'without an offer the wallet’s session gives the trial, and another wallet’s session is refused',
  async (t) => {
    const { stage, merchant, buyer, open } = await openedElsewhere(t);
    const foreign = await merchant.session({
      trialHours: 48,
      subscriberWallet: stage.wallet().address,
    });
    const session = await merchant.session({ trialHours: 48 });
    const pda = await open();
    t.equal((await post(buyer, pda, { checkoutSessionId: foreign.id })).status, 403);
    t.equal((await post(buyer, pda, { checkoutSessionId: session.id })).status, 201);
    await stage.quiet();
    const [row] = await rowsOf(stage, buyer);
    t.ok(row!.trialEndsAt);
    t.same(row!.nextPaymentDue, row!.trialEndsAt);
    t.same(await paid(stage, buyer), []);
  },
);

void t.test(
  'without an offer an account whose trial is over is listed, not charged more than shown',
  async (t) => {
    const { stage, plan, merchant, buyer, keeper, open } = await openedElsewhere(t, 168);
    await open();
    t.ok((await rowsOf(stage, buyer))[0]?.trialEndsAt, 'with the trial');
    await keeper.stop();
    const late = await stage.buyer(plan);
    await stage.open(plan, late.keypair);
    stage.passHours(200);
    await stage.startKeeper();
    await stage.until('it is listed', async () => (await merchant.unregistered()).length === 1);
    t.same(await rowsOf(stage, late), [], 'its trial is over: it is asked first');
    const standing = await late.get<{ usdcNeeded: string; trialHours: number | null }>(
      `plans/${plan.id}/standing`,
    );
    t.match(standing.body.data, { trialHours: null });
    const due = BigInt(standing.body.data.usdcNeeded);
    t.ok(due > 3_000_000n && due < 3_700_000n, `${due}: the rest of the period`);
  },
);

void t.test(
  'of several offers with different terms, the landed offer decides the terms',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const merchant = await merchantOf(stage, plan);
    /** Sessions of one customer. */
    const sessions = (externalId: string, ...percents: number[]) =>
      Promise.all(
        percents.map((percentOff) => merchant.session({ externalId, discount: { percentOff } })),
      );
    const keeper = await stage.startKeeper();

    await t.test(
      "of several offers, the offer with the landed transaction's blockhash decides the terms",
      async (t) => {
        const buyer = await stage.buyer(plan);
        const [cheap, dear] = await sessions('alice', 50, 10);
        const signed = await offerOf(buyer, { checkoutSessionId: dear!.id });
        await nextBlockhash(stage);
        await offerOf(buyer, { checkoutSessionId: cheap!.id });
        await offerOf(buyer);
        await stage.land(buyer.keypair, signed.transaction);
        await registered(stage, buyer);
        await stage.quiet();
        t.same(await paid(stage, buyer), [4_500_000n]);
        t.match(await merchant.read(dear!), {
          subscriptionId: (await rowsOf(stage, buyer))[0]!.id,
        });
        const own = await post(buyer, signed.subscriptionPda, { offerId: signed.offerId });
        t.equal(own.status, 201, 'what the keeper has registered stands');
      },
    );

    await t.test(
      'of several offers, the offer with the landed signature that the relay stored decides the terms',
      async (t) => {
        const buyer = await stage.buyer(plan);
        const [third, cheap] = await sessions('bob', 20, 50);
        const [first, second] = await Promise.all([
          offerOf(buyer, { checkoutSessionId: third!.id }),
          offerOf(buyer, { checkoutSessionId: cheap!.id }),
        ]);
        t.not(first.offerId, second.offerId);
        const bytes = Buffer.from(addSignature(buyer.keypair, first.transaction), 'base64');
        const signature = signatureOf(bytes);
        const { offerId: id, subscriptionPda } = first;
        const offer = { id, purpose: 'subscribe', replaces: null, subscriptionPda } as const;
        const lifetime = { blockhash: 'unknown', lastValidBlockHeight: 0n, slot: 0n };
        await recordRelayed(stage.sql, offer, { signature, ...lifetime });
        await stage.land(buyer.keypair, first.transaction);
        await registered(stage, buyer);
        await stage.quiet();
        t.same(await paid(stage, buyer), [4_000_000n]);
      },
    );

    await t.test(
      'of several offers, the offer that the wallet names decides, else the lowest first payment',
      async (t) => {
        await keeper.stop();
        for (const named of [true, false]) {
          const [fourth] = await sessions(`carol ${named}`, 30);
          const buyer = await stage.buyer(plan);
          const plain = await offerOf(buyer);
          await offerOf(buyer, { checkoutSessionId: fourth!.id });
          const stranger = await offerOf(await stage.buyer(plan));
          const pda = await stage.open(plan, buyer.keypair);
          const foreign = await post(buyer, pda, { offerId: stranger.offerId });
          t.equal(foreign.status, 400, 'no offer of this wallet');
          t.match(foreign.body.error, { code: 'VALIDATION_ERROR', details: [{ path: 'offerId' }] });
          const own = await post(buyer, pda, named ? { offerId: plain.offerId } : {});
          t.equal(own.status, 201);
          t.equal(own.body.data.nextAmount, named ? '5000000' : '3500000');
        }
      },
    );
  },
);

void t.test(
  'of two offered changes of plan, the signed change is registered, not the newest',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const dearer = await stage.plan({
      amount: 9_000_000n,
      periodHours: 720,
      merchant: plan.merchant,
    });
    await stage.sql`update plans set app_id = ${plan.appId} where id = ${dearer.id}`;
    await stage.startKeeper();
    for (const signed of ['period_end', 'now'] as const) {
      const buyer = await stage.buyer(plan);
      const bought = await buyer.buy();
      await stage.until('it is paid', async () => (await paid(stage, buyer)).length > 0);
      await stage.quiet();
      const ask = async (when: string) =>
        (
          await buyer.post<Offer>(`subscriptions/${bought.id}/change`, {
            planId: dearer.id,
            when,
          })
        ).body.data;
      const first = await ask(signed);
      await nextBlockhash(stage);
      await ask(signed === 'now' ? 'period_end' : 'now');
      await stage.land(buyer.keypair, first.transaction);
      await registered(stage, buyer, 2);
      const [, row] = await rowsOf(stage, buyer);
      t.equal(row!.replaces, bought.id);
      t.equal(row!.startsAt === null, signed === 'now', signed);
    }
  },
);

void t.test('standing shows what registering an ended, live account costs', async (t) => {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  await stage.sql`update plans set trial_hours = 168 where id = ${plan.id}`;
  const { token, path } = await merchantOf(stage, plan);
  await stage.startKeeper();
  const buyer = await stage.buyer(plan);
  const bought = await buyer.buy();
  await stage.quiet();
  await stage.api.call('POST', `${path}/subscriptions/${bought.id}/cancel`, { token, body: {} });
  stage.passHours(9 * 24);
  await stage.until('it ended', async () => (await stage.row(bought)).status === 'cancelled');
  const { body } = await buyer.get<{
    onChain: string;
    usdcNeeded: string;
    trialHours: number | null;
    schedule: { amount: string }[];
  }>(`plans/${plan.id}/standing`);
  t.match(body.data, { onChain: 'live', subscriptionId: null, trialHours: null });
  const shown = BigInt(body.data.usdcNeeded);
  t.equal(body.data.schedule[0]?.amount, body.data.usdcNeeded);
  t.ok(shown >= 3_490_000n && shown <= 3_500_000n, `${shown}`);
  const { status } = await buyer.register(bought.pda);
  t.equal(status, 201, 'the API registers at once');
  await stage.until('it is paid', async () => (await paid(stage, buyer)).length > 0);
  const [amount = 0n] = await paid(stage, buyer);
  t.ok(amount <= shown && amount >= shown - 10_000n, `${amount} of ${shown}`);
});

void t.test('standing shows the cost of a deferred change that is registered late', async (t) => {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const { merchant } = plan;
  const dearer = await stage.plan({ amount: 9_000_000n, periodHours: 720, merchant });
  await stage.sql`update plans set app_id = ${plan.appId} where id = ${dearer.id}`;
  const keeper = await stage.startKeeper();
  const buyer = await stage.buyer(plan);
  const bought = await buyer.buy();
  await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
  await stage.quiet();
  await keeper.stop();
  const { body: offered } = await buyer.post<Offer>(`subscriptions/${bought.id}/change`, {
    ...{ planId: dearer.id, when: 'period_end' },
  });
  const { transaction, subscriptionPda, offerId } = offered.data;
  await stage.land(buyer.keypair, transaction);
  stage.passHours(960);
  const { body } = await buyer.get<{ onChain: string; usdcNeeded: string }>(
    `plans/${dearer.id}/standing`,
  );
  const shown = BigInt(body.data.usdcNeeded);
  t.match(body.data, { onChain: 'live' });
  t.ok(shown > 5_900_000n && shown <= 9_000_000n, `${shown}`);
  const { status } = await buyer.post('subscriptions', {
    ...{ appId: plan.appId, planId: dearer.id, subscriptionPda, offerId },
  });
  t.equal(status, 201);
  await stage.startKeeper();
  await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 2);
  const [, amount = 0n] = await paid(stage, buyer);
  t.ok(amount <= shown && amount >= shown - 10_000n, `${amount} of ${shown}`);
});
