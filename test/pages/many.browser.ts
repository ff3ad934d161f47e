// The dashboard of an app with 100,000 subscriptions: lists come by cursor, a page at a time. `npm
// run bench -- api` has the times of such lists.
import t from 'tap';
import { closeBrowser, inspect, startStage } from '../fixtures/browser.ts';
import { randomAddress } from '../fixtures/http.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';

t.teardown(closeBrowser);

const subscriptions = 100_000;

void t.test('the dashboard lists 100,000 subscriptions page by page', async (t) => {
  const stage = await startStage(t, { keeper: false });
  const { merchant, served } = stage;
  const { sql } = served;
  const plan = await stage.plan();
  const special = randomAddress();
  await sql.begin(async (tx) => {
    // Row triggers are off, because this test does not need their checks.
    await tx`set local session_replication_role = replica`;
    await tx`insert into customers (app_id, wallet) values (${merchant.appId}, 'all')`;
    await tx`
      insert into subscriptions (app_id, plan_id, customer_id, subscription_pda, subscriber_wallet, amount, period_hours, status, past_due_since)
      select ${merchant.appId}, ${plan.id}, (select id from customers where wallet = 'all'), 'sub' || place, case n when 50000 then ${special} else 'wa1' || place end, 10000000, 730,
        case when n % 1000 = 0 then 'past_due' else 'active' end, case when n % 1000 = 0 then now() end
      from generate_series(1, ${subscriptions}::int) n,
        -- With three characters before it, the Base58 of 32 bytes.
        translate(lpad(n::text, 40, '0'), '0', 'z') as place`;
    await tx`
      insert into subscription_work (subscription_id, app_id, paid_through)
      select id, app_id, now() + interval '20 days' from subscriptions`;
    await tx`
      insert into searched_wallets (wallet) select distinct subscriber_wallet from subscriptions`;
    await tx`
      insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, period_start, period_end, amount_gross,
        platform_fee, amount_net, tx_signature, occurred_at)
      select app_id, plan_id, id, subscription_pda, subscriber_wallet, 'succeeded', now() - interval '10 days', now() + interval '20 days', 10000000,
        100000, 9900000, 's' || subscription_pda || subscription_pda, now() - interval '10 days'
      from subscriptions`;
    await tx`update subscriptions set next_payment_due = '2030-02-03T04:05:00Z' where status = 'past_due'`;
    await tx`
      insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, period_start, period_end, amount_gross,
        platform_fee, amount_net, failure_reason, occurred_at)
      select app_id, plan_id, id, subscription_pda, subscriber_wallet, 'failed', now() - interval '10 days', now() + interval '20 days', 10000000,
        100000, 9900000, 'insufficient_funds', now()
      from subscriptions where status = 'past_due'`;
  });
  await sql`vacuum analyze subscriptions, subscription_work, searched_wallets, payments`;

  const wallet = createTestWallet(stage.chain.rpcUrl, merchant.keypairOnChain);
  const { page, faults } = await stage.open({
    prepare: async (one) => {
      await wallet.install(one);
      // The lists are not read again every ten seconds, so that each request below has a press.
      await one.addInitScript(`const every = window.setInterval;
        window.setInterval = (work, ms) => (ms < 10000 ? every(work, ms) : 0);`);
    },
  });
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  await page.goto('/dashboard');
  await page.getByRole('button', { name: /Sign in with/ }).click();
  await page.getByText('1,000,000.00').first().waitFor();
  await inspect(t, page, 'many-overview');

  const isList = (url: string) =>
    /\/(subscriptions|transactions|search)$/.test(new URL(url).pathname);
  /** A press leads to one request for a list, whose answer has this number of rows. */
  const read = async (
    what: string,
    {
      press,
      shown,
      count,
    }: { press: () => Promise<unknown>; shown: () => Promise<unknown>; count: number },
  ) => {
    const before = asked.length;
    const answer = page.waitForResponse((response) => isList(response.url()));
    await press();
    const { data } = (await (await answer).json()) as { data: unknown[] };
    await shown();
    t.equal(data.length, count, what);
    t.equal(asked.slice(before).filter(isList).length, 1, `${what}: in one request`);
  };
  const rows = (name: string, count: number) => async () => {
    const shown = page.getByRole('region', { name, exact: true }).locator('tbody tr');
    await shown.nth(count - 1).waitFor();
    await shown.nth(count).waitFor({ state: 'detached' });
  };
  for (const name of ['Subscriptions', 'Payments']) {
    const link = page.getByRole('link', { name, exact: true });
    await read(name, { press: () => link.click(), shown: rows(name, 20), count: 20 });
    for (const pages of [2, 3, 4])
      await read(`${name}, page ${pages}`, {
        press: () => page.getByRole('button', { name: 'Show more' }).click(),
        shown: rows(name, pages * 20),
        count: 20,
      });
  }
  const byCursor = asked.filter((url) => isList(url) && new URL(url).searchParams.has('cursor'));
  t.equal(byCursor.length, 6, 'by cursor');

  await page.getByRole('link', { name: 'Subscriptions', exact: true }).click();
  await rows('Subscriptions', 20)();
  await read('past due', {
    press: () => page.getByLabel('Status').selectOption('past_due'),
    shown: () => page.locator('tbody .badge.bad').nth(19).waitFor(),
    count: 20,
  });
  t.equal(await page.getByText('Not enough USDC in the wallet').count(), 20, 'why it failed');
  await page.getByRole('columnheader', { name: 'Unpaid since' }).waitFor();
  await page.getByRole('columnheader', { name: 'Next try' }).waitFor();
  await page
    .getByRole('cell', { name: /2030.*05:05/ })
    .first()
    .waitFor();
  await inspect(t, page, 'many-past-due');
  await read('all again', {
    press: () => page.getByLabel('Status').selectOption(''),
    shown: rows('Subscriptions', 20),
    count: 20,
  });
  await read('one wallet', {
    press: async () => {
      await page.getByRole('searchbox', { name: 'Search' }).fill(special.slice(5, 25));
      await page.getByRole('searchbox', { name: 'Search' }).press('Enter');
    },
    shown: rows('Found', 1),
    count: 1,
  });
  await inspect(t, page, 'many-one-wallet');
  const before = asked.length;
  await page.getByRole('region', { name: 'Found' }).getByRole('link').first().click();
  await page.getByText('Payment: succeeded').waitFor();
  const ofOne = asked
    .slice(before)
    .filter((url) => url.includes('/merchant/') && !url.endsWith('/attention'));
  t.equal(ofOne.length, 4, 'a subscription, its timeline, its invoices and its payments');
  t.same(faults, []);
});
