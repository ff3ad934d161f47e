// billing merchants, beside a running serve that heeds what is set.
import t from 'tap';
import { run } from '../fixtures/command.ts';
import { insertMerchant, insertPayment, insertPlan, insertSubscription } from '../fixtures/rows.ts';
import { startServe } from '../fixtures/serve.ts';

const served = await startServe(t);
const { sql } = served;
const env = { DATABASE_URL: served.databaseUrl };

void t.test('show adds up what a merchant has, to the base unit', async (t) => {
  const merchant = await insertMerchant(sql, { name: 'Beans' });
  const planId = await insertPlan(sql, merchant);
  const subscriptionId = await insertSubscription(sql, { appId: merchant.appId, planId });
  await insertSubscription(sql, { appId: merchant.appId, planId }, { status: 'expired' });
  await insertPayment(sql, subscriptionId, '2026-01-01T00:00:00Z', {
    amountGross: '9007199254740993',
    platformFee: '1',
    amountNet: '9007199254740992',
  });
  await insertPayment(sql, subscriptionId, '2026-02-01T00:00:00Z');
  await insertPayment(sql, subscriptionId, '2026-03-01T00:00:00Z', { failureReason: 'insufficient_funds', attempt: 1 });
  const { code, stdout } = await run(t, ['merchants', 'show', merchant.id], env);
  t.equal(code, 0);
  t.match(stdout, /^Collected +9007199264\.740993 USDC in 2 payments, 0\.100001 of it fees$/m);
  t.match(stdout, /^Subscriptions +1 active, 0 past due, 0 cancelled, 1 expired$/m);
  t.match(stdout, /^Fee +1% \(default\)$/m);
  t.match(stdout, new RegExp(`^${merchant.appId} +Coffee +-$`, 'm'));
  t.match(JSON.parse((await run(t, ['merchants', 'show', merchant.wallet, '--json'], env)).stdout), {
    id: merchant.id,
    payments: 2,
    gross: '9007199264740993',
    fees: '100001',
    effectiveFeeBps: 100,
  });
});

void t.test('a tier holds from the next request on, a fee is told with what it was; lists filter by tier', async (t) => {
  const merchant = await served.merchant();
  const limit = async () =>
    (await fetch(`${served.url}/merchant/profile`, { headers: { authorization: `Bearer ${merchant.key}` } })).headers.get(
      'ratelimit-limit',
    );
  t.equal(await limit(), '100');
  t.match(await run(t, ['merchants', 'set-tier', merchant.wallet, 'pro'], env), {
    code: 0,
    stdout: /is pro now \(1000 requests per minute\); it was free\.$/,
  });
  t.equal(await limit(), '1000');
  t.match(await run(t, ['merchants', 'set-tier', merchant.wallet, 'pro'], env), { code: 0, stdout: /is pro already\.$/ });

  t.match(await run(t, ['merchants', 'set-fee', merchant.wallet, '25'], env), {
    code: 0,
    stdout: /is 0\.25% now, .*; it was 1% \(default\)\.$/,
  });
  t.same(await sql`select fee_bps from merchants where wallet = ${merchant.wallet}`, [{ feeBps: 25 }]);
  const back = await run(t, ['merchants', 'set-fee', merchant.wallet, 'default', '--json'], env);
  t.match(JSON.parse(back.stdout), { wallet: merchant.wallet, feeBps: null, before: 25 });

  t.equal((await run(t, ['merchants', 'list', '--tier', 'pro', '--json'], env)).stdout.split('\n').length, 1);
  t.match((await run(t, ['merchants', 'list', '--tier', 'pro'], env)).stdout, merchant.wallet);
});
