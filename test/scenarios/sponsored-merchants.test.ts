// What may be out of a merchant in sponsored rent: a stranger's merchants with wallets of their own
// cost the operator a bounded sum, and a merchant that an operator knows is not held up.
import t from 'tap';
import { readSponsorUsage } from '../../src/db/offers/sponsor-budgets.ts';
import { mayBeOut } from '../../src/domain/offers/limits.ts';
import type { Plan } from '../fixtures/billing.ts';
import { runShared } from '../fixtures/command.ts';
import { insertPayment } from '../fixtures/rows.ts';
import { plentiful, type SponsorScene, startSponsorScene } from '../fixtures/sponsor-scene.ts';

const DOLLAR = 1_000_000n;
const START = 50_000_000n;

/** Books a payment to the plan's merchant that has brought these fees. */
async function brings({ stage }: SponsorScene, plan: Plan, platformFee: bigint) {
  const [{ id }] = await stage.sql<[{ id: string }]>`
    select id from subscriptions where plan_id = ${plan.id} limit 1`;
  const amountGross = String(100n * platformFee);
  const amounts = { amountGross, platformFee, amountNet: String(99n * platformFee) };
  await insertPayment(stage.sql, id, '2020-01-01T00:00:00Z', amounts);
}

void t.test(
  'a merchant that subscribes with its own wallets from 20 networks stays within its starting limit',
  async (t) => {
    const on = await startSponsorScene(t);
    const { stage, rents } = on;
    // The other bounds are as large as for a stranger with many networks.
    stage.limit({ ...plentiful, merchantStart: START, merchantOut: 10_000_000_000n });
    const plan = await on.newPlan({ amount: DOLLAR });
    const each = rents.authority + rents.subscription;
    const before = await stage.rpc.getBalance(stage.keeper.address);
    for (let batch = 0; batch < 3; batch += 1)
      await on.subscribes(...Array.from({ length: 6 }, () => on.order(plan)));
    const last = on.order(plan);
    const late = await on.offer(last);
    await on.subscribes(on.order(plan));

    t.equal(await on.refusal(last), 'merchant_budget');
    t.equal(await on.decided(last, late), 'merchant_budget', 'a keeper signs none either');
    const usage = await readSponsorUsage(stage.sql, {
      ...{ merchantId: await merchantIdOf(on, plan), wallet: '', address: '', sponsor: '' },
      ...{ purpose: 'subscribe', subscriptionPda: null, replaces: null },
    });
    t.match(usage, { merchantOut: 19n * each, fees: 190_000n, vouched: null, isApproved: false });
    // 0.19 USDC of fees are worth 0.00095 SOL.
    t.equal(mayBeOut(stage.limits, usage), START + 950_000n);
    const cost = before - (await stage.rpc.getBalance(stage.keeper.address));
    t.ok(cost < START + 950_000n, `${cost} lamports`);

    await t.test('a merchant’s limit of open rent grows with its platform fees', async (t) => {
      await brings(on, plan, DOLLAR);
      const [one] = await on.subscribes(on.order(plan));
      await on.subscribes(on.order(plan));
      t.equal(
        await on.refusal(on.order(plan)),
        'merchant_budget',
        'a dollar is worth two, and no third',
      );
      stage.limit({ merchantStart: 0n });
      t.match(await on.cancelling(one!), { sponsored: true }, 'leaving is not bounded by it');
    });
  },
);

async function merchantIdOf({ stage }: SponsorScene, plan: Plan): Promise<string> {
  const [row] = await stage.sql<[{ id: string }]>`
    select id from merchants where wallet = ${plan.merchant.address}`;
  return row.id;
}

void t.test('a merchant and its operator are shown that it is near its limit', async (t) => {
  const on = await startSponsorScene(t);
  const { stage, rents } = on;
  const each = rents.authority + rents.subscription;
  stage.limit({ ...plentiful, merchantStart: 5n * each, lamportsPerUsdc: 0n });
  const plan = await on.newPlan();
  const { token } = await stage.seller(plan);
  const attention = async () => {
    const path = `/merchant/apps/${plan.appId}/attention`;
    const { body } = await stage.api.call<{ sponsoring?: unknown }>('GET', path, { token });
    return body.data.sponsoring;
  };
  const env = {
    DATABASE_URL: stage.databaseUrl,
    SPONSOR_LAMPORTS_PER_DAY: '1000000000',
    SPONSOR_MERCHANT_LAMPORTS_START: String(5n * each),
    LAMPORTS_PER_USDC: '0',
  };
  const status = async (...more: string[]) => (await runShared(['status', ...more], env)).stdout;
  for (let count = 0; count < 4; count += 1) await on.subscribes(on.order(plan));
  t.equal(await attention(), undefined, 'four fifths');
  t.notMatch(await status(), 'near its limit');
  await on.subscribes(on.order(plan));
  t.same(await attention(), {
    lamportsOut: String(5n * each),
    lamportsLimit: String(5n * each),
  });
  const { address } = plan.merchant;
  t.match(await status(), `near its limit    ${address}: 0.0131318 of 0.0131318 SOL out`);
  t.match(await status(), /^new merchants +0\.0131\d+ of 0\.20 SOL of it$/m);
  t.match(JSON.parse(await status('--json')), {
    sponsoring: {
      nearLimit: [{ merchant: address, out: String(5n * each), mayBeOut: String(5n * each) }],
    },
  });
  await stage.sql`update apps set sponsorship = 'off' where id = ${plan.appId}`;
  t.equal(await attention(), undefined, 'the app is not sponsored');
});

