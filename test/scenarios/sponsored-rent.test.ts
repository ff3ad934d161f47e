// Rent of sponsored accounts that comes back: one keeper closes an account, the closings are in the
// budgets and metrics, and no single endpoint's word is taken for it.
import t, { type Test } from 'tap';
import { planIn } from '../../src/chain/program/accounts.ts';
import { createPlan, deletePlan, updatePlan } from '../../src/chain/program/plan-instructions.ts';
import { createRpc } from '../../src/chain/rpc/client.ts';
import {
  readSponsoringByMerchant,
  readSponsoringFacts,
} from '../../src/db/offers/sponsor-budgets.ts';
import { claimRentOut } from '../../src/db/offers/sponsor-rent.ts';
import { forceCancel } from '../../src/domain/change/cancel.ts';
import { mayClose } from '../../src/keeper/collect/close.ts';
import { takeRentBack } from '../../src/keeper/sponsor/rent.ts';
import { HOUR, type Plan, silent } from '../fixtures/billing.ts';
import { startRpcProxy } from '../fixtures/rpc-server.ts';
import { plentiful, type SponsorScene, startSponsorScene } from '../fixtures/sponsor-scene.ts';
import type { OfferMade } from '../fixtures/sponsor-stage.ts';

/** More blocks than a transaction needs to be final. */
const FINAL_BLOCKS = 40;

/** A subscription that was cancelled and has expired. The sponsor paid its rent. */
async function scene(t: Test) {
  const on = await startSponsorScene(t);
  const { stage } = on;
  stage.limit(plentiful);
  const [one] = await on.subscribes(on.order(await on.plan()));
  t.same(await on.leave({ one: one!, made: await on.cancelling(one!) }), ['landed']);
  const [{ pda }] = await stage.sql<[{ pda: string }]>`
    select subscription_pda as pda from subscriptions where id = ${one!.id}`;
  stage.passHours(721);
  stage.net.mineBlocks(FINAL_BLOCKS);
  /** Makes the check of the rent due. */
  const isDue = () => stage.sql`update sponsorships set checked_at = now() - interval '2 days'`;
  /** The recorded rent of the sign-up. */
  const rent = async () => {
    const [row] = await stage.sql<
      [{ authority: boolean; subscription: boolean; closings: number; fee: bigint; due: number }]
    >`
      select authority_returned_at is not null as authority, closings, closing_fee as fee,
        subscription_returned_at is not null as subscription,
        extract(epoch from checked_at + interval '1 day' - now())::int as due
      from sponsorships where purpose = 'subscribe'`;
    return row;
  };
  await isDue();
  return { on, stage, pda, isDue, rent };
}

void t.test(
  'a sponsored account is closed by one keeper, and the fees of closing are counted and limited',
  async (t) => {
    const { on, stage, pda, isDue, rent } = await scene(t);
    const { sql } = stage;
    let sends = 0;
    const isLost = { value: true };
    const rpc: Parameters<typeof stage.sponsor>[0] = {
      sendTransaction(bytes) {
        sends += 1;
        return isLost.value ? Promise.resolve('') : stage.rpc.sendTransaction(bytes);
      },
    };
    const [first, second] = [stage.sponsor(rpc).context, stage.sponsor(rpc).context];
    const usedBefore = await on.usedForLeaving();
    await Promise.all([takeRentBack(first), takeRentBack(second)]);
    t.equal(sends, 1, 'one of two keepers');
    const { fee } = await rent();
    t.ok(fee > 5000n && fee < 20_000n, `${fee} lamports`);

    const passes = (minutes: number) =>
      sql`update sponsorships set closing_at = closing_at - ${minutes} * interval '1 minute'`;
    const next = async () => {
      await isDue();
      await Promise.all([takeRentBack(first), takeRentBack(second)]);
      return sends;
    };
    t.equal(await next(), 1, 'the first one may still land');
    t.same([...(await mayClose(first, [pda], 0n))], [], 'also not by the collect loop');
    t.same([...(await mayClose(first, ['another'], 0n))], ['another'], 'rent of no sponsorship');
    await passes(5.1);
    t.equal(await next(), 2, 'it has expired');
    await passes(5.1);
    t.equal(await next(), 2, 'each next one waits twice as long');
    await passes(5);
    const poor = { ...first, closingBudget: 2n * fee + 4999n };
    t.same([...(await mayClose(poor, [pda], 0n))], [], 'the budget of the day is used up');

    const facts = await readSponsoringFacts(sql);
    t.same(
      { leaving: facts.leaving, closing: facts.closing },
      { leaving: usedBefore + 2n * fee, closing: 2n * fee },
      'on the budget for leaving while the rent is out',
    );
    const spent = async () => (await readSponsoringByMerchant(sql))[0]!.spent;
    const { landed } = await on.fees(['subscribe', 'cancel']);
    t.equal(landed, 2);
    const fees = (await spent()) - 2n * fee;

    isLost.value = false;
    const balance = await stage.rpc.getBalance(stage.keeper.address);
    t.equal(await next(), 3);
    stage.net.mineBlocks(FINAL_BLOCKS);
    t.equal(
      (await stage.rpc.getBalance(stage.keeper.address)) - balance,
      on.rents.subscription - fee,
      'the rent less one fee',
    );
    t.equal(await next(), 3);
    t.match(await rent(), { authority: false, subscription: true, closings: 3, fee: 3n * fee });
    const after = await readSponsoringFacts(sql);
    t.same(
      { leaving: after.leaving, closing: after.closing },
      { leaving: usedBefore, closing: 3n * fee },
      'rent that came back has paid for its closings',
    );
    t.equal(await spent(), fees + 3n * fee, 'they stay in what was spent');
  },
);

