// An endpoint whose clock is nine minutes ahead, which is within the ten minutes that are believed
// at once, just before the end of a period. Another endpoint contradicts it.
import t, { type Test } from 'tap';
import { clockIn } from '../../src/chain/program/accounts.ts';
import { CLOCK_SYSVAR } from '../../src/chain/program/addresses.ts';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { due, paidOnce, pullsOnChain } from '../fixtures/agreement.ts';
import { startApiStage } from '../fixtures/api-stage.ts';
import { startRewritingEndpoint } from '../fixtures/bad-endpoint.ts';
import { silent, type Stage, type Subscription } from '../fixtures/billing.ts';
import { grantCredit } from '../fixtures/rows.ts';
import { merchantOf, registered, rowsOf } from '../fixtures/shown-terms.ts';

const AHEAD = 540n;

interface Endpoints {
  readonly beside: boolean;
  /** Whether the endpoint beside it returns no accounts. */
  readonly bare?: boolean;
}

/** A keeper's parts that read from the endpoint that is ahead first. */
async function aheadKeeper(t: Test, stage: Stage, { beside, bare = false }: Endpoints) {
  let reads = 0;
  const fast = await startRewritingEndpoint(stage.net.rpcUrl, (method, params, result) => {
    if (method !== 'getMultipleAccounts') return result;
    const addresses = params[0] as string[];
    if (addresses.join() === CLOCK_SYSVAR) reads += 1;
    const { value, ...rest } = result as { value: ({ data: [string, string] } | null)[] };
    const told = value.map((account, index) => {
      if (account === null || addresses[index] !== CLOCK_SYSVAR) return account;
      const data = Buffer.from(account.data[0], 'base64');
      data.writeBigInt64LE(data.readBigInt64LE(32) + AHEAD, 32);
      return { ...account, data: [data.toString('base64'), 'base64'] };
    });
    return { ...rest, value: told };
  });
  t.teardown(() => fast.close());
  const other = await startRewritingEndpoint(
    stage.net.rpcUrl,
    (_method, _params, result) => result,
    (method) =>
      bare && method === 'getMultipleAccounts'
        ? { code: -32601, message: 'Method not found' }
        : undefined,
  );
  t.teardown(() => other.close());
  const urls = beside ? [fast.url, other.url] : [fast.url];
  const rpc = createRpc({ urls, log: silent, probeMs: Infinity });
  t.teardown(() => rpc.close());
  // A client's first readings are refused until it has confirmed them with all endpoints.
  await stage.until('the clock that is ahead is believed', async () => {
    const read = await rpc.getMultipleAccounts([CLOCK_SYSVAR]).catch(() => undefined);
    return read !== undefined && clockIn(read.accounts[0] ?? null) > BigInt(stage.now()) + 500n;
  });
  const parts = stage.parts(rpc);
  const turn = async () => {
    await stage.sql`update subscription_work set due_at = ${new Date(stage.now() * 1000)}`;
    await parts.collector.turn();
    return parts.taken.length;
  };
  return { turn, clockReads: () => reads, ...parts };
}

type Before = 'paid' | 'credit' | 'trial' | 'no keeper';

interface Scene extends Endpoints {
  readonly discount?: number;
  /** State of the period before: without a payment on chain, unless it was `paid`. */
  readonly before?: Before;
}

/** Collects the first period as `before` says. Returns its end (Unix seconds). */
async function firstPeriod(stage: Stage, subscription: Subscription, before: Before) {
  const account = await stage.onChain(subscription);
  const end = Number(account!.periodStart + account!.periodHours * 3600n);
  const ends = new Date(end * 1000);
  if (before === 'credit') await grantCredit(stage.sql, subscription.id, account!.amount);
  if (before === 'trial')
    await stage.sql`update subscriptions set trial_ends_at = ${ends}, next_payment_due = ${ends}`;
  if (before === 'no keeper') return end;
  const keeper = await stage.startKeeper();
  if (before === 'paid') await paidOnce(stage, subscription);
  else await stage.quiet();
  await keeper.stop();
  return end;
}

