// A provider's limits on sends and requests, in short form. `npm run bench -- keeper --only
// provider` collects from 10,000 subscriptions and measures the time.
import t from 'tap';
import { subscriptionIn } from '../../src/chain/program/accounts.ts';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { startBadEndpoint } from '../fixtures/bad-endpoint.ts';
import { silent, startStage } from '../fixtures/billing.ts';

const SUBSCRIPTIONS = 200;
const [SENDS, REQUESTS] = [5, 10];
/** Time limit in seconds for 10,000 subscriptions. */
const [MAX_SECONDS, OF] = [300, 10_000];
/** Requests at the start of a keeper, which simulates and sweeps all subscriptions. */
const START_REQUESTS = 20;
const AT_ONCE = 20;

void t.test(
  'subscriptions are collected at a rate of 5 sends and 10 requests a second',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0, lagPort: 0 });
    const plan = await stage.plan();
    const pdas: string[] = [];
    for (let count = 0; count < SUBSCRIPTIONS; count += AT_ONCE)
      for (const { pda } of await Promise.all(
        Array.from({ length: AT_ONCE }, () => stage.subscriber(plan)),
      ))
        pdas.push(pda);
    let reads = 0;
    const endpoint = await startBadEndpoint(
      stage.net.rpcUrl,
      () => undefined,
      async (addresses) => {
        if (addresses.some((address) => pdas.includes(address))) reads += 1;
      },
    );
    t.teardown(() => endpoint.close());
    await stage.net.rpc('localnet_setFault', { kind: 'rate', sends: SENDS, requests: REQUESTS });
    const { registry } = await stage.startKeeper({
      rpcUrls: [endpoint.url],
      wsUrls: [stage.net.wsUrl],
      sendRate: SENDS,
      rpcRate: REQUESTS - SENDS,
    });
    // The second node has limits of its own.
    const watching = createRpc({
      urls: [stage.net.lagUrl!],
      requestsPerSecond: REQUESTS / 2,
      log: silent,
    });
    t.teardown(() => watching.close());
    await stage.until('all are sent', async () => {
      const { accounts } = await watching.getMultipleAccounts(pdas, { commitment: 'processed' });
      return accounts.every(
        (account) => subscriptionIn(account, stage.net.programId)!.amountPulled > 0n,
      );
    });
    stage.mine();
    await stage.until(
      'all are paid',
      async () =>
        (await stage.sql`select 1 from payments where status = 'succeeded'`).length ===
        SUBSCRIPTIONS,
    );
    const calls = (await registry.getSingleMetric('billing_rpc_calls_total')?.get())?.values ?? [];
    const made = (...methods: unknown[]) =>
      calls.reduce(
        (sum, { labels, value }) => (methods.includes(labels.method) ? sum + value : sum),
        0,
      );
    // Polls use the rest of the rate. Resends and the reads of an idle keeper depend on the elapsed
    // time, so neither is counted.
    const transactions = (await stage.sql`select 1 from transactions`).length;
    const others = reads + made('getLatestBlockhash', 'simulateTransaction');
    const most = (perSecond: number) => (perSecond * MAX_SECONDS * SUBSCRIPTIONS) / OF;
    t.ok(transactions <= most(SENDS), `${transactions} transactions of ${most(SENDS)}`);
    t.ok(others <= most(REQUESTS - SENDS) + START_REQUESTS, `${others} other requests`);
    t.equal(
      (await stage.sql`select 1 from payment_attempts where state = 'landed'`).length,
      SUBSCRIPTIONS,
    );
    t.equal((await stage.sql`select 1 from payment_attempts`).length, SUBSCRIPTIONS, 'each once');
  },
);

void t.test('a keeper stays within its configured rates of sends and requests', async (t) => {
  const stage = await startStage(t, { blockMs: 0 });
  const plan = await stage.plan();
  await Promise.all(Array.from({ length: AT_ONCE }, () => stage.subscriber(plan)));
  // Puts each payment in a transaction of its own.
  await stage.sql`update subscription_work set failed_packs = 2`;
  let sends = 0;
  const endpoint = await startBadEndpoint(
    stage.net.rpcUrl,
    () => undefined,
    undefined,
    () => (sends += 1),
  );
  t.teardown(() => endpoint.close());
  const started = performance.now();
  const { registry } = await stage.startKeeper({
    rpcUrls: [endpoint.url],
    wsUrls: [stage.net.wsUrl],
    sendRate: SENDS,
    rpcRate: REQUESTS - SENDS,
  });
  await stage.until('all are sent', async () => sends >= AT_ONCE);
  const calls = (await registry.getSingleMetric('billing_rpc_calls_total')?.get())?.values ?? [];
  const [sent, others] = [
    sends,
    calls.reduce(
      (sum, { labels, value }) => (labels.method === 'sendTransaction' ? sum : sum + value),
      0,
    ),
  ];
  const seconds = (performance.now() - started) / 1000;
  t.ok(others > REQUESTS - SENDS, `${others} other requests`);
  t.ok(seconds >= sent / SENDS - 1, `${sent} sends in ${seconds} s`);
  t.ok(seconds >= others / (REQUESTS - SENDS) - 1, `${others} other requests in ${seconds} s`);
  stage.mine();
  await stage.quiet();
});
