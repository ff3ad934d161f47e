// Every endpoint is asked whether a signed payment can still land: an endpoint that lags or lies
// about heights ends no attempt.
import t, { type Test } from 'tap';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import { findDead, findExpired } from '../../../src/keeper/read/dead.ts';
import { AMOUNT } from '../../fixtures/agreement.ts';
import { startRewritingEndpoint } from '../../fixtures/bad-endpoint.ts';
import { HOUR, silent, startStage } from '../../fixtures/billing.ts';

/**
 * A payment at full price and a cheaper one, signed while the main endpoint reports block heights
 * that are `liesBy` too high.
 */
async function signed(t: Test, { liesBy = 0, discount = 60 } = {}) {
  const stage = await startStage(t, { blockMs: 0, lagPort: 0 });
  const plan = await stage.plan({ amount: AMOUNT });
  const [full, cheap] = [await stage.subscriber(plan), await stage.subscriber(plan)];
  await stage.sql`update subscriptions set discount_percent = ${discount}, discount_id = uuid_v7() where id = ${cheap.id}`;
  stage.net.mineBlocks(40);
  const rpc = createRpc({ urls: [stage.net.rpcUrl, stage.net.lagUrl!], log: silent });
  t.teardown(() => rpc.close());
  const lie = (blocks: number) =>
    stage.net.rpc('localnet_setFault', { kind: 'height', blocks, endpoint: 'main' });
  const { collector, taken, resolver } = stage.parts(rpc);
  await lie(liesBy);
  await collector.turn();
  await stage.net.rpc('localnet_clearFaults');
  const dead = async () => {
    const ids = (await findDead(rpc, taken)).dead.map(({ id }) => id);
    return [full, cheap].map(({ id }) => ids.includes(id));
  };
  const expired = async () =>
    (
      await findExpired(
        rpc,
        taken.map(({ attempt }) => attempt),
      )
    ).size;
  return { stage, full, cheap, rpc, lie, taken, resolver, dead, expired };
}

void t.test('a transaction is stored with the slot of its blockhash', async (t) => {
  const { stage, taken } = await signed(t);
  t.equal(taken.length, 2);
  const rows = await stage.sql<{ slot: bigint }[]>`select blockhash_slot as slot from transactions`;
  t.same(
    new Set(rows.map(({ slot }) => slot)),
    new Set(taken.map(({ attempt }) => attempt.blockhashSlot)),
  );
  t.ok(rows.every(({ slot }) => slot > 40n));
});

void t.test(
  'a last valid block height that is reported too low expires no attempt early',
  async (t) => {
    const { stage, taken, dead, expired } = await signed(t, { liesBy: -1_000_000 });
    t.equal(taken[0]?.attempt.lastValidBlockHeight, 0n);
    t.same(await dead(), [false, false], 'its slot is not rooted');
    stage.net.mineBlocks(40);
    t.same(await dead(), [false, false], 'the blockhash is valid');
    stage.net.mineBlocks(100);
    t.equal(await expired(), 0);
    stage.net.mineBlocks(60);
    t.same(await dead(), [true, true]);
  },
);

void t.test('a block height that is reported too high expires no attempt early', async (t) => {
  const { stage, lie, taken, dead, expired, resolver } = await signed(t);
  await lie(1_000_000);
  stage.net.mineBlocks(40);
  t.same(await dead(), [false, false]);
  t.equal(await expired(), 0);
  t.same(await resolver.expired(taken), { done: [], unknown: [], isDue: false, seen: new Map() });
  stage.net.mineBlocks(160);
  t.same(await dead(), [true, true]);
  t.equal((await resolver.expired(taken)).done.length, 2);
});

void t.test(
  'an attempt does not expire while an endpoint that lags by some minutes shows its blockhash valid',
  async (t) => {
    const { stage, dead } = await signed(t);
    const lag = (slots: number) => stage.net.rpc('localnet_setFault', { kind: 'lag', slots });
    stage.net.mineBlocks(190);
    await lag(60);
    t.same(await dead(), [false, false], 'by its height it may land');
    await lag(160);
    t.same(await dead(), [false, false], 'it has not finalized the slot of the blockhash');
    await lag(0);
    t.same(await dead(), [true, true]);
  },
);

for (const discount of [60, 40, 1])
  void t.test(
    `while one endpoint is down, full-price payments expire; a payment at ${discount} % off waits for both`,
    async (t) => {
      const { stage, full, cheap, taken, dead, resolver } = await signed(t, { discount });
      stage.net.mineBlocks(200);
      await stage.net.rpc('localnet_setFault', {
        kind: 'status',
        status: 500,
        endpoint: 'lagging',
      });
      t.same(await dead(), [true, false]);
      const { done } = await resolver.expired(taken);
      t.same(
        done.map(({ id }) => id),
        [full.id],
      );
      const states = await stage.sql`
      select subscription_id, state from payment_attempts order by amount_gross`;
      t.same(states, [
        { subscriptionId: cheap.id, state: 'open' },
        { subscriptionId: full.id, state: 'expired' },
      ]);
      await stage.net.rpc('localnet_clearFaults');
      await stage.until('both endpoints are heard', async () => (await dead())[1] === true);
    },
  );

void t.test(
  'a payment below the plan’s full amount expires only when both endpoints lack its signature',
  async (t) => {
    const { stage, dead } = await signed(t);
    stage.net.mineBlocks(200);
    await stage.net.rpc('localnet_setFault', {
      kind: 'status',
      status: 500,
      endpoint: 'lagging',
      methods: ['getSignatureStatuses'],
    });
    t.same(await dead(), [true, false]);
  },
);

void t.test(
  'a partial payment waits for a history back to its blockhash, and then ends as unexplained',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    const subscription = await stage.subscriber(await stage.plan({ amount: AMOUNT }));
    await stage.sql`update subscriptions set discount_percent = 60, discount_id = uuid_v7()`;
    const young = await startRewritingEndpoint(stage.net.rpcUrl, (method, _params, result) =>
      method === 'getFirstAvailableBlock' ? 1_000_000_000 : result,
    );
    t.teardown(() => young.close());
    const rpc = createRpc({ urls: [stage.net.rpcUrl, young.url], log: silent });
    t.teardown(() => rpc.close());
    const { collector, taken, resolver } = stage.parts(rpc);
    await collector.turn();
    stage.net.mineBlocks(200);
    const look = async (settleTries: number) =>
      (await resolver.expired(taken.map((one) => ({ ...one, settleTries })))).done.length;
    t.same(await look(8), 0, 'another could land beside it');
    stage.net.passSeconds(720 * HOUR);
    stage.net.mineBlocks(40);
    t.equal(await look(7), 0);
    t.equal(await look(8), 1);
    t.match(
      await stage.sql`select state from payment_attempts where subscription_id = ${subscription.id}`,
      [{ state: 'unexplained' }],
    );
  },
);
