// An endpoint that has no account, lacks some, or has a wrong clock, beside a good one or alone,
// ends no subscription.
import t, { type Test } from 'tap';
import { CLUSTERS } from '../../src/chain/clusters.ts';
import { CLOCK_SYSVAR } from '../../src/chain/program/addresses.ts';
import { startRewritingEndpoint } from '../fixtures/bad-endpoint.ts';
import { startStage, type Stage, type Subscription } from '../fixtures/billing.ts';

interface Answered {
  context: { slot: number };
  value: ({ data: [string, string] } | null)[];
}

/** How a sick endpoint changes the accounts at these addresses. */
type Sickness = (accounts: Answered['value'], addresses: readonly string[]) => Answered['value'];

const withoutAny: Sickness = (accounts) => accounts.map(() => null);
const withoutAnyButClock: Sickness = (accounts, addresses) =>
  accounts.map((account, index) => (addresses[index] === CLOCK_SYSVAR ? account : null));
/** Every hundredth account is missing, a different one each time. */
const withoutOneInAHundred = (): Sickness => {
  let read = 0;
  return (accounts) => accounts.map((account) => ((read += 1) % 100 === 0 ? null : account));
};
const aDayAhead: Sickness = (accounts, addresses) =>
  accounts.map((account, index) => {
    if (account === null || addresses[index] !== CLOCK_SYSVAR) return account;
    const data = Buffer.from(account.data[0], 'base64');
    data.writeBigInt64LE(data.readBigInt64LE(32) + 86_400n, 32);
    return { ...account, data: [data.toString('base64'), 'base64'] };
  });

/**
 * Makes every subscription due a second ago: the clock of the last confirmed block may lag a
 * second.
 */
const makeAllDue = (stage: Stage) =>
  stage.sql`update subscription_work set due_at = ${new Date((stage.now() - 1) * 1000)}`;

/**
 * Paid subscriptions, and two endpoints that claim to be a public cluster: a sick one, whose slots
 * are `ahead`, and a good one. A public cluster makes at most ten slots a second.
 */
async function scene(t: Test, sickness: Sickness, ahead = 0) {
  const stage = await startStage(t, { blockMs: 100 });
  // A period shorter than the day by which the clock is wrong.
  const plan = await stage.plan({ periodHours: 12 });
  const subscriptions: Subscription[] = [];
  for (let made = 0; made < 4; made += 1) subscriptions.push(await stage.subscriber(plan));
  const first = await stage.startKeeper();
  await stage.until(
    'all are paid',
    async () => (await stage.sql`select 1 from payments`).length === subscriptions.length,
  );
  await stage.quiet();
  await first.stop();
  let isSick = false;
  const endpoint = async (sick: boolean) => {
    const proxy = await startRewritingEndpoint(stage.net.rpcUrl, (method, params, result) => {
      if (method === 'getGenesisHash') return CLUSTERS.devnet.genesisHash;
      if (!sick || !isSick || method !== 'getMultipleAccounts') return result;
      const { value, context, ...rest } = result as Answered;
      const told = { ...context, slot: context.slot + ahead };
      return { ...rest, context: told, value: sickness(value, params[0] as string[]) };
    });
    t.teardown(() => proxy.close());
    return proxy.url;
  };
  const [bad, good] = [await endpoint(true), await endpoint(false)];
  return {
    stage,
    subscriptions,
    start: async (beside: boolean) => {
      const keeper = await stage.startKeeper({
        cluster: 'devnet',
        rpcUrls: beside ? [bad, good] : [bad],
        wsUrls: beside ? [stage.net.wsUrl, stage.net.wsUrl] : [stage.net.wsUrl],
      });
      await stage.until('it is ready', async () => (await keeper.ready()) === undefined);
      isSick = true;
      // Every subscription is read under a claim, as after a notification.
      await stage.sql`update sweeps set starts_at = now() - interval '2 hours'`;
      await makeAllDue(stage);
      await stage.sql`update plans set observed_at = null`;
      await stage.sql`select pg_notify('billing_due', '')`;
      return keeper;
    },
    alerts: async (keeper: { registry: { metrics(): Promise<string> } }) =>
      [
        ...(await keeper.registry.metrics()).matchAll(
          /^billing_keeper_alerts_total\{reason="(endpoints_disagree|accounts_vanished|clock_not_believed|slot_not_believed)"\} ([1-9]\d*)$/gm,
        ),
      ].map(([, reason, count]) => [reason, Number(count)]),
  };
}

