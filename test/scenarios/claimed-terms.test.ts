// A wallet registers what a keeper has already registered: which terms it sets, and which terms
// stay.
import t from 'tap';
import { startApiStage } from '../fixtures/api-stage.ts';
import {
  merchantOf,
  offerOf,
  paid,
  post,
  registered,
  rowsOf,
  standingOf,
} from '../fixtures/shown-terms.ts';

async function start(t: Parameters<typeof startApiStage>[0], settings: object = {}) {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const merchant = await merchantOf(stage, plan);
  await merchant.patch({ registerUnclaimed: true, ...settings });
  await stage.startKeeper();
  return { stage, plan, merchant };
}

void t.test(
  'a second wallet of the same customer gets no second trial from its session',
  async (t) => {
    const { stage, plan, merchant } = await start(t, { onePerCustomer: false });
    const trial = { externalId: 'alice', trialHours: 48, allowSecond: true };
    const one = await stage.buyer(plan);
    const offer = await offerOf(one, { checkoutSessionId: (await merchant.session(trial)).id });
    await stage.land(one.keypair, offer.transaction);
    await registered(stage, one);
    t.ok((await rowsOf(stage, one))[0]!.trialEndsAt);
    const two = await stage.buyer(plan);
    const session = await merchant.session(trial);
    t.match(await standingOf(two, { session }), { usdcNeeded: '5000000', trialHours: null });
    const pda = await stage.open(plan, two.keypair);
    await registered(stage, two);
    t.equal((await post(two, pda, { checkoutSessionId: session.id })).status, 201);
    await stage.until('it is paid', async () => (await paid(stage, two)).length === 1);
    t.match(await rowsOf(stage, two), [{ externalId: 'alice', trialEndsAt: null }]);
  },
);

void t.test('ids that the wallet sets do not replace those of its checkout session', async (t) => {
  const { stage, plan, merchant } = await start(t, { ownIdsBySubscriber: true });
  const buyer = await stage.buyer(plan);
  const session = await merchant.session({ externalId: 'alice', trialHours: 48 });
  const offer = await offerOf(buyer, { checkoutSessionId: session.id });
  await stage.land(buyer.keypair, offer.transaction);
  await registered(stage, buyer);
  const own = await post(buyer, offer.subscriptionPda, {
    externalId: 'mallory',
    metadata: { plan: 'free' },
  });
  t.equal(own.status, 201);
  const [row] = await rowsOf(stage, buyer);
  t.equal(row!.externalId, 'alice');
  const [{ metadata, ownIdsFrom }] = await stage.sql<[{ metadata: object; ownIdsFrom: string }]>`
    select metadata, own_ids_from from subscriptions where id = ${row!.id}`;
  t.same({ metadata, ownIdsFrom }, { metadata: {}, ownIdsFrom: 'checkout' });
});

void t.test(
  'a session with other discount terms cannot claim a registered subscription',
  async (t) => {
    const { stage, plan, merchant } = await start(t);
    const discounted = (periods: number) =>
      merchant.session({ externalId: 'alice', discount: { percentOff: 50, periods } });
    const buyer = await stage.buyer(plan);
    const offer = await offerOf(buyer, { checkoutSessionId: (await discounted(1)).id });
    const other = await discounted(12);
    await stage.land(buyer.keypair, offer.transaction);
    await registered(stage, buyer);
    const { status, body } = await post(buyer, offer.subscriptionPda, {
      checkoutSessionId: other.id,
    });
    t.equal(status, 409);
    t.match(body.error?.message, (await rowsOf(stage, buyer))[0]!.id);
    t.match(await merchant.read(other), { subscriptionId: null });
  },
);

void t.test('of two concurrent registrations with a trial only one gets the trial', async (t) => {
  const { stage, plan, merchant } = await start(t);
  const other = await stage.plan({ amount: 9_000_000n, merchant: plan.merchant });
  await stage.sql`update plans set app_id = ${plan.appId} where id = ${other.id}`;
  for (let turn = 0; turn < 3; turn += 1) {
    const buyer = await stage.buyer(plan);
    const pdas = [await stage.open(plan, buyer.keypair), await stage.open(other, buyer.keypair)];
    await registered(stage, buyer, 2);
    const claims = await Promise.all(
      [plan, other].map(async ({ id: planId }, index) => {
        const session = await merchant.session({ planId, trialHours: 48 });
        return { planId, subscriptionPda: pdas[index]!, checkoutSessionId: session.id };
      }),
    );
    const answers = await Promise.all(
      claims.map((claim) => post(buyer, claim.subscriptionPda, claim)),
    );
    t.same(
      answers.map(({ status }) => status),
      [201, 201],
    );
    const trials = (await rowsOf(stage, buyer)).filter((row) => row.trialEndsAt !== null);
    t.equal(trials.length, 1);
  }
});

for (const inSession of [true, false])
  void t.test(
    `a trial added to the plan during the keeper's wait is granted, ${inSession ? 'in a' : 'without a'} session`,
    async (t) => {
      const { stage, plan, merchant } = await start(t);
      const buyer = await stage.buyer(plan);
      const pda = await stage.open(plan, buyer.keypair);
      await registered(stage, buyer);
      await merchant.patchPlan({ trialHours: 168 });
      const session = inSession
        ? await merchant.session({ externalId: 'alice', discount: { percentOff: 10 } })
        : undefined;
      const shown = await standingOf(buyer, session && { session });
      t.match(shown, { usdcNeeded: '0', trialHours: 168 });
      const more = session === undefined ? {} : { checkoutSessionId: session.id };
      t.equal((await post(buyer, pda, more)).status, 201);
      await stage.quiet();
      t.same(await paid(stage, buyer), []);
      const [row] = await rowsOf(stage, buyer);
      t.ok(row!.trialEndsAt);
      t.same(row!.nextPaymentDue, row!.trialEndsAt);
    },
  );