void t.test('rent counts as returned only if two endpoints show it', async (t) => {
  const { stage, pda, isDue, rent } = await scene(t);
  const liar = await startRpcProxy(t, stage.net.rpcUrl);
  const forward = liar.behaviour();
  /** Answers as an endpoint that has none of the accounts, except the clock. */
  let slotOf = (slot: number) => slot;
  liar.behave(async (seen, response, request) => {
    const result = await forward(seen, response, request);
    if (seen.method !== 'getMultipleAccounts') return result;
    const { context, value } = result as { context: { slot: number }; value: unknown[] };
    const isClock = (index: number) =>
      String((seen.params[0] as string[])[index]).startsWith('Sys');
    return {
      context: { ...context, slot: slotOf(context.slot) },
      value: value.map((account, index) => (isClock(index) ? account : null)),
    };
  });
  const keeper = (...urls: string[]) => {
    const rpc = createRpc({ urls, log: silent });
    t.teardown(() => rpc.close());
    return stage.sponsor(rpc).context;
  };
  const unreturned = { authority: false, subscription: false };
  await takeRentBack(keeper(liar.url, stage.net.rpcUrl));
  t.match(await rent(), { ...unreturned, closings: 0 }, 'the other endpoint has the accounts');
  t.ok((await rent()).due <= 60, 'checked again in a minute');

  // The state of a lagging endpoint is older than the recorded state.
  await stage.sql`update subscription_work set observed_slot = 1
    where subscription_id in (select id from subscriptions where subscription_pda = ${pda})`;
  slotOf = () => 0;
  await isDue();
  await takeRentBack(keeper(liar.url));
  t.match(await rent(), { ...unreturned, closings: 0 }, 'nor alone, when it lags');

  liar.behave(forward);
  const honest = keeper(liar.url, stage.net.rpcUrl);
  await isDue();
  await takeRentBack(honest);
  stage.net.mineBlocks(FINAL_BLOCKS);
  await isDue();
  await takeRentBack(honest);
  t.match(await rent(), { authority: false, subscription: true, closings: 1 }, 'both agree');
});

/** Ends the plan a day and a minute from now, and passes two days. */
async function endPlan({ stage }: SponsorScene, { merchant, pda }: Plan) {
  const { accounts } = await stage.rpc.getMultipleAccounts([pda]);
  const seen = planIn(accounts[0] ?? null, stage.net.programId)!;
  const edit = { ...seen, status: 'sunset', endTs: BigInt(stage.now() + 24 * HOUR + 60) } as const;
  const parties = { owner: merchant.address, plan: pda };
  await stage.send([merchant], [updatePlan(stage.net.programId, { ...parties, edit, seen })]);
  stage.passHours(48);
}

