// A change of plan lands while no keeper runs, the wallet resumes the old account with a client of
// its own, and the old account's next period begins before a keeper registers the change.
import t, { type Test } from 'tap';
import { resumeSubscription } from '../../src/chain/program/instructions.ts';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import * as sponsored from '../fixtures/sponsored-changes.ts';

const [SMALL, LARGE] = [5_000_000n, 25_000_000n];
const HOURS = 24;

/** The state 15 hours after the landing of a change at hour 10: the keepers have been away. */
async function changedWhileAway(t: Test, { isLanded = true } = {}) {
  const scene = await startPlanChanges(
    t,
    [SMALL, LARGE].map((amount) => ({ amount: Number(amount) / 1e6, hours: HOURS })),
  );
  const { stage, buyer, ask, resume } = scene;
  const [, large] = scene.plans as [Plan, Plan];
  const keeper = await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  await keeper.stop();
  stage.passHours(10);
  stage.net.mineBlocks(2);
  const shown = await ask(first, large);
  if (isLanded) {
    await stage.land(buyer.keypair, shown.transaction);
    await resume(first);
  }
  stage.passHours(15);
  // The database's clock follows the chain's.
  await stage.sql`
    update offers set created_at = created_at - interval '15 hours',
      look_at = look_at - interval '15 hours'`;
  const before = await stage.balance(buyer.wallet);
  const charged = async () => before - (await stage.balance(buyer.wallet));
  return { ...scene, first, large, shown, charged };
}

type Scene = Awaited<ReturnType<typeof changedWhileAway>>;

/**
 * Registers the change. Checks that the wallet pays the shown amount, however long ago it was
 * shown.
 */
async function checkRegistered(t: Test, scene: Scene, pulls: number) {
  const { stage, first, large, shown, charged, registered, newest } = scene;
  await stage.startKeeper();
  await registered(first, large);
  await stage.quiet();
  const old = await stage.payments(first);
  t.equal(old.length, 1 + pulls);
  for (const [index, { amountCredited }] of old.entries())
    if (index === 0) t.ok(near(amountCredited, BigInt(shown.credit)), 'the rest of the old period');
    else t.equal(amountCredited, SMALL, 'all of a period that began after the change');
  const [paid] = await stage.payments(await newest(large));
  const pulled = SMALL * BigInt(pulls);
  t.ok(near(paid!.creditSpent, BigInt(shown.credit) + pulled));
  // The new plan is charged from the keeper's return on, so what is paid in all is less than shown.
  const { amountGross, creditSpent } = paid!;
  t.equal(await charged(), amountGross + pulled);
  t.ok(amountGross + creditSpent <= LARGE);
  t.same(await listCreditFaults(stage.sql), []);
}

/** The landing is a few seconds after the time for which the credit is shown. */
const near = (found: bigint | null, shown: bigint) =>
  found !== null && found <= shown && shown - found < 1000n;

void t.test(
  'a keeper collects nothing from the subscription that the change replaces',
  async (t) => {
    const scene = await changedWhileAway(t);
    const { collect, taken } = scene.stage.parts();
    await collect();
    t.same(taken, [], 'before it registers the change');
    await checkRegistered(t, scene, 0);
  },
);

void t.test('if two keeper loops run at once, a change credits only the old period', async (t) =>
  checkRegistered(t, await changedWhileAway(t), 0),
);

void t.test(
  'a period that a keeper collects after the change landed is also credited',
  async (t) => {
    const scene = await changedWhileAway(t);
    const { stage, first } = scene;
    // The keeper does not know the change yet when it collects. A whole keeper lists the accounts
    // of all plans at its start, and might register the change first, whatever look_at is.
    await stage.sql`update offers set look_at = 'infinity'`;
    const { collect, taken, track } = stage.parts();
    const tracker = track();
    t.teardown(() => tracker.stop(0));
    await collect();
    tracker.add(taken);
    await stage.until('it collects', async () => (await stage.payments(first)).length === 2);
    await tracker.stop(0);
    await stage.sql`update offers set look_at = null`;
    await checkRegistered(t, scene, 1);
  },
);

void t.test('an unsigned change offer does not delay a renewal', async (t) => {
  const { stage, first, charged } = await changedWhileAway(t, { isLanded: false });
  await stage.startKeeper();
  await stage.until('it is paid', async () => (await stage.payments(first)).length === 2);
  t.equal(await charged(), SMALL);
});

void t.test(
  'no keeper collects the old subscription before a sponsored change is settled',
  async (t) => {
    const { stage, small, large } = await sponsored.changeScene(t);
    const { net, sql } = stage;
    const buyer = await sponsored.buys(stage, small);
    const { wallet, first } = buyer;
    stage.passHours(sponsored.HOURS - 1);
    net.mineBlocks(2);
    const shown = await sponsored.asks(buyer, large);
    await sponsored.hands(buyer, shown);
    await stage.sponsor().sponsor.turn(true);
    net.mineBlocks(2);
    net.fund(wallet.address, { lamports: 1_000_000_000n });
    const { expiresAt } = (await stage.onChain(first))!;
    const parties = { subscriber: wallet.address, plan: small.pda, subscription: first.pda };
    const resume = resumeSubscription(net.programId, { ...parties, mint: net.mint, expiresAt });
    await stage.send([wallet], [resume]);
    stage.passHours(1);
    net.mineBlocks(2);
    const { collect, taken } = stage.parts();
    await collect();
    t.same(taken, []);
    t.match(await stage.row(first), { status: 'active', cancelRequestedAt: null });

    net.mineBlocks(sponsored.FINAL_BLOCKS);
    await stage.orphan();
    await stage.sponsor().sponsor.turn(true);
    const { state, id } = (await sponsored.endOf(stage, shown))!;
    t.equal(state, 'landed');
    const fresh = { ...first, id: id!, pda: shown.subscriptionPda, plan: large };
    t.match(await stage.payments(fresh), [{ amountGross: BigInt(shown.today) }]);
    t.equal((await stage.payments(first)).length, 1);
    t.same(await listCreditFaults(sql), []);
  },
);