void t.test(
  "an operator raises a merchant's limit of sponsored rent by a guarantee, or by approving him",
  async (t) => {
    const on = await startSponsorScene(t);
    const { stage, rents } = on;
    const each = rents.authority + rents.subscription;
    stage.limit({ ...plentiful, merchantStart: each, merchantOut: 3n * each });
    const env = { DATABASE_URL: stage.databaseUrl };
    const plan = await on.newPlan({ amount: DOLLAR });
    const wallet = plan.merchant.address;
    const vouches = (lamports: string) =>
      runShared(['merchants', 'set-sponsoring', wallet, lamports, '--reason', 'a contract'], env);
    await on.subscribes(on.order(plan));
    t.equal(await on.refusal(on.order(plan)), 'merchant_budget');
    t.match(await vouches(String(2n * each)), {
      code: 0,
      stdout: `Sponsored rent out of ${wallet}: 0.00525272 SOL now; it was default.`,
    });
    await on.subscribes(on.order(plan));
    t.equal(await on.refusal(on.order(plan)), 'merchant_budget');
    t.match(await vouches(String(100n * each)), { code: 0 });
    await on.subscribes(on.order(plan));
    t.equal(await on.refusal(on.order(plan)), 'merchant_budget', 'not above the limit for all');

    // An approved one has that limit at once, and one that waits has nothing.
    const approved = await on.newPlan();
    const { address } = approved.merchant;
    await stage.sql`delete from suspensions where wallet = ${address}`;
    await stage.sql`
    insert into suspensions (role, wallet, reason, waiting) values ('merchant', ${address}, 'w', true)`;
    t.match(await runShared(['merchants', 'approve', address], env), { code: 0 });
    for (let count = 0; count < 3; count += 1) await on.subscribes(on.order(approved));
    t.equal(await on.refusal(on.order(approved)), 'merchant_budget');
    await runShared(['merchants', 'set-sponsoring', address, '0', '--reason', 'r'], env);
    t.match(await runShared(['merchants', 'show', address], env), {
      stdout: /^Sponsoring +0\.00787908 SOL of sponsored rent out; vouched for: 0\.00 SOL$/m,
    });
  },
);

void t.test(
  'new merchants together can spend a fifth of the daily sponsoring budget',
  async (t) => {
    const on = await startSponsorScene(t);
    const { stage } = on;
    const many = { ...plentiful, merchantStart: START };
    stage.limit(many);
    const known = await on.plan();
    const [a, b, c, paying] = [
      await on.newPlan(),
      await on.newPlan(),
      await on.newPlan(),
      await on.newPlan(),
    ];
    await on.subscribes(on.order(known), on.order(paying));
    await on.passes(25);
    await on.subscribes(on.order(a), on.order(b));
    const [{ cost }] = await stage.sql<[{ cost: bigint }]>`
    select sum(fee + authority_rent + subscription_rent)::int8 as cost from sponsorships
    where created_at > now() - interval '24 hours'`;
    const late = on.order(c);
    const made = await on.offer(late);
    stage.limit({ ...many, perDay: 5n * (cost + 2_000_000n) });
    t.equal(await on.refusal(late), 'budget');
    t.equal(await on.decided(late, made), 'budget', 'a keeper signs none either');
    t.equal(await on.refusal(on.order(known)), undefined, 'an approved merchant');
    t.equal(await on.refusal(on.order(paying)), 'budget', 'a cent of fees is not enough');
    await brings(on, paying, 10n * DOLLAR);
    t.equal(await on.refusal(on.order(paying)), undefined, 'one that has brought fees');
    await on.subscribes(on.order(paying));
    stage.limit({ ...many, perDay: 5n * (cost + 3_000_000n) });
    t.equal(await on.refusal(late), undefined, 'what others cost is not in the fifth');
    await on.passes(25);
    stage.limit({ ...many, perDay: 5n * 3_000_000n });
    t.equal(await on.refusal(late), undefined, '25 hours later');
  },
);