async function closePlan(on: SponsorScene, plan: Plan) {
  await endPlan(on, plan);
  const { merchant, pda } = plan;
  const parties = { owner: merchant.address, plan: pda };
  await on.stage.send([merchant], [deletePlan(on.stage.net.programId, parties)]);
}

async function recreatePlan(on: SponsorScene, plan: Plan) {
  await closePlan(on, plan);
  const { merchant, pda } = plan;
  const terms = { ...plan.terms, amount: plan.terms.amount * 2n };
  const parties = { merchant: merchant.address, plan: pda, terms };
  await on.stage.send([merchant], [createPlan(on.stage.net.programId, parties)]);
}

void t.test(
  'the keeper closes an account that was never cancelled once its plan is over',
  async (t) => {
    const on = await startSponsorScene(t);
    const { stage } = on;
    stage.limit(plentiful);
    const { context } = stage.sponsor();
    const signsUp = async () => {
      const plan = await on.plan({ periodHours: 24 });
      const [one] = await on.subscribes(on.order(plan));
      return { plan, one: one! };
    };
    const ends = (id: string) => stage.sql.begin((tx) => forceCancel(tx, { id, status: 'active' }));
    /** Has a keeper look at it twice, and returns whether the rent came back, and why not. */
    const looks = async (id: string) => {
      for (let turn = 0; turn < 2; turn += 1) {
        stage.net.mineBlocks(FINAL_BLOCKS);
        await stage.sql`update sponsorships set checked_at = now() - interval '2 days'`;
        await takeRentBack(context);
      }
      const [row] = await stage.sql<[{ returned: boolean; closings: number }]>`
      select subscription_returned_at is not null as returned, closings from sponsorships
      where subscription_id = ${id}`;
      return row;
    };
    for (const [name, over] of Object.entries({ endPlan, closePlan, recreatePlan }))
      await t.test(name, async (t) => {
        const { plan, one } = await signsUp();
        const balance = () => stage.rpc.getBalance(stage.keeper.address);
        await over(on, plan);
        t.match(await looks(one.id), { returned: false, closings: 0 }, 'live here');
        await ends(one.id);
        const before = await balance();
        t.same(await looks(one.id), { returned: true, closings: 1 });
        const gained = (await balance()) - before;
        t.ok(gained > on.rents.subscription - 20_000n, `${gained} lamports`);
      });

    await t.test(
      'an account whose authority is closed is closed after its subscription ended',
      async (t) => {
        const { plan, one } = await signsUp();
        const { token } = one;
        const path = '/subscriber/approval/revoke';
        const body = { sponsored: true, closeAuthority: true };
        const { body: answer } = await stage.api.call<OfferMade>('POST', path, { token, body });
        t.same(await on.leave({ one, made: answer.data }), ['landed']);
        await closePlan(on, plan);
        t.match(await looks(one.id), { returned: false, closings: 0 }, 'no closing that must fail');
        await ends(one.id);
        t.same(await looks(one.id), { returned: true, closings: 1 });
      },
    );

    await t.test('an account is not closed while its plan runs', async (t) => {
      const { one } = await signsUp();
      await ends(one.id);
      stage.passHours(48);
      t.same(await looks(one.id), { returned: false, closings: 0 });
    });

    await t.test('the interval between checks of an open account grows', async (t) => {
      const { one } = await signsUp();
      await ends(one.id);
      const isDue = async (endedHours: number, checkedMinutes: number) => {
        await stage.sql`update subscriptions set stopped_at = now() - ${endedHours} * interval '1 hour'
        where id = ${one.id}`;
        await stage.sql`update sponsorships set checked_at = case
        when subscription_id = ${one.id} then now() - ${checkedMinutes} * interval '1 minute'
        else now() end`;
        return (await claimRentOut(stage.sql, 10)).length === 1;
      };
      t.equal(await isDue(0, 2), true, 'every minute at first');
      t.equal(await isDue(10, 59), false);
      t.equal(await isDue(10, 61), true, 'then after a tenth of the time since its end');
      t.equal(await isDue(10_000, 24 * 60 - 1), false);
      t.equal(await isDue(10_000, 24 * 60 + 1), true, 'once a day at least');
    });
  },
);
