// An endpoint whose clock is nine minutes ahead, which is within the ten minutes that are believed
// at once, just before the end of a paid period. Another endpoint contradicts it.
import t, { type Test } from 'tap';
import { CLOCK_SYSVAR } from '../../src/chain/program/addresses.ts';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { due, paidOnce, pullsOnChain } from '../fixtures/agreement.ts';
import { startRewritingEndpoint } from '../fixtures/bad-endpoint.ts';
import { silent } from '../fixtures/billing.ts';

const AHEAD = 540n;

interface Scene {
  readonly discount: number;
  readonly beside: boolean;
  /** Whether the endpoint beside it returns no accounts. */
  readonly bare?: boolean;
}

/** A paid subscription five minutes before its period's end, and a keeper's parts. */
async function scene(t: Test, { discount, beside, bare = false }: Scene) {
  const { stage, subscription } = await due(t, { blockMs: 100 });
  await stage.sql`update subscriptions set discount_percent = ${discount || null}`;
  const keeper = await stage.startKeeper();
  await paidOnce(stage, subscription);
  await keeper.stop();
  const end = (await stage.row(subscription)).paidThrough!.getTime() / 1000;
  stage.net.passSeconds(end - stage.now() - 300);
  let reads = 0;
  const fast = await startRewritingEndpoint(stage.net.rpcUrl, (method, params, result) => {
    if (method !== 'getMultipleAccounts') return result;
    const addresses = params[0] as string[];
    if (addresses.join() === CLOCK_SYSVAR) reads += 1;
    const { value, ...rest } = result as { value: ({ data: [string, string] } | null)[] };
    const told = value.map((account, place) => {
      if (account === null || addresses[place] !== CLOCK_SYSVAR) return account;
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
  const parts = stage.parts(rpc);
  const turn = async () => {
    await stage.sql`update subscriptions set due_at = ${new Date(stage.now() * 1000)}`;
    await parts.collector.turn();
    return parts.taken.length;
  };
  return { stage, subscription, turn, clockReads: () => reads, ...parts };
}

void t.test('a payment below the whole amount is not signed, and is put off', async (t) => {
  const { stage, subscription, turn } = await scene(t, { discount: 60, beside: true });
  t.equal(await turn(), 0);
  const row = await stage.row(subscription);
  t.equal(row.setbacks, 1);
  t.ok(row.dueAt! > row.paidThrough!, 'until after the later clock');
  stage.net.passSeconds(300);
  t.equal(await turn(), 0, 'nor in the next period while the clocks differ');
  await stage.startKeeper();
  await stage.sql`update subscriptions set due_at = ${new Date(stage.now() * 1000)}`;
  await stage.until(
    'the next period is paid',
    async () => (await stage.payments(subscription)).length === 2,
  );
  const starts = (await pullsOnChain(stage, subscription)).map(({ periodStart }) => periodStart);
  t.equal(new Set(starts).size, 2, 'one pull a period');
});

void t.test('the newest block of an endpoint without accounts contradicts too', async (t) => {
  const { turn } = await scene(t, { discount: 60, beside: true, bare: true });
  t.equal(await turn(), 0);
});

void t.test('a payment of the whole amount is signed, and no clock is read for it', async (t) => {
  const { turn, clockReads } = await scene(t, { discount: 0, beside: true });
  const before = clockReads();
  t.equal(await turn(), 1);
  // The keeper's own clock is read once.
  t.ok(clockReads() - before <= 1);
});

void t.test('with one endpoint nothing changes', async (t) => {
  const { turn } = await scene(t, { discount: 60, beside: false });
  t.equal(await turn(), 1);
});
