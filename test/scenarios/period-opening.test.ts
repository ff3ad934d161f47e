// The first seconds of a period, where two endpoints are configured: one of them may be 30 seconds
// ahead, which the other one does not contradict. A payment that fits into the period before waits.
import t, { type Test } from 'tap';
import { CLOCK_SYSVAR } from '../../src/chain/program/addresses.ts';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { due, paidOnce, pullsOnChain } from '../fixtures/agreement.ts';
import { type Rewrite, startRewritingEndpoint } from '../fixtures/bad-endpoint.ts';
import { silent } from '../fixtures/billing.ts';

const AHEAD = 25n;

const honest: Rewrite = (_method, _params, result) => result;
const ahead: Rewrite = (method, params, result) => {
  if (method !== 'getMultipleAccounts') return result;
  const addresses = params[0] as string[];
  const { value, ...rest } = result as { value: ({ data: [string, string] } | null)[] };
  const told = value.map((one, index) => {
    if (one === null || addresses[index] !== CLOCK_SYSVAR) return one;
    const data = Buffer.from(one.data[0], 'base64');
    data.writeBigInt64LE(data.readBigInt64LE(32) + AHEAD, 32);
    return { ...one, data: [data.toString('base64'), 'base64'] };
  });
  return { ...rest, value: told };
};

interface Scene {
  readonly endpoints: readonly Rewrite[];
  readonly discount: number | null;
  /** What was paid for the first period: by the discount, in full, or nothing in a trial. */
  readonly before?: 'paid' | 'full' | 'trial';
}

/** A subscription 20 seconds before its first period's end, and a keeper's parts. */
async function scene(t: Test, { endpoints, discount, before = 'paid' }: Scene) {
  const { stage, subscription } = await due(t, { blockMs: 100 });
  const account = await stage.onChain(subscription);
  const end = Number(account!.periodStart + account!.periodHours * 3600n);
  const ends = new Date(end * 1000);
  if (before === 'trial')
    await stage.sql`update subscriptions set trial_ends_at = ${ends}, next_payment_due = ${ends}`;
  if (before === 'paid')
    await stage.sql`update subscriptions set discount_percent = ${discount},
    discount_id = case when ${discount}::int > 0 then uuid_v7() end`;
  const keeper = await stage.startKeeper();
  if (before === 'trial') await stage.quiet();
  else await paidOnce(stage, subscription);
  await keeper.stop();
  await stage.sql`update subscriptions set discount_percent = ${discount},
    discount_id = case when ${discount}::int > 0 then uuid_v7() end`;
  const servers = await Promise.all(
    endpoints.map((one) => startRewritingEndpoint(stage.net.rpcUrl, one)),
  );
  const urls = servers.map(({ url }) => url);
  const rpc = createRpc({ urls, log: silent, probeMs: Infinity });
  t.teardown(async () => {
    await rpc.close();
    for (const one of servers) one.close();
  });
  stage.net.passSeconds(end - stage.now() - 20);
  const dueNow = () => stage.sql`update subscription_work set lease_until = null, claim_id = null,
    due_at = ${new Date(stage.now() * 1000)}`;
  await dueNow();
  const { collector, taken } = stage.parts(rpc);
  /** Takes turns until a payment is signed, at most until this time of the chain. */
  const signedUntil = async (until: number) => {
    await stage.until('it is decided', async () => {
      await collector.turn();
      return taken.length > 0 || stage.now() > until;
    });
    return taken.length;
  };
  return { stage, subscription, end, dueNow, taken, signedUntil };
}

for (const { before, discount } of [
  { before: 'paid', discount: 60 },
  { before: 'trial', discount: null },
] as const)
  void t.test(
    `with a clock that is 25 s ahead, each period is pulled at most once after ${before}`,
    async (t) => {
      const endpoints = [ahead, honest];
      const parts = await scene(t, { endpoints, discount, before });
      const { stage, subscription, end, dueNow, taken, signedUntil } = parts;
      await signedUntil(end - 8);
      for (const { attempt } of taken) await stage.rpc.sendTransaction(attempt.transaction);
      stage.net.passSeconds(60);
      await stage.startKeeper();
      await dueNow();
      const starts = async () =>
        (await pullsOnChain(stage, subscription)).map(({ periodStart }) => Number(periodStart));
      await stage.until('the next period is paid', async () => (await starts()).includes(end));
      await stage.quiet();
      const found = await starts();
      t.equal(found.length, new Set(found).size, `one pull a period: ${found.join()}`);
      t.equal(found.length, before === 'paid' ? 2 : 1);
    },
  );

void t.test(
  'a payment that fits in the running period too is collected only 40 s after the boundary',
  async (t) => {
    const { stage, subscription, end, dueNow, taken, signedUntil } = await scene(t, {
      ...{ endpoints: [honest, honest], discount: 60 },
    });
    stage.net.passSeconds(end - stage.now() + 10);
    await dueNow();
    t.equal(await signedUntil(end + 14), 0);
    const row = await stage.row(subscription);
    t.match(row, { setbacks: 0, status: 'active', dueAt: new Date((end + 40) * 1000) });
    stage.net.passSeconds(end - stage.now() + 41);
    t.equal(await signedUntil(end + 60), 1);
    t.equal(Number(taken[0]!.attempt.periodStart) / 1000, end);
  },
);

for (const [what, one] of [
  ['a renewal at the full price', { endpoints: [honest, honest], discount: null }],
  [
    'a discounted renewal after a full price',
    { endpoints: [honest, honest], discount: 60, before: 'full' },
  ],
  ['a discounted renewal with one endpoint', { endpoints: [honest], discount: 60 }],
] as const)
  void t.test(`${what} is collected at once after the period boundary`, async (t) => {
    const { stage, end, dueNow, signedUntil } = await scene(t, one);
    stage.net.passSeconds(end - stage.now() + 2);
    await dueNow();
    t.equal(await signedUntil(end + 20), 1);
    t.ok(stage.now() < end + 30);
  });
