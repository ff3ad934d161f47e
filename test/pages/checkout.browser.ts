// The checkout page in a browser: one session, one wallet, once; judged by the chain and the
// database.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { closeBrowser, inspect, type Stage, startStage } from '../fixtures/browser.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';

t.teardown(closeBrowser);

/** A merchant's own site: responds to any path, and records the requested ones. */
async function startShop(t: Test) {
  const visits: string[] = [];
  const server = createServer(({ url = '' }, response) => {
    if (!url.includes('favicon')) visits.push(url);
    response.setHeader('content-type', 'text/html').end('<title>Shop</title><h1>Welcome back</h1>');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, visits };
}

async function session(stage: Stage, planId: string, fields: Record<string, unknown> = {}) {
  const { token, appId } = stage.merchant;
  const answer = await stage.served.call('POST', `/merchant/apps/${appId}/checkout-sessions`, {
    token,
    body: { planId, ...fields },
  });
  const { id, url } = answer as { id: string; url: string };
  return { id, path: new URL(url).pathname };
}

async function visitor(stage: Stage, options = {}) {
  const wallet = createTestWallet(stage.chain.rpcUrl, stage.chain.wallet().keypair);
  const opened = await stage.open({
    refusals: true,
    ...options,
    prepare: (one) => wallet.install(one),
  });
  return { ...opened, wallet };
}

void t.test(
  'a checkout link leads to a paid subscription with the merchant’s ids, and back to the shop',
  async (t) => {
    const [stage, shop] = [await startStage(t), await startShop(t)];
    const { sql } = stage.served;
    await stage.served.call('PATCH', `/merchant/apps/${stage.merchant.appId}`, {
      token: stage.merchant.token,
      body: { returnOrigins: [shop.origin] },
    });
    const plan = await stage.plan();
    const urls = { successUrl: `${shop.origin}/done?a=1`, cancelUrl: `${shop.origin}/pricing` };
    const { id, path } = await session(stage, plan.id, { externalId: 'customer-1', ...urls });

    const again = await session(stage, plan.id, { externalId: 'customer-1' });

    const first = await visitor(stage, { width: 390 });
    await first.page.goto(path);
    const button = first.page.getByRole('button', { name: 'Subscribe and pay with Test wallet' });
    await button.waitFor();
    t.equal(
      await first.page.getByRole('link', { name: /^Back to/ }).getAttribute('href'),
      `${shop.origin}/pricing?session_id=${id}`,
    );
    await inspect(t, first.page, 'checkout-offer');

    const second = await visitor(stage);
    await second.page.goto(path);
    await second.page.getByRole('button', { name: /^Subscribe and pay with/ }).waitFor();

    await button.focus();
    await first.page.keyboard.press('Enter');
    await first.page.getByRole('heading', { name: 'Welcome back' }).waitFor();
    t.same(shop.visits, [`/done?a=1&session_id=${id}`], 'the page went back once it was paid');
    const [row] = await sql<{ externalId: string; subscriberWallet: string; paid: boolean }[]>`
    select s.external_id, s.subscriber_wallet, w.paid_through is not null as paid
    from checkout_sessions c join subscriptions s on s.id = c.subscription_id
      join subscription_work w on w.subscription_id = s.id where c.id = ${id}`;
    t.match(row, { externalId: 'customer-1', subscriberWallet: first.wallet.address, paid: true });

    await second.page.getByRole('button', { name: /^Subscribe and pay with/ }).click();
    await second.page.getByText('This wallet cannot use this checkout').waitFor();
    await inspect(t, second.page, 'checkout-another-wallet');
    t.equal((await sql`select 1 from offers where wallet = ${second.wallet.address}`).length, 0);
    await second.page.reload();
    await second.page.getByText('This checkout is complete').waitFor();
    t.equal(await second.page.getByText('Not available').count(), 0);
    await second.page.getByText('The subscription has begun').waitFor();
    await inspect(t, second.page, 'checkout-complete');
    t.equal(await second.page.getByRole('button', { name: /^Subscribe and pay with/ }).count(), 0);
    t.equal((await sql`select 1 from subscriptions`).length, 1, 'used twice, subscribed once');

    // Another checkout of the same customer.
    await second.page.goto(again.path);
    await second.page.getByRole('button', { name: /^Subscribe and pay with/ }).click();
    await second.page.getByText('You have a subscription of this merchant already').waitFor();
    t.equal(await second.page.getByRole('button', { name: /Try again|^Subscribe/ }).count(), 0);
    t.notMatch(await second.page.locator('.panel').innerText(), /allowSecond|[0-9a-f]{8}-/);
    await inspect(t, second.page, 'checkout-second');
  },
);

void t.test(
  'an expired checkout is shown as expired; a return URL whose origin was removed from the app is not followed',
  async (t) => {
    const [stage, shop] = [await startStage(t), await startShop(t)];
    const { sql } = stage.served;
    const plan = await stage.plan();
    const expired = await session(stage, plan.id);
    await sql`update checkout_sessions set expires_at = now() where id = ${expired.id}`;
    const { page, faults } = await visitor(stage, { dark: true });
    await page.goto(expired.path);
    await page.getByText('This checkout has expired').waitFor();
    await inspect(t, page, 'checkout-expired-dark');

    const open = await session(stage, plan.id);
    // Stores the address as if it had been stored while its origin was allowed.
    await sql`
    update checkout_sessions set success_url = ${`${shop.origin}/evil`}, cancel_url = ${`${shop.origin}/evil`} where id = ${open.id}`;
    await page.goto(open.path);
    await page.getByRole('button', { name: /^Subscribe and pay with/ }).click();
    await page.getByText('Paid until').waitFor();
    await page.getByRole('button', { name: 'See my subscriptions' }).waitFor();
    t.equal(await page.getByRole('link', { name: /^Back to/ }).count(), 0);
    t.same(shop.visits, []);
    await page.goto('/checkout/01999999-0000-7000-8000-000000000000');
    await page.getByText('This link leads nowhere').waitFor();
    t.same(faults, []);
  },
);
