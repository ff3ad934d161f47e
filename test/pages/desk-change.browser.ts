// Statements, figures of a plan, exports and changes of plan on the merchant's desk, judged by the
// API.
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Locator, Page } from 'playwright-core';
import t from 'tap';
import type { components } from '../../src/client/openapi.ts';
import { refusal } from '../../src/http/shapes/envelope.ts';
import { closeBrowser, inspect, startStage, tile } from '../fixtures/browser.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';
import { insertPayment, insertPlan, insertSubscription } from '../fixtures/rows.ts';

type Statement = components['schemas']['Statement'];
type Analytics = components['schemas']['Analytics'];
type Change = components['schemas']['ChangePreview'];
type Subscription = components['schemas']['Subscription'];

t.teardown(closeBrowser);

const usdc = (units: bigint | string) => `${(Number(units) / 1e6).toFixed(2)} USDC`;
/** The value beside a name, in a list of names and values. */
const valueOf = (within: Page | Locator, name: string) =>
  within.locator('dt', { hasText: name }).first().locator('xpath=following-sibling::dd[1]');

void t.test(
  'the dashboard shows a statement and figures of a plan for chosen days, and exports them',
  async (t) => {
    const stage = await startStage(t, {
      keeper: false,
      env: { CONTACT_URL: 'mailto:sales@operator.example' },
    });
    const { chain, served, merchant } = stage;
    const { token, appId } = merchant;
    const { sql } = served;
    const month = new Date().toISOString().slice(0, 7);
    const before = new Date(Date.parse(`${month}-01T00:00:00Z`) - 1).toISOString().slice(0, 7);
    const planId = await insertPlan(sql, merchant);
    const subscriptionId = await insertSubscription(
      sql,
      { appId, planId },
      { externalId: 'alice', createdAt: new Date(`${before}-02T00:00:00Z`) },
    );
    const payment = await insertPayment(sql, subscriptionId, `${before}-03T10:00:00Z`);
    await insertPayment(sql, subscriptionId, `${before}-20T10:00:00Z`);
    await insertPayment(sql, subscriptionId, `${month}-01T00:00:00Z`);
    await sql`
    insert into refunds (app_id, payment_id, subscription_id, amount, reference, status,
      tx_signature, occurred_at)
    select ${appId}, ${payment}, ${subscriptionId}, 1500000, ${randomUUID()}, 'succeeded', 'refund',
      ${`${before}-21T10:00:00Z`}`;
    const path = `/merchant/apps/${appId}/statements/${before}`;
    const statement = await served.call<Statement>('GET', path, { token });

    const selling = createTestWallet(chain.rpcUrl, merchant.keypairOnChain);
    const { page, faults } = await stage.open({ prepare: (one) => selling.install(one) });
    await page.goto('/dashboard');
    await page.getByRole('button', { name: /Sign in with/ }).click();

    // A page that is refused says for how long, and then reads again by itself.
    await page.clock.install();
    const refused = {
      status: 429,
      headers: { 'retry-after': '40' },
      json: refusal('RATE_LIMITED', 'More than 100 requests in a minute: wait 40 s.'),
    };
    await page.route('**/statements/*', (route) => route.fulfill(refused));
    await page.getByRole('link', { name: 'Statements', exact: true }).click();
    await page.getByText('Too many requests. Try again in 40 seconds.').waitFor();
    await page.unroute('**/statements/*');
    await page.clock.runFor(40_000);
    await page.getByRole('region', { name: 'Days' }).waitFor();
    await page.clock.resume();
    t.match(faults.splice(0), [/status of 429/], 'the refusal');
    t.equal(await page.getByLabel('Month').inputValue(), month, 'this month first');
    await page.getByLabel('Month').selectOption(before);
    await page.getByRole('cell', { name: `${before}-20` }).waitFor();
    for (const [name, text] of [
      ['Gross', usdc(statement.gross)],
      ['Platform fees', usdc(statement.fees)],
      ['Net', usdc(statement.net)],
      ['Refunded', usdc(statement.refunded)],
      ['Net after refunds', usdc(statement.netAfterRefunds)],
      ['Payments', String(statement.payments)],
      ['Refunds', String(statement.refunds)],
    ] as const)
      t.equal(await tile(page, name).textContent(), text, name);
    t.match(statement, { payments: 2, refunds: 1, refunded: '1500000' });
    const rows = page.getByRole('region', { name: 'Days' }).getByRole('row');
    t.equal(await rows.count(), 4, 'a head, and the days on which something happened');
    t.equal(await page.getByRole('cell', { name: '-1.50 USDC' }).count(), 1, 'less than nothing');
    await inspect(t, page, 'desk-statement');

    const downloading = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download CSV' }).click();
    const download = await downloading;
    t.equal(download.suggestedFilename(), `statement-${before}.csv`);
    const saved = await readFile(await download.path(), 'utf8');
    const answer = await fetch(`${stage.origin}${path}/csv`, {
      headers: { authorization: `Bearer ${token}` },
    });
    t.equal(saved, await answer.text(), 'byte for byte');

    const opening = page.context().waitForEvent('page');
    await page.getByRole('button', { name: 'Open to print' }).click();
    const printed = await opening;
    const errors: string[] = [];
    printed.on('console', (message) => errors.push(message.text()));
    await printed.getByRole('heading', { name: `Statement ${before}` }).waitFor();
    const [all] = await printed.getByRole('row').filter({ hasText: 'All' }).all();
    t.same((await all?.getByRole('cell').allTextContents())?.slice(1, 4), [
      '2',
      (Number(statement.gross) / 1e6).toFixed(2),
      (Number(statement.fees) / 1e6).toFixed(2),
    ]);
    const margin = "getComputedStyle(document.querySelector('table')).borderCollapse";
    t.equal(await printed.evaluate(margin), 'collapse', 'its style is allowed');
    await inspect(t, printed, 'desk-statement-page');

    // Figures of own dates and of one plan. The URL keeps both.
    const other = await insertPlan(sql, merchant, { name: 'Other' });
    await insertPayment(
      sql,
      await insertSubscription(
        sql,
        { appId, planId: other },
        { createdAt: new Date(`${before}-04T00:00:00Z`) },
      ),
      `${before}-04T10:00:00Z`,
    );
    const figures = (query: string) =>
      served.call<Analytics>('GET', `/merchant/apps/${appId}/analytics?${query}`, { token });
    const shows = async (of: Analytics, what: string) => {
      const net = usdc(BigInt(of.net) - BigInt(of.refunded));
      await tile(page, 'Net revenue').filter({ hasText: net }).waitFor();
      t.equal(await tile(page, 'Net revenue').textContent(), net, what);
      t.equal(await tile(page, 'Refunded').textContent(), usdc(of.refunded), what);
      t.equal(await tile(page, 'Monthly recurring').textContent(), usdc(of.mrr), what);
      t.equal(await tile(page, 'New').textContent(), String(of.new), what);
    };
    const last = new Date(Date.parse(`${month}-01T00:00:00Z`) - 1).toISOString().slice(0, 10);
    await page.getByRole('link', { name: 'Overview', exact: true }).click();
    await page.getByLabel('Range').selectOption('Own dates');
    t.equal(
      await page.getByLabel('To UTC').inputValue(),
      new Date().toISOString().slice(0, 10),
      'first the days that were shown',
    );
    await page.getByLabel('To UTC').fill('2020-01-01');
    await page.getByText('The first day must not be after the last one.').waitFor();
    t.equal(await page.locator('.tile').count(), 0, 'no figures of another range');
    await inspect(t, page, 'desk-own-dates-problem');
    await page.getByLabel('From UTC').fill(`${before}-01`);
    await page.getByLabel('To UTC').fill(last);
    const days = `from=${before}-01T00:00:00Z&to=${month}-01T00:00:00Z`;
    const both = await figures(days);
    t.match(both, { gross: '30000000', refunded: '1500000' });
    await shows(both, 'own dates');
    await page.getByLabel('Plan').selectOption('Other');
    const one = await figures(`${days}&planId=${other}`);
    t.match(one, { gross: '10000000', refunded: '0' });
    await shows(one, 'one plan');
    await page.getByText('Changes from another plan to this one.').waitFor();
    await inspect(t, page, 'desk-plan-figures');
    t.match(
      new URLSearchParams(new URL(page.url()).hash.split('?')[1]).toString(),
      `app=${appId}&from=${before}-01&to=${last}&plan=${other}`,
    );
    await page.reload();
    await shows(one, 'after a reload');
    t.equal(await page.getByLabel('From UTC').inputValue(), `${before}-01`);
    await page.getByRole('option', { name: 'Other' }).waitFor({ state: 'attached' });
    t.equal(await page.getByLabel('Plan').inputValue(), other);
    await page.getByLabel('Range').selectOption('Last 365 days');
    await page.getByLabel('Plan').selectOption('All');
    await page.getByText('Net revenue per week').first().waitFor();
    await page.getByLabel('From UTC').waitFor({ state: 'detached' });

    // The export: in the Free tier a way to ask for Pro, in Pro the same rows as the API's.
    await page.getByRole('link', { name: 'Payments', exact: true }).click();
    const ask = await page.getByRole('link', { name: 'Ask for Pro' }).getAttribute('href');
    const mail = new URL(ask ?? '');
    t.equal(mail.pathname, 'sales@operator.example');
    for (const id of [merchant.merchantId, merchant.wallet, appId])
      t.match(mail.searchParams.get('body'), id);
    const exporting = page.getByRole('button', { name: 'Export CSV' });
    t.equal(await exporting.count(), 0, 'not offered');
    await inspect(t, page, 'desk-export-free');
    await sql`update merchants set tier = 'pro' where id = ${merchant.merchantId}`;
    await page.reload();
    await page.getByLabel('Plan').selectOption('Plan');
    await exporting.click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Payments of').selectOption('Last month');
    await dialog.getByText(`${before}-01 to ${last}, UTC.`).waitFor();
    await inspect(t, page, 'desk-export');
    const saving = page.waitForEvent('download');
    await dialog.getByRole('button', { name: 'Download CSV' }).press('Enter');
    const exported = await saving;
    t.equal(exported.suggestedFilename(), `payments-${before}-01-to-${last}.csv`);
    const rowsOf = await fetch(
      `${stage.origin}/merchant/apps/${appId}/transactions/export?planId=${planId}` +
        `&since=${before}-01T00:00:00Z&until=${month}-01T00:00:00Z`,
      { headers: { authorization: `Bearer ${token}` } },
    );
    const csv = await readFile(await exported.path(), 'utf8');
    t.equal(csv, await rowsOf.text(), 'byte for byte');
    t.equal(csv.trimEnd().split('\r\n').length, 3, 'a head and the payments of the plan');
    await dialog.waitFor({ state: 'detached' });

    // Another page has taken Pro away: the page says so, and offers it no longer.
    await exporting.click();
    await sql`update merchants set tier = 'free' where id = ${merchant.merchantId}`;
    await dialog.getByRole('button', { name: 'Download CSV' }).click();
    await page.getByRole('link', { name: 'Ask for Pro' }).waitFor();
    t.equal(await exporting.count(), 0);
    t.match(faults.splice(0), [/status of 403/], 'the refusal');
    t.same([...faults, ...errors], []);
  },
);