async function nothingEnded(
  t: Test,
  stage: Stage,
  subscriptions: Subscription[],
  payments: number,
) {
  for (const subscription of subscriptions) {
    t.match(await stage.row(subscription), {
      status: 'active',
      cancelRequestedAt: null,
      delegationRevokedAt: null,
    });
    t.same(
      (await stage.events(subscription)).map(({ type }) => type),
      ['subscription_created', ...Array.from({ length: payments }, () => 'payment_success')],
    );
  }
  t.same(await stage.sql`select status, collection_blocked_reason as blocked from plans`, [
    { status: 'active', blocked: null },
  ]);
}

void t.test('an endpoint without any account is skipped beside a good endpoint', async (t) => {
  const { stage, subscriptions, start } = await scene(t, withoutAny);
  await start(true);
  await stage.quiet();
  await nothingEnded(t, stage, subscriptions, 1);
});

void t.test(
  'an endpoint whose clock is a day ahead is skipped beside a good one; the next period is paid when due',
  async (t) => {
    const { stage, subscriptions, start, alerts } = await scene(t, aDayAhead);
    const keeper = await start(true);
    await stage.quiet();
    await nothingEnded(t, stage, subscriptions, 1);
    t.same(await alerts(keeper), [['clock_not_believed', 1]]);
  },
);

for (const beside of [true, false])
  void t.test(
    `far-future slots of an endpoint ${beside ? 'beside a good one' : 'alone'} are not stored and raise one alert`,
    async (t) => {
      const healthy: Sickness = (accounts) => accounts;
      const { stage, subscriptions, start, alerts } = await scene(t, healthy, 1_000_000_000);
      const keeper = await start(beside);
      await stage.until('it is told', async () => (await alerts(keeper)).length > 0);
      if (beside) await stage.quiet();
      await nothingEnded(t, stage, subscriptions, 1);
      t.same(await alerts(keeper), [['slot_not_believed', 1]]);
      t.same(await stage.sql`select 1 from subscription_work where observed_slot > 1000000000`, []);
    },
  );

void t.test(
  'with a single endpoint whose clock is a day ahead, nothing is collected or ended; one alert',
  async (t) => {
    const { stage, subscriptions, start, alerts } = await scene(t, aDayAhead);
    const keeper = await start(false);
    await stage.until('it is told', async () => (await alerts(keeper)).length > 0);
    await stage.until('it is not ready', async () => (await keeper.ready()) !== undefined);
    await nothingEnded(t, stage, subscriptions, 1);
    t.same(await alerts(keeper), [['clock_not_believed', 1]]);
  },
);

void t.test(
  'if a single endpoint returns no account but the clock, no subscription ends; one alert is raised',
  async (t) => {
    const { stage, subscriptions, start, alerts } = await scene(t, withoutAnyButClock);
    const keeper = await start(false);
    await stage.until('it is told', async () => (await alerts(keeper)).length > 0);
    await stage.quiet();
    await nothingEnded(t, stage, subscriptions, 1);
    t.same(await alerts(keeper), [['accounts_vanished', 1]]);
  },
);

void t.test(
  'if one of two endpoints returns only the clock and no other account, no subscription ends',
  async (t) => {
    const { stage, subscriptions, start } = await scene(t, withoutAnyButClock);
    await start(true);
    await stage.quiet();
    await nothingEnded(t, stage, subscriptions, 1);
  },
);

for (const beside of [true, false])
  void t.test(
    `if an endpoint ${beside ? 'beside a good one' : 'alone'} lacks 1% of the accounts, no subscription ends`,
    async (t) => {
      const { stage, subscriptions, start, alerts } = await scene(t, withoutOneInAHundred());
      const keeper = await start(beside);
      for (let round = 0; round < 12; round += 1) {
        await stage.quiet();
        await stage.sql`update plans set observed_at = null`;
        await makeAllDue(stage);
        await stage.sql`select pg_notify('billing_due', '')`;
      }
      await nothingEnded(t, stage, subscriptions, 1);
      t.ok((await alerts(keeper)).length <= 1);
    },
  );
