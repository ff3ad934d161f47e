// A change of plan that its wallet was offered and rejected registers nothing, although the account
// that it would have opened or resumed is live by other means.
import bs58 from 'bs58';
import t, { type Test } from 'tap';
import { findOffers } from '../../src/db/offers/offers.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import {
  merchantOf,
  nextBlockhash,
  registered,
  rowsOf,
  standingOf,
} from '../fixtures/shown-terms.ts';

/** Plans at 5, 25 and 30 USDC, the last one with a trial; a paid subscription to the first one. */
async function scene(t: Test) {
  const changes = await startPlanChanges(t, [5, 25, 30]);
  const { stage, plans, buyer } = changes;
  const [small, large, third] = plans as [Plan, Plan, Plan];
  await stage.sql`update plans set trial_hours = 168 where id = ${third.id}`;
  const merchant = await merchantOf(stage, small);
  const keeper = await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  /** Waits until a keeper has decided about the live account. */
  const decided = async (count: number) => {
    await stage.until(
      'it is registered or listed',
      async () =>
        (await rowsOf(stage, buyer)).length === count || (await merchant.unregistered()).length > 0,
    );
    await stage.quiet();
  };
  const charged = async (act: () => Promise<unknown>) => {
    const before = await stage.balance(buyer.wallet);
    await act();
    return before - (await stage.balance(buyer.wallet));
  };
  return { ...changes, small, large, third, merchant, keeper, first, decided, charged };
}

void t.test(
  'an unsigned change of a cancelled subscription does not register an account opened elsewhere',
  async (t) => {
    const { stage, buyer, large, first, ask, merchant, decided, charged } = await scene(t);
    await ask(first, large);
    await buyer.cancel(first);
    stage.passHours(1);
    const amount = await charged(async () => {
      await stage.open(large, buyer.keypair);
      await decided(2);
    });
    t.equal(amount, 0n);
    t.equal((await merchant.unregistered()).length, 1);
    t.match(await rowsOf(stage, buyer), [{ id: first.id, status: 'active' }]);
  },
);

for (const registerUnclaimed of [false, true])
  void t.test(
    `an unsigned change registers nothing after another change, registerUnclaimed: ${registerUnclaimed}`,
    async (t) => {
      const { stage, buyer, large, third, first, ask, change, ...rest } = await scene(t);
      const { merchant, decided, charged } = rest;
      await merchant.patch({ registerUnclaimed });
      await ask(first, third);
      await change(first, large);
      const amount = await charged(async () => {
        await stage.open(third, buyer.keypair);
        await decided(3);
      });
      t.equal(amount, 0n, 'the public terms show a trial');
      const rows = await rowsOf(stage, buyer);
      t.equal(rows.length, registerUnclaimed ? 3 : 2);
      if (registerUnclaimed) t.match(rows[2], { planId: third.id, replaces: null });
    },
  );

for (const isAsked of [false, true])
  void t.test(
    `a replaced account that is resumed stays replaced, the change back offered: ${isAsked}`,
    async (t) => {
      const { stage, buyer, large, first, ask, change, resume, ...rest } = await scene(t);
      const { merchant, decided, read } = rest;
      const second = await change(first, large);
      if (isAsked) await ask(second, first.plan);
      await buyer.cancel(second);
      await stage.quiet();
      const { credit, paidThrough } = await read(second);
      await resume(first);
      await decided(3);
      t.match(await read(second), { status: 'active', credit, paidThrough });
      t.equal((await rowsOf(stage, buyer)).length, 2);
      t.match(await merchant.unregistered(), [{ subscriptionPda: first.pda }]);
    },
  );

void t.test(
  'a change that the wallet sends itself with another blockhash is registered as a change',
  async (t) => {
    const { stage, buyer, large, first, ask, read, newest, charged } = await scene(t);
    const { transaction, today } = await ask(first, large);
    const [offer] = await findOffers(stage.sql, buyer.wallet, { blockhash: '' });
    await nextBlockhash(stage);
    const { blockhash } = await stage.rpc.getLatestBlockhash();
    const bytes = Buffer.from(transaction, 'base64');
    const index = bytes.indexOf(bs58.decode(offer!.blockhash));
    bytes.set(bs58.decode(blockhash), index);
    const amount = await charged(async () => {
      await stage.land(buyer.keypair, bytes.toString('base64'));
      await registered(stage, buyer, 2);
      await stage.quiet();
    });
    t.match(await read(await newest(large)), { replaces: first.id });
    t.ok(amount - BigInt(today) < 1000n, `${amount} of ${today}`);
  },
);

for (const isUsed of [false, true])
  void t.test(
    `standing shows what a registration after an unsigned change costs, trial used: ${isUsed}`,
    async (t) => {
      const { stage, buyer, third, large, first, ask, change, keeper, charged } = await scene(t);
      if (isUsed) {
        const other = await stage.buyer(third);
        const { id } = await other.buy();
        await stage.sql`
          update subscriptions set external_id = 'alice', own_ids_from = 'merchant'
          where id in (${id}, ${first.id})`;
      }
      await ask(first, third);
      await change(first, large);
      await keeper.stop();
      const subscriptionPda = await stage.open(third, buyer.keypair);
      const { usdcNeeded, trialHours } = await standingOf(buyer, { plan: third });
      t.match({ usdcNeeded, trialHours }, isUsed ? { trialHours: null } : { usdcNeeded: '0' });
      const amount = await charged(async () => {
        const { status } = await buyer.post('subscriptions', {
          ...{ appId: third.appId, planId: third.id, subscriptionPda },
        });
        t.equal(status, 201);
        await stage.startKeeper();
        await stage.quiet();
      });
      t.equal(String(amount), usdcNeeded);
    },
  );