void t.test('a merchant sees the costs of a change of plan and sends a link for it', async (t) => {
  const stage = await startStage(t);
  const { chain, served, merchant } = stage;
  const { token, appId } = merchant;
  const api = <T>(path: string) =>
    served.call<T>('GET', `/merchant/apps/${appId}/${path}`, { token });
  const small = await stage.plan({ name: 'Small' });
  const large = await stage.plan({ name: 'Large', amount: '30000000' });
  const buyer = createTestWallet(chain.rpcUrl, chain.wallet().keypair);
  const shop = await stage.open({ prepare: (one) => buyer.install(one) });
  await shop.page.goto(`/s/${small.id}`);
  await shop.page.getByRole('button', { name: /Subscribe and pay with/ }).click();
  await shop.page.getByText('Paid until').waitFor();
  const [old] = await api<Subscription[]>('subscriptions');
  const discount = { percentOff: 25, periods: 3 };
  await served.call('PATCH', `/merchant/apps/${appId}/subscriptions/${old?.id ?? ''}`, {
    token,
    body: { discount },
  });

  const selling = createTestWallet(chain.rpcUrl, merchant.keypairOnChain);
  const { page, faults } = await stage.open({ prepare: (one) => selling.install(one) });
  await page.goto(`/dashboard#/subscriptions/${old?.id ?? ''}`);
  await page.getByRole('button', { name: /Sign in with/ }).click();
  /** The page shows what the API has answered. */
  const preview = (when: string, more = '') =>
    page
      .waitForResponse((response) =>
        response.url().endsWith(`/change?planId=${large.id}&when=${when}${more}`),
      )
      .then(async (response) => ((await response.json()) as { data: Change }).data);
  const asked = preview('now');
  await page.getByRole('button', { name: 'Change plan' }).press('Enter');
  const now = await asked;
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Paid today').waitFor();
  t.ok(BigInt(now.credit) > 0n && BigInt(now.today) + BigInt(now.credit) === 30_000_000n);
  const title = (name: string) => valueOf(dialog, name).locator('.amount').getAttribute('title');
  t.equal(Number.parseFloat((await title('Credit')) ?? ''), Number(now.credit) / 1e6);
  t.equal(Number.parseFloat((await title('Paid today')) ?? ''), Number(now.today) / 1e6);
  t.equal(await title('Next payment'), usdc(now.next?.amount ?? '0'));
  await inspect(t, page, 'desk-change-plan');
  const later = preview('period_end');
  await dialog.getByLabel('When').selectOption('When the paid period ends');
  const end = await later;
  await valueOf(dialog, 'Paid today').getByText('Nothing', { exact: true }).waitFor();
  t.match(end, { today: '0', endsAt: old?.paidThrough, startsAt: old?.paidThrough });
  t.equal(Number.parseFloat((await title('Next')) ?? ''), Number(end.next?.amount) / 1e6);
  await dialog.getByLabel('When').selectOption('Now');
  await dialog.getByText('does not go along').waitFor();
  await dialog.getByRole('combobox', { name: 'Discount' }).selectOption('Percent');
  await dialog.getByText('The percentage is a whole number').waitFor();
  const halved = preview('now', '&percentOff=50&periods=2');
  await dialog.getByLabel('For how many payments').fill('2');
  await dialog.getByLabel('Percent off').fill('50');
  const half = await halved;
  t.equal(BigInt(half.today) + BigInt(half.credit), 15_000_000n);
  t.match(half, { next: { amount: '15000000' }, after: { amount: '30000000' } });
  await valueOf(dialog, 'Next payment').getByText('15.00 USDC').waitFor();
  t.equal(await title('After that'), usdc('30000000'));
  await inspect(t, page, 'desk-change-discount');
  await dialog.getByRole('button', { name: 'Create link' }).click();
  const url = (await dialog.locator('code').textContent()) ?? '';
  const mail = await dialog.getByRole('link', { name: 'Send by e-mail' }).getAttribute('href');
  t.equal(new URL(mail ?? '').searchParams.get('body'), url);
  await inspect(t, page, 'desk-change-link');
  await dialog.getByRole('button', { name: 'Done' }).click();

  await shop.page.goto(url);
  await shop.page.getByRole('button', { name: /Subscribe and pay with/ }).click();
  await shop.page.getByRole('heading', { name: 'Change plan' }).waitFor();
  await shop.page.getByRole('button', { name: 'Subscribe and pay', exact: true }).click();
  await stage.until(
    'the plan is changed',
    async () => (await api<Subscription[]>('subscriptions'))[0]?.replaces === old?.id,
  );
  const [changed] = await api<Subscription[]>('subscriptions');
  t.match(changed, { discount: { percentOff: 50 } }, 'the link has the discount');
  await page.getByRole('button', { name: 'Change plan' }).waitFor({ state: 'detached' });
  t.same([...faults, ...shop.faults], []);
});
