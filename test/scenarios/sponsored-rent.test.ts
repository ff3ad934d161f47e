// Rent of sponsored accounts that comes back: one keeper closes an account, the closings are in the
// budgets and metrics, and no single endpoint's word is taken for it.
import t, { type Test } from 'tap';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { readSponsoringByMerchant, readSponsoringFacts } from '../../src/db/sponsor-budgets.ts';
import { mayClose } from '../../src/keeper/close.ts';
import { takeRentBack } from '../../src/keeper/sponsor-rent.ts';
import { silent } from '../fixtures/billing.ts';
import { startRpcProxy } from '../fixtures/rpc-server.ts';
import { plentiful, startSponsorScene } from '../fixtures/sponsor-scene.ts';

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
  /** What the books have of the sign-up's rent. */
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

void t.test('one keeper closes an account, and its fees are counted and bounded', async (t) => {
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
});

void t.test('no single endpoint shows that rent has come back', async (t) => {
  const { stage, pda, isDue, rent } = await scene(t);
  const liar = await startRpcProxy(t, stage.net.rpcUrl);
  const forward = liar.behaviour();
  /** Answers as an endpoint that has none of the accounts, except the clock. */
  let slotOf = (slot: number) => slot;
  liar.behave(async (seen, response, request) => {
    const result = await forward(seen, response, request);
    if (seen.method !== 'getMultipleAccounts') return result;
    const { context, value } = result as { context: { slot: number }; value: unknown[] };
    const isClock = (place: number) =>
      String((seen.params[0] as string[])[place]).startsWith('Sys');
    return {
      context: { ...context, slot: slotOf(context.slot) },
      value: value.map((account, place) => (isClock(place) ? account : null)),
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

  // An endpoint that lags is older than what the books have read.
  await stage.sql`update subscriptions set observed_slot = 1 where subscription_pda = ${pda}`;
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
