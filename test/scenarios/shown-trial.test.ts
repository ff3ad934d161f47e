// A trial that an offer showed is given, whatever the plan's trial is by then. If the wallet's one
// trial is used by then, nothing is registered before the wallet accepts the amount.
import t from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { cancelInstructions } from '../../src/chain/transactions/subscriptions.ts';
import { type ApiStage, type Buyer, startApiStage } from '../fixtures/api-stage.ts';
import type { Plan } from '../fixtures/billing.ts';
import {
  merchantOf,
  type Offer,
  offerOf,
  paid,
  post,
  registered,
  rowsOf,
  standingOf,
} from '../fixtures/shown-terms.ts';

async function start(t: Parameters<typeof startApiStage>[0]) {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  return { stage, plan, merchant: await merchantOf(stage, plan) };
}

const relayed = (buyer: Buyer, { transaction, offerId }: Offer) =>
  buyer.post<{ status: string; subscription: object | null }>('transactions', {
    transaction: addSignature(buyer.keypair, transaction),
    offerId,
  });

/** Lands the offer's transaction and has it registered. */
async function registerBy(
  by: 'keeper' | 'relay' | 'wallet',
  { stage, buyer, offer }: { stage: ApiStage; buyer: Buyer; offer: Offer },
) {
  if (by === 'relay') await relayed(buyer, offer);
  else await stage.land(buyer.keypair, offer.transaction);
  if (by === 'wallet') await post(buyer, offer.subscriptionPda, { offerId: offer.offerId });
  await stage.startKeeper();
  await registered(stage, buyer);
  await stage.quiet();
}

for (const by of ['keeper', 'relay', 'wallet'] as const)
  void t.test(
    `a trial that was removed after the offer is still given, registered by the ${by}`,
    async (t) => {
      const { stage, plan, merchant } = await start(t);
      await merchant.patchPlan({ trialHours: 168 });
      const buyer = await stage.buyer(plan);
      const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 10 } });
      t.match(await standingOf(buyer, { session }), { usdcNeeded: '0', trialHours: 168 });
      const offer = await offerOf(buyer, by === 'relay' ? { checkoutSessionId: session.id } : {});
      await merchant.patchPlan({ trialHours: null });
      await registerBy(by, { stage, buyer, offer });
      t.same(await paid(stage, buyer), []);
      t.ok((await rowsOf(stage, buyer))[0]!.trialEndsAt);
    },
  );

for (const by of ['keeper', 'relay'] as const)
  void t.test(
    `a trial that was removed after the offer of a resume is still given, registered by the ${by}`,
    async (t) => {
      const { stage, plan, merchant } = await start(t);
      const buyer = await stage.buyer(plan);
      const { id, pda } = await buyer.buy();
      const { path, token } = merchant;
      for (const [verb, body] of [
        ['cancel', { mode: 'force' }],
        ['reinstate', {}],
      ] as const)
        await stage.api.call('POST', `${path}/subscriptions/${id}/${verb}`, { token, body });
      const of = { subscriber: buyer.wallet, plan: plan.pda, subscription: pda };
      await stage.send([buyer.keypair], cancelInstructions(stage.net.programId, of));
      await merchant.patchPlan({ trialHours: 168 });
      t.match(await standingOf(buyer), { usdcNeeded: '0', trialHours: 168 });
      const { body } = await buyer.post<Offer>(`subscriptions/${id}/resume`);
      if (by === 'keeper') await stage.land(buyer.keypair, body.data.transaction);
      await merchant.patchPlan({ trialHours: null });
      if (by === 'relay') await relayed(buyer, body.data);
      await stage.startKeeper();
      await registered(stage, buyer, 2);
      await stage.quiet();
      t.same(await paid(stage, buyer), []);
      t.ok((await rowsOf(stage, buyer))[1]!.trialEndsAt);
    },
  );

void t.test('a trial that is added after the offer is not given', async (t) => {
  const { stage, plan, merchant } = await start(t);
  const buyer = await stage.buyer(plan);
  const offer = await offerOf(buyer);
  await merchant.patchPlan({ trialHours: 168 });
  await stage.land(buyer.keypair, offer.transaction);
  await stage.startKeeper();
  await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
  t.same(await paid(stage, buyer), [5_000_000n]);
  t.equal((await rowsOf(stage, buyer))[0]!.trialEndsAt, null);
});

/** Two plans with a trial, and a wallet that has asked for an offer of each. */
async function twoTrials(t: Parameters<typeof startApiStage>[0]) {
  const { stage, plan, merchant } = await start(t);
  const { merchant: owner, appId } = plan;
  const other: Plan = await stage.plan({ amount: 9_000_000n, periodHours: 720, merchant: owner });
  await stage.sql`update plans set app_id = ${appId} where id = ${other.id}`;
  await stage.sql`update plans set trial_hours = 168 where app_id = ${appId}`;
  const buyer = await stage.buyer(plan);
  // The wallet opens its authority, so that both transactions can land.
  await stage.open(await stage.plan(), buyer.keypair);
  const first = await offerOf(buyer);
  t.match(await standingOf(buyer, { plan: other }), { usdcNeeded: '0', trialHours: 168 });
  const second = (await buyer.post<Offer>(`plans/${other.id}/subscribe`)).body.data;
  await stage.startKeeper();
  await stage.land(buyer.keypair, first.transaction);
  await registered(stage, buyer);
  const own = (more: object = {}) =>
    buyer.post<{ nextAmount: string }>('subscriptions', {
      ...{ appId, planId: other.id, subscriptionPda: second.subscriptionPda },
      ...more,
    });
  return { stage, merchant, other, buyer, second, own };
}

void t.test(
  'a second trial that was shown is not given: the wallet accepts the amount first',
  async (t) => {
    const { stage, merchant, other, buyer, second, own } = await twoTrials(t);
    await merchant.patch({ registerUnclaimed: true });
    await stage.land(buyer.keypair, second.transaction);
    await stage.until('it is listed', async () => (await merchant.unregistered()).length === 1);
    await stage.quiet();
    t.same(await paid(stage, buyer), []);
    t.match(await standingOf(buyer, { plan: other }), { usdcNeeded: '9000000', trialHours: null });
    const named = await own({ offerId: second.offerId });
    t.equal(named.status, 409);
    t.match(named.body.error, { code: 'CONFLICT', details: [{ path: 'offerId' }] });
    t.equal((await own()).status, 201);
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
    t.same(await paid(stage, buyer), [9_000_000n]);
  },
);

void t.test('the relay registers nothing for an offer that showed a second trial', async (t) => {
  const { stage, buyer, second } = await twoTrials(t);
  const { body } = await relayed(buyer, second);
  t.match(body.data, { status: 'confirmed', subscription: null });
  await stage.quiet();
  t.equal((await rowsOf(stage, buyer)).length, 1);
  t.same(await paid(stage, buyer), []);
});
