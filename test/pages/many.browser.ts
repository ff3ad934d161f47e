// The dashboard of an app with 100,000 subscriptions: lists come by cursor, a page at a time, and quickly.
import t from 'tap';
import { closeBrowser, inspect, skipped, startStage } from '../fixtures/browser.ts';
import { randomAddress } from '../fixtures/http.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';

t.teardown(closeBrowser);

const subscriptions = 100_000;
/** Milliseconds from a press to the rows. On an idle machine it is a tenth of that. */
const mostMs = 2000;

void t.test('100,000 subscriptions', { skip: skipped, timeout: 250_000 }, async (t) => {
  const stage = await startStage(t, { keeper: false });
  const { merchant, served } = stage;
  const { sql } = served;
  const plan = await stage.plan();
  const special = randomAddress();
  await sql.begin(async (tx) => {
    // Row triggers are off, because this test does not need their checks.
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, status, paid_through, past_due_since)
      select ${merchant.appId}, ${plan.id}, 'sub' || place, case n when 50000 then ${special} else 'wa1' || place end, 10000000, 730,
        case when n % 1000 = 0 then 'past_due' else 'active' end, now() + interval '20 days', case when n % 1000 = 0 then now() end
      from generate_series(1, ${subscriptions}::int) n,
        -- With three characters before it, the Base58 of 32 bytes.
        translate(lpad(n::text, 40, '0'), '0', 'z') as place`;
    await tx`
      insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, period_start, period_end, amount_gross,
        platform_fee, amount_net, tx_signature, occurred_at)
      select app_id, plan_id, id, subscription_pda, subscriber_wallet, 'succeeded', now() - interval '10 days', now() + interval '20 days', 10000000,
        100000, 9900000, 's' || subscription_pda || subscription_pda, now() - interval '10 days'
      from subscriptions`;
  });
  await sql`vacuum analyze subscriptions, payments`;

  const wallet = createTestWallet(stage.chain.rpcUrl, merchant.keypairOnChain);
  const { page, faults } = await stage.open({ prepare: (one) => wallet.install(one) });
  const asked: URL[] = [];
  page.on('request', (request) => asked.push(new URL(request.url())));
  await page.goto('/dashboard');
  await page.getByRole('button', { name: /Sign in with/ }).click();
  await page.getByText('1,000,000.00').first().waitFor();
  await inspect(t, page, 'many-overview');

  const quick = async (
    what: string,
    press: () => Promise<unknown>,
    shown: () => Promise<unknown>,
  ) => {
    const before = performance.now();
    await press();
    await shown();
    const ms = performance.now() - before;
    t.comment(`${what}: ${Math.round(ms)} ms`);
    t.ok(ms < mostMs, `${what}: ${Math.round(ms)} ms`);
  };
  const rows = (name: string, count: number) => async () => {
    const shown = page.getByRole('region', { name, exact: true }).locator('tbody tr');
    await shown.nth(count - 1).waitFor();
    await shown.nth(count).waitFor({ state: 'detached' });
  };
  for (const name of ['Subscriptions', 'Payments']) {
    const link = page.getByRole('link', { name, exact: true });
    await quick(name, () => link.click(), rows(name, 20));
    for (const pages of [2, 3, 4])
      await quick(
        `${name}, page ${pages}`,
        () => page.getByRole('button', { name: 'Show more' }).click(),
        rows(name, pages * 20),
      );
  }
  const lists = asked.filter(({ pathname }) => /(subscriptions|transactions)$/.test(pathname));
  t.equal(lists.filter(({ searchParams }) => searchParams.has('cursor')).length, 6, 'by cursor');

  await page.getByRole('link', { name: 'Subscriptions', exact: true }).click();
  await rows('Subscriptions', 20)();
  await quick(
    'past due',
    () => page.getByLabel('Status').selectOption('past_due'),
    () => page.locator('tbody .badge.bad').nth(19).waitFor(),
  );
  await page.getByLabel('Status').selectOption('');
  await quick(
    'one wallet',
    () => page.getByRole('textbox', { name: 'Wallet' }).fill(special),
    rows('Subscriptions', 1),
  );
  await inspect(t, page, 'many-one-wallet');
  await quick(
    'one subscription',
    () => page.getByRole('region', { name: 'Subscriptions' }).getByRole('link').click(),
    () => page.getByText('Payment: succeeded').waitFor(),
  );
  t.same(faults, []);
});