/** A subscription five minutes before its first period's end, and a keeper's parts. */
async function scene(t: Test, { discount = 0, before = 'paid', ...endpoints }: Scene) {
  const { stage, subscription } = await due(t, { blockMs: 100 });
  await stage.sql`update subscriptions set discount_percent = ${discount || null},
    discount_id = case when ${discount} > 0 then uuid_v7() end`;
  const end = await firstPeriod(stage, subscription, before);
  stage.net.passSeconds(end - stage.now() - 300);
  return { stage, subscription, end, ...(await aheadKeeper(t, stage, endpoints)) };
}

void t.test(
  'while the clocks of two endpoints disagree, a payment below the full price is postponed',
  async (t) => {
    const { stage, subscription, turn } = await scene(t, { discount: 60, beside: true });
    // Under load the client may first have to confirm its readings again.
    await stage.until('it is put off', async () => {
      t.equal(await turn(), 0);
      return (await stage.row(subscription)).setbacks === 1;
    });
    const row = await stage.row(subscription);
    t.ok(row.dueAt! > row.paidThrough!, 'until after the later clock');
    stage.net.passSeconds(300);
    t.equal(await turn(), 0, 'nor in the next period while the clocks differ');
    await stage.startKeeper();
    await stage.sql`update subscription_work set due_at = ${new Date(stage.now() * 1000)}`;
    await stage.until(
      'the next period is paid',
      async () => (await stage.payments(subscription)).length === 2,
    );
    const starts = (await pullsOnChain(stage, subscription)).map(({ periodStart }) => periodStart);
    t.equal(new Set(starts).size, 2, 'one pull a period');
  },
);

void t.test(
  'a contradicting clock also counts if an endpoint only serves its newest block',
  async (t) => {
    const { turn } = await scene(t, { discount: 60, beside: true, bare: true });
    t.equal(await turn(), 0);
  },
);

void t.test('a payment of the full price is signed without reading a second clock', async (t) => {
  const { turn, clockReads } = await scene(t, { discount: 0, beside: true });
  const before = clockReads();
  t.equal(await turn(), 1);
  // The keeper's own clock is read once.
  t.ok(clockReads() - before <= 1);
});

void t.test(
  'with a single endpoint a payment below the full price is signed by its clock',
  async (t) => {
    const { turn } = await scene(t, { discount: 60, beside: false });
    t.equal(await turn(), 1);
  },
);

for (const before of ['credit', 'trial', 'no keeper'] as const)
  void t.test(
    `while clocks disagree, no full payment is signed if the previous period is open: ${before}`,
    async (t) => {
      const { stage, subscription, end, turn } = await scene(t, { before, beside: true });
      const balance = await stage.balance(subscription.wallet.address);
      for (let turns = 0; turns < 2; turns += 1) t.equal(await turn(), 0);
      stage.net.passSeconds(end - stage.now() + 700);
      await stage.startKeeper();
      await stage.sql`update subscription_work set due_at = ${new Date(stage.now() * 1000)}`;
      await stage.until(
        'the next period is paid',
        async () => (await pullsOnChain(stage, subscription)).length > 0,
      );
      await stage.quiet();
      t.match(await pullsOnChain(stage, subscription), [{ periodStart: BigInt(end) }]);
      const charged = balance - (await stage.balance(subscription.wallet.address));
      t.ok(charged <= 5_000_000n, `${charged}`);
    },
  );

void t.test(
  'the two minutes before a first payment are measured by a clock that no endpoint contradicts',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    await (await merchantOf(stage, plan)).patch({ registerUnclaimed: true });
    const keeper = await stage.startKeeper();
    const buyer = await stage.buyer(plan);
    await stage.open(plan, buyer.keypair);
    await registered(stage, buyer);
    await stage.quiet();
    await keeper.stop();
    const [row] = await rowsOf(stage, buyer);
    const { turn } = await aheadKeeper(t, stage, { beside: true });
    for (let turns = 0; turns < 5; turns += 1) t.equal(await turn(), 0);
    t.ok(stage.now() < Number(row!.nextPaymentDue) / 1000, 'the two minutes are not over');
    stage.net.passSeconds(120);
    const honest = stage.parts();
    await stage.sql`update subscription_work set due_at = ${new Date(stage.now() * 1000)}`;
    await honest.collector.turn();
    t.equal(honest.taken.length, 1, 'paid afterwards');
  },
);
