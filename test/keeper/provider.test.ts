// A provider's limits on sends and requests, the short form: `npm run bench -- keeper --only provider` collects from 10,000 subscriptions.
import t from 'tap';
import { startStage } from '../fixtures/billing.ts';

const SUBSCRIPTIONS = 200;
const [SENDS, REQUESTS] = [5, 10];
/** What 10,000 subscriptions may take. */
const [MOST_SECONDS, OF] = [300, 10_000];
/** A keeper's start reads the chain, simulates and asks for the version. */
const START_REQUESTS = 40;
const AT_ONCE = 20;

void t.test(
  'through 5 sends and 10 requests a second, subscriptions are collected at a rate of 10,000 in 5 minutes',
  { timeout: 120_000 },
  async (t) => {
    const stage = await startStage(t, { blockMs: 50 });
    const plan = await stage.plan();
    for (let count = 0; count < SUBSCRIPTIONS; count += AT_ONCE)
      await Promise.all(Array.from({ length: AT_ONCE }, () => stage.subscriber(plan)));
    await stage.net.rpc('localnet_setFault', { kind: 'rate', sends: SENDS, requests: REQUESTS });
    const { registry } = await stage.startKeeper({ sendRate: SENDS, rpcRate: REQUESTS - SENDS });
    await stage.until(
      'all are paid',
      async () =>
        (await stage.sql`select 1 from payments where status = 'succeeded'`).length ===
        SUBSCRIPTIONS,
      90_000,
    );
    const calls = (await registry.getSingleMetric('billing_rpc_calls_total')?.get())?.values ?? [];
    const made = (is: (labels: Partial<Record<string, unknown>>) => boolean) =>
      calls.reduce((sum, { labels, value }) => (is(labels) ? sum + value : sum), 0);
    const sends = made(({ method }) => method === 'sendTransaction');
    const polls = made(({ method }) => method === 'getSignatureStatuses');
    const others = made(() => true) - sends - polls;
    const refused = made(({ outcome }) => outcome === 'rate_limited');
    // Counted, not timed: the machine may be busy. Polls take what is left.
    const most = (perSecond: number) => (perSecond * MOST_SECONDS * SUBSCRIPTIONS) / OF;
    t.ok(sends <= most(SENDS), `${sends} sends of ${most(SENDS)}`);
    t.ok(others <= most(REQUESTS - SENDS) + START_REQUESTS, `${others} other requests`);
    t.ok(refused <= 5, `${refused} requests were refused`);
    t.comment(`${sends} sends, ${polls} polls, ${others} other requests`);
  },
);
