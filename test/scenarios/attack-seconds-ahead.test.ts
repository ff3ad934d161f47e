// An endpoint whose clock is 25 seconds ahead, which another endpoint does not contradict, just
// before the end of a period that was paid at a discount.
import t from 'tap';
import { CLOCK_SYSVAR } from '../../src/chain/program/addresses.ts';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { due, paidOnce, pullsOnChain } from '../fixtures/agreement.ts';
import { startRewritingEndpoint } from '../fixtures/bad-endpoint.ts';
import { silent } from '../fixtures/billing.ts';

const AHEAD = 25n;

void t.test('a payment below the whole amount is pulled once a period', async (t) => {
  const { stage, subscription } = await due(t, { blockMs: 100 });
  await stage.sql`update subscriptions set discount_percent = 60`;
  const account = await stage.onChain(subscription);
  const end = Number(account!.periodStart + account!.periodHours * 3600n);
  const keeper = await stage.startKeeper();
  await paidOnce(stage, subscription);
  await keeper.stop();
  const ahead = await startRewritingEndpoint(stage.net.rpcUrl, (method, params, result) => {
    if (method !== 'getMultipleAccounts') return result;
    const addresses = params[0] as string[];
    const { value, ...rest } = result as { value: ({ data: [string, string] } | null)[] };
    const told = value.map((one, place) => {
      if (one === null || addresses[place] !== CLOCK_SYSVAR) return one;
      const data = Buffer.from(one.data[0], 'base64');
      data.writeBigInt64LE(data.readBigInt64LE(32) + AHEAD, 32);
      return { ...one, data: [data.toString('base64'), 'base64'] };
    });
    return { ...rest, value: told };
  });
  const honest = await startRewritingEndpoint(
    stage.net.rpcUrl,
    (_method, _params, result) => result,
  );
  const rpc = createRpc({ urls: [ahead.url, honest.url], log: silent, probeMs: Infinity });
  t.teardown(async () => {
    await rpc.close();
    ahead.close();
    honest.close();
  });
  stage.net.passSeconds(end - stage.now() - 20);
  await stage.sql`update subscriptions set due_at = ${new Date(stage.now() * 1000)}`;
  const { collector, taken } = stage.parts(rpc);
  await stage.until('it is decided', async () => {
    await collector.turn();
    return taken.length === 1 || stage.now() > end - 8;
  });
  for (const { attempt } of taken) await stage.rpc.sendTransaction(attempt.transaction);
  stage.net.passSeconds(60);
  await stage.startKeeper();
  await stage.sql`update subscriptions set due_at = ${new Date(stage.now() * 1000)},
    lease_until = null, claim_id = null`;
  await stage.until('the next period is paid', async () => {
    const pulls = await pullsOnChain(stage, subscription);
    return pulls.some(({ periodStart }) => periodStart === BigInt(end));
  });
  await stage.quiet();
  const starts = (await pullsOnChain(stage, subscription)).map(({ periodStart }) => periodStart);
  t.same(starts.length, new Set(starts).size, `one pull a period: ${starts.join()}`);
});
