// A merchant's month on the dashboard, by mouse and keyboard, judged by the API.
import t from 'tap';
import type { components } from '../../src/client/openapi.ts';
import { closeBrowser, inspect, startStage, tile } from '../fixtures/browser.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';
import { ok, startReceiver, status } from '../fixtures/receiver.ts';
import { insertPayment } from '../fixtures/rows.ts';

type Transaction = components['schemas']['Transaction'];
type Subscription = components['schemas']['Subscription'];
type Analytics = components['schemas']['Analytics'];
type Plan = components['schemas']['Plan'];

t.teardown(closeBrowser);

const usdc = (units: bigint | string) => `${(Number(units) / 1e6).toFixed(2)} USDC`;

void t.test('a merchant refunds, pauses, discounts, cancels and reinstates', async (t) => {
  const stage = await startStage(t);
  const { chain, served, merchant } = stage;
  const { token, appId } = merchant;
  const api = <T>(path: string, method = 'GET', body?: unknown) =>
    served.call<T>(method, `/merchant/apps/${appId}/${path}`, { token, body });
  const plan = await stage.plan();
  const session = await api<{ url: string }>('checkout-sessions', 'POST', {
    planId: plan.id,
    externalId: 'alice',
    metadata: { team: 'blue' },
  });
  const buyer = createTestWallet(chain.rpcUrl, chain.wallet().keypair);
  const shop = await stage.open({ prepare: (one) => buyer.install(one) });
  await shop.page.goto(session.url);
  await shop.page.getByRole('button', { name: /Subscribe and pay with/ }).click();
  await shop.page.getByText('Paid until').waitFor();
  await shop.page.context().close();
  const [alice] = await api<Subscription[]>('subscriptions?externalId=alice');
  const subscriptionId = alice?.id ?? '';
  await insertPayment(served.sql, subscriptionId, '2026-10-01T00:00:00Z', {
    failureReason: 'insufficient_funds',
  });
  await served.sql`
    update subscriptions set created_at = '2026-09-30T00:00:00Z' where id = ${subscriptionId}`;

  const selling = createTestWallet(chain.rpcUrl, merchant.keypairOnChain);
  const { page, faults } = await stage.open({ prepare: (one) => selling.install(one) });
  await page.goto('/dashboard');
  await page.getByRole('button', { name: /Sign in with/ }).click();

  // The search box finds alice by name, by a part of her wallet, and her payment by its signature.
  const search = page.getByRole('searchbox', { name: 'Search' });
  const found = page.getByRole('region', { name: 'Found' });
  const [first] = (await api<Transaction[]>('transactions')).filter(
    ({ status }) => status === 'succeeded',
  );
  await search.fill('nobody');
  await search.press('Enter');
  await page.getByText('Nothing found').waitFor();
  await inspect(t, page, 'desk-nothing-found');
  for (const [text, what] of [
    ['ali', 'Subscription'],
    [`${buyer.address.slice(0, 4)}…${buyer.address.slice(-4)}`, 'Subscription'],
    [buyer.address.slice(10, 16), 'Subscription'],
    [subscriptionId, 'Subscription'],
    [first?.txSignature ?? '', 'Payment'],
  ] as const) {
    await search.fill(text);
    await search.press('Enter');
    await page.getByRole('heading', { name: text.slice(0, 40) }).waitFor();
    await found.getByRole('link', { name: what }).waitFor();
    t.equal(await found.getByRole('link', { name: 'alice' }).count(), 1, text);
  }
  await inspect(t, page, 'desk-found');
  await search.fill('alice');
  await search.press('Enter');
  await found.getByRole('link', { name: 'alice' }).click();
  await page.getByRole('heading', { name: 'alice', exact: true }).waitFor();
  await page.getByRole('link', { name: 'Subscriptions', exact: true }).click();
  await page.getByRole('region', { name: 'Subscriptions' }).getByText('alice').waitFor();
  await inspect(t, page, 'desk-subscriptions');

  // Failed payments have no fee and no net, and their reason in words.
  await page.getByRole('link', { name: 'Payments' }).click();
  const payments = page.getByRole('region', { name: 'Payments' });
  await payments.getByText('Not enough USDC in the wallet').waitFor();
  const failed = payments.getByRole('row').filter({ hasText: 'Failed' });
  t.same((await failed.getByRole('cell').allTextContents()).slice(3, 7), [
    '10.00 USDC',
    '–',
    '–',
    '–',
  ]);
  t.equal(await failed.getByRole('button').count(), 0, 'nothing to refund');
  await inspect(t, page, 'desk-payments');

  // A refund of 1 USDC: declined first, then two clicks and the wallet's signature.
  const refund = page.getByRole('button', { name: 'Refund the payment of alice' });
  await refund.click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Amount in USDC').fill('1');
  await inspect(t, page, 'desk-refund');
  selling.switches.rejects = 'sign';
  await dialog.getByRole('button', { name: 'Refund 1.00 USDC' }).click();
  await dialog.getByText(/declined/i).waitFor();
  selling.switches.rejects = undefined;
  await dialog.getByRole('button', { name: 'Refund 1.00 USDC' }).click();
  await dialog.getByRole('heading', { name: 'Refunded' }).waitFor();
  await inspect(t, page, 'desk-receipt');
  await dialog.getByText('The transfer is final').waitFor();
  await dialog.getByRole('button', { name: 'Done' }).press('Enter');
  await payments.getByText('1.00 USDC', { exact: true }).waitFor();
  const [paid] = (await api<Transaction[]>('transactions')).filter(
    ({ status }) => status === 'succeeded',
  );
  t.equal(paid?.amountRefunded, '1000000');

  await page.getByRole('link', { name: 'Overview' }).click();
  const figures = await api<Analytics>('analytics');
  const net = BigInt(figures.net) - BigInt(figures.refunded);
  await page.getByText(usdc(net), { exact: true }).first().waitFor();
  t.equal(await tile(page, 'Net revenue').textContent(), usdc(net));
  t.equal(await tile(page, 'Refunded').textContent(), usdc(figures.refunded));
  await inspect(t, page, 'desk-overview');

  // The payment's own page keeps the receipt.
  await page.goto(`/dashboard#/payments/${paid?.id ?? ''}`);
  await page.getByRole('region', { name: 'Refunds' }).getByText('Succeeded').waitFor();
  await inspect(t, page, 'desk-payment');

  await page.goto(`/dashboard#/subscriptions/${subscriptionId}`);
  await page.getByRole('heading', { name: 'alice' }).waitFor();
  await page.getByText('Refund: succeeded').waitFor();
  await page.getByText('1.00 USDC refunded').waitFor();
  await page.getByText('blue').waitFor();
  await inspect(t, page, 'desk-subscription');
  const read = () => api<Subscription>(`subscriptions/${subscriptionId}`);
  /** Opens the dialog of an action by the keyboard and confirms it with the mouse. */
  const act = async (name: string) => {
    await page.getByRole('button', { name, exact: true }).press('Enter');
    await dialog.getByRole('button', { name, exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
  };
  await act('Pause');
  await page.locator('.badge', { hasText: 'Paused' }).waitFor();
  t.not((await read()).pausedAt, null);
  await act('Unpause');
  await page.getByRole('button', { name: 'Pause', exact: true }).waitFor();
  t.equal((await read()).pausedAt, null);

  await page.getByRole('button', { name: 'Discount' }).click();
  await dialog.getByLabel('Discount').selectOption('Percent');
  await dialog.getByLabel('Percent off').fill('100');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.getByText('from 1 to 99').waitFor();
  await dialog.getByLabel('Percent off').fill('25');
  await dialog.getByLabel('For how many payments').fill('3');
  await inspect(t, page, 'desk-discount');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByText('25% off 3 payments').waitFor();
  t.match((await read()).discount, { percentOff: 25, periodsLeft: 3 });

  await page.getByRole('button', { name: 'Edit your data' }).click();
  await dialog.getByRole('button', { name: 'Add a row' }).click();
  await dialog.getByLabel('Metadata: name 2').fill('seats');
  await dialog.getByLabel('Metadata: value 2').fill('4');
  await inspect(t, page, 'desk-own-data');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByText('seats').waitFor();
  t.same((await read()).metadata, { team: 'blue', seats: '4' });

  await act('Cancel now');
  await page.getByText('You ended it at once').waitFor();
  await act('Reinstate');
  await page.getByText('May subscribe again since').waitFor();
  t.not((await read()).reinstatedAt, null);
  await inspect(t, page, 'desk-ended');

  // A refund of all the rest, which is declined. Asked for again, the dialog tells why it waits.
  await page.getByRole('link', { name: 'Payments', exact: true }).click();
  await refund.click();
  selling.switches.rejects = 'sign';
  await dialog.getByRole('button', { name: /^Refund \d/ }).click();
  await dialog.getByText(/declined/i).waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await refund.click();
  await dialog.getByText('Nothing of this payment is left to refund now.').waitFor();
  await dialog.getByText(/USDC wait for a refund that was asked for and is not final/).waitFor();
  await inspect(t, page, 'desk-refund-waits');
  t.same([...faults, ...shop.faults], []);
});

void t.test(
  'a failing endpoint is reported, repaired, and gets the events that it missed',
  async (t) => {
    const stage = await startStage(t);
    const { chain, served, merchant } = stage;
    const { token, appId } = merchant;
    const api = <T>(path: string, method = 'GET', body?: unknown) =>
      served.call<T>(method, `/merchant/apps/${appId}/${path}`, { token, body });
    const receiver = await startReceiver(t, status(410));
    await api('webhooks', 'POST', { url: receiver.url });
    const plan = await stage.plan();
    const buyer = createTestWallet(chain.rpcUrl, chain.wallet().keypair);
    const shop = await stage.open({ prepare: (one) => buyer.install(one) });
    await shop.page.goto(`/s/${plan.id}`);
    await shop.page.getByRole('button', { name: /Subscribe and pay with/ }).click();
    await shop.page.getByText('Paid until').waitFor();
    await receiver.got(2);

    const selling = createTestWallet(chain.rpcUrl, merchant.keypairOnChain);
    const { page, faults } = await stage.open({ prepare: (one) => selling.install(one) });
    await page.goto('/dashboard');
    await page.getByRole('button', { name: /Sign in with/ }).click();

    // Every view shows this failure, and a plan that cannot collect.
    await page.getByText('Your webhook fails').waitFor();
    // The keeper would unblock the plan if the account were in order.
    await stage.freeze('frozen');
    await served.sql`update plans set collection_blocked_reason = 'receiver_frozen'`;
    await page.getByText('Nothing is collected for Coffee club').waitFor();
    const plans = page.getByRole('link', { name: 'Plans', exact: true });
    await plans.locator('.count').waitFor();
    t.equal(await plans.locator('.visually-hidden').textContent(), '1 blocked');
    await inspect(t, page, 'desk-banners');
    await stage.freeze('initialized');
    await served.sql`update plans set collection_blocked_reason = null`;

    await page.getByRole('link', { name: 'Webhook', exact: true }).press('Enter');
    const all = page.getByRole('region', { name: 'Deliveries', exact: true });
    await all.getByRole('cell', { name: '410' }).nth(1).waitFor();
    await page.getByLabel('HTTP status').fill('5xx');
    await page.getByText('No deliveries').waitFor();
    await page.getByLabel('HTTP status').fill('410');
    await all.getByRole('cell', { name: '410' }).nth(1).waitFor();
    await page.getByRole('combobox', { name: 'Event' }).selectOption('payment success');
    await all.getByRole('row').nth(2).waitFor({ state: 'detached' });
    await all.getByRole('row').nth(1).waitFor();
    t.equal(await all.getByRole('row').count(), 2, 'the head and one delivery');
    await inspect(t, page, 'desk-deliveries');
    await page.getByLabel('HTTP status').fill('');
    await page.getByRole('combobox', { name: 'Event' }).selectOption('All');

    // The endpoint is repaired, and gets a header for its gateway.
    receiver.answer = ok;
    const dialog = page.getByRole('dialog');
    await page.getByRole('button', { name: 'Settings', exact: true }).click();
    await dialog.getByRole('button', { name: 'Add a row' }).click();
    await dialog.getByLabel('Your headers: name 1').fill('x-gateway-key');
    await dialog.getByLabel('Your headers: value 1').fill('a secret');
    await dialog.getByLabel('Requests per second at most').fill('50');
    await inspect(t, page, 'desk-endpoint-settings');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Your headers: x-gateway-key').waitFor();

    await page.getByRole('button', { name: 'Send a test' }).click();
    await dialog.getByLabel('Type').selectOption('payment_failed');
    await dialog.getByRole('button', { name: 'Send', exact: true }).click();
    await dialog.getByText(/^Answered 200/).waitFor();
    const shown = await dialog.getByLabel('The event that was sent').textContent();
    t.equal(receiver.requests.at(-1)?.body.toString(), shown, 'byte for byte');
    t.match(JSON.parse(shown ?? ''), { type: 'payment_failed', data: { test: true } });
    t.equal(receiver.requests.at(-1)?.headers['x-gateway-key'], 'a secret');
    await inspect(t, page, 'desk-test-event');
    await dialog.getByRole('button', { name: 'Close' }).click();

    const before = receiver.requests.length;
    await page.getByRole('button', { name: 'Replay all since' }).click();
    await dialog.getByText('2 events failed and can be sent again.').waitFor();
    await inspect(t, page, 'desk-replay-since');
    await dialog.getByRole('button', { name: 'Replay all' }).press('Enter');
    await page.getByText('2 queued again.').waitFor();
    await receiver.got(before + 2);
    await page.getByText('Your webhook fails').waitFor({ state: 'detached' });
    t.same((await api<{ endpoints: unknown[] }>('attention')).endpoints, []);

    await page.getByRole('link', { name: 'Events' }).click();
    await page.getByRole('heading', { name: 'Events', exact: true }).waitFor();
    await page.getByRole('link', { name: 'payment success' }).waitFor();
    await inspect(t, page, 'desk-events');
    await page.getByRole('link', { name: 'payment success' }).click();
    const body = await page.getByLabel('Body of the event').textContent();
    t.ok(
      receiver.requests.some((request) => request.body.toString() === body),
      'the very bytes that were sent',
    );
    await inspect(t, page, 'desk-event');
    t.same([...faults, ...shop.faults], []);
  },
);

void t.test(
  'a merchant creates a plan with every term and a link with a discount and metadata',
  async (t) => {
    const stage = await startStage(t);
    const { chain, served, merchant } = stage;
    const { token, appId } = merchant;
    const api = <T>(path: string, method = 'GET', body?: unknown) =>
      served.call<T>(method, `/merchant/apps/${appId}/${path}`, { token, body });
    const selling = createTestWallet(chain.rpcUrl, merchant.keypairOnChain);
    const { page, faults } = await stage.open({ prepare: (one) => selling.install(one) });
    await page.goto('/dashboard');
    await page.getByRole('button', { name: /Sign in with/ }).click();
    await page.getByRole('link', { name: 'Plans', exact: true }).click();
    await page.getByRole('button', { name: 'New plan' }).press('Enter');
    const dialog = page.getByRole('dialog');
    const fill = async (values: Readonly<Record<string, string>>) => {
      for (const [label, value] of Object.entries(values))
        await dialog.getByLabel(label).fill(value);
    };
    await fill({
      Name: 'Tea club',
      'Amount in USDC': '20',
      Description: 'A box of tea every month.',
      'Free trial, days': 'a week',
      'Access while a payment is due, hours': '48',
      'Retries after a failure, hours': '2, 12, 48',
      'Unpaid subscriptions expire after, days': '10',
      'Notices before a payment, hours': '72, 24',
      'Last day of the plan': '2031-12-31',
    });
    const preview = dialog.getByRole('region', { name: 'Preview of the page' });
    await preview.getByText('A box of tea every month.').waitFor();
    await dialog.getByText(/^Publishing costs your wallet 0\.\d+ SOL/).waitFor();
    await dialog.getByRole('button', { name: 'Create and publish' }).click();
    await dialog.getByText('such as 7 or 0.5').waitFor();
    await dialog.getByLabel('Free trial, days').fill('7');
    await preview.getByText('7 days').waitFor();
    await inspect(t, page, 'desk-new-plan');
    await dialog.getByRole('button', { name: 'Create and publish' }).click();
    await page.getByText('Tea club is published.').waitFor();
    const [plan] = await api<Plan[]>('plans');
    t.match(plan, {
      description: 'A box of tea every month.',
      amount: '20000000',
      trialHours: 168,
      graceHours: 48,
      retryHours: [2, 12, 48],
      pastDueDays: 10,
      noticeHours: [72, 24],
      endsAt: '2031-12-31T23:00:00.000Z',
    });
    const cost = await served.call<{ total: string }>('GET', '/merchant/publishing-cost', {
      token,
    });
    t.match(cost, { total: /^\d+$/ });

    await page.getByRole('button', { name: 'Edit Tea club' }).click();
    t.equal(await dialog.getByLabel('Retries after a failure, hours').inputValue(), '2, 12, 48');
    await fill({ Description: 'Two boxes of tea.', 'Notices before a payment, hours': '' });
    await inspect(t, page, 'desk-edit-plan');
    await dialog.getByRole('button', { name: 'Save' }).press('Enter');
    await dialog.waitFor({ state: 'detached' });
    t.match((await api<Plan[]>('plans'))[0], {
      description: 'Two boxes of tea.',
      noticeHours: null,
      trialHours: 168,
    });

    await page.getByRole('link', { name: 'Checkout links' }).click();
    await page.getByRole('button', { name: 'New link' }).click();
    // Of the plan, once the dialog has read the plans.
    await dialog.getByPlaceholder('7 days, as the plan').fill('3');
    await dialog.getByLabel('Your customer’s id').fill('alice');
    await dialog.getByRole('combobox', { name: 'Discount' }).selectOption('USDC off each payment');
    await dialog.getByRole('textbox', { name: 'USDC off' }).fill('2.50');
    await dialog.getByLabel('For how many payments').fill('6');
    await dialog.getByRole('button', { name: 'Add a row' }).click();
    await fill({ 'Metadata: name 1': 'order', 'Metadata: value 1': '1234' });
    await inspect(t, page, 'desk-new-link');
    await dialog.getByRole('button', { name: 'Create link' }).click();
    const url = (await dialog.locator('code').textContent()) ?? '';
    await dialog.getByRole('button', { name: 'Done' }).click();
    const [made] = await api<components['schemas']['CheckoutSession'][]>('checkout-sessions');
    t.match(made, {
      url,
      externalId: 'alice',
      metadata: { order: '1234' },
      discount: { amountOff: '2500000', periodsLeft: 6 },
      trialHours: 72,
    });
    await inspect(t, page, 'desk-links');

    const buyer = createTestWallet(chain.rpcUrl, chain.wallet().keypair);
    const shop = await stage.open({ prepare: (one) => buyer.install(one) });
    await shop.page.goto(url);
    await shop.page.getByText('Two boxes of tea.').waitFor();
    await shop.page.getByRole('button', { name: /Subscribe and pay with/ }).click();
    await shop.page.getByText('Free until').first().waitFor();
    await page.getByRole('link', { name: 'Subscriptions', exact: true }).click();
    await page.getByRole('link', { name: 'alice' }).click();
    await page.getByText('Trial ends').waitFor();
    await page.getByText('2.50 USDC off 6 payments').waitFor();
    await page.getByText('1234').waitFor();
    await page.getByRole('link', { name: 'Plans', exact: true }).click();
    const sunset = page.getByRole('button', { name: 'Sunset Tea club' });
    await sunset.click();
    await dialog.getByRole('button', { name: 'Keep it' }).click();
    await dialog.waitFor({ state: 'detached' });
    await sunset.click();
    await dialog.getByRole('button', { name: 'Sunset', exact: true }).click();
    await sunset.waitFor({ state: 'detached' });
    t.match((await api<Plan[]>('plans'))[0], { status: 'sunset' });
    t.same([...faults, ...shop.faults], []);
  },
);
