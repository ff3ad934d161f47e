// A merchant's month in the sandbox's dashboard, by mouse and keyboard alone, from a new plan to
// the exported statement. Each figure is compared with the API's.
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { eachScreen, labelsOf } from '../../../scripts/picture-screens.ts';
import type { components } from '../../../src/client/openapi.ts';
import { closeBrowser, inspect, tile, view } from '../../fixtures/browser.ts';
import { runShared, start } from '../../fixtures/command.ts';

type Schemas = components['schemas'];
interface Ready {
  apiUrl: string;
  demo: { wallet: string; secretKey: string } & Record<
    'subscribeUrl' | 'accountUrl' | 'dashboardUrl',
    string
  >;
  databaseUrl: string;
  merchants: { apiKey: string; appId: string; wallet: string }[];
  subscribers: { wallet: string; secretKey: string }[];
}

t.teardown(closeBrowser);

const usdc = (units: bigint | string) => {
  const number = Number(units) / 1e6;
  const digits = { minimumFractionDigits: 2, maximumFractionDigits: 6 };
  return `${new Intl.NumberFormat('en', digits).format(number)} USDC`;
};
const cents = (units: bigint) => {
  const digits = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return `${new Intl.NumberFormat('en', digits).format(Number(units) / 1e6)} USDC`;
};
/** Requests of the sandbox's buttons, which go to the sandbox's own server. */
const isControl = (fault: string) => /^request to http:\/\/127\.0\.0\.1:\d+\/control\//.test(fault);
/** Presses a button of the sandbox, which acts and leads back to the same view. */
async function press(page: Page, name: string): Promise<void> {
  const controls = page.getByRole('complementary', { name: 'Sandbox' });
  const loaded = page.waitForEvent('load');
  await controls.getByRole('link', { name }).click();
  await loaded;
}

/** A sandbox after its play, with the first merchant's API. */
async function startSandbox(t: Test) {
  const size = ['--subscribers', '24', '--periods', '4', '--seed', '3'];
  const running = start(t, ['sandbox', '--json', '--secrets', ...size], {});
  const ready = JSON.parse(await running.line('"ready":true')) as Ready;
  await running.line('"invariants"');
  const [merchant] = ready.merchants;
  const headers = { authorization: `Bearer ${merchant?.apiKey ?? ''}` };
  // A test makes more requests in a minute than a person, and the tier Free is for one person.
  const env = { DATABASE_URL: ready.databaseUrl };
  const { code } = await runShared(['merchants', 'set-tier', merchant!.wallet, 'pro'], env);
  t.equal(code, 0);
  const read = (path: string): Promise<Response> =>
    fetch(`${ready.apiUrl}/merchant/apps/${merchant?.appId ?? ''}/${path}`, { headers });
  const api = async <T>(path: string): Promise<T> => {
    const response = await read(path);
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    const body = (await response.json()) as { data: T };
    return body.data;
  };
  const faults: string[][] = [];
  const open = async (url: string): Promise<Page> => {
    // The windows share one address and its limits: where a request is refused, the page waits.
    const opened = await view(t, ready.apiUrl, { refusals: true });
    faults.push(opened.faults);
    opened.page.on('dialog', (dialog) => void dialog.accept());
    await opened.page.goto(url);
    return opened.page;
  };
  return { ready, read, api, open, faults: () => faults.flat().filter((one) => !isControl(one)) };
}
type Sandbox = Awaited<ReturnType<typeof startSandbox>>;

void t.test(
  'the scenario of a merchant’s month runs in the browser and gives the README’s screenshots',
  async (t) => {
    const sandbox = await startSandbox(t);
    await screens(t, sandbox);
    const { ready, api, open } = sandbox;

    const times = (await api<Schemas['Transaction'][]>('transactions?limit=100')).map(
      ({ occurredAt }) => Date.parse(occurredAt),
    );
    t.ok(Math.min(...times) < Date.now() - 85 * 86_400_000, 'the play took months');

    const page = await open(ready.demo.dashboardUrl);
    await page.getByRole('button', { name: /Sign in with/ }).click();
    await repair(t, sandbox, page);
    await sell(t, sandbox, page);
    const alice = await nameAlice(sandbox, page);
    await refund(t, sandbox, page, alice);
    await pause(t, sandbox, page, alice);
    await changePlan(t, sandbox, page, alice);
    await overview(t, page);
    await statement(t, sandbox, page);
    await passMonth(t, sandbox, page);
    t.same(sandbox.faults(), []);
  },
);

/** The README's pictures show these labels; `npm run pictures` makes both anew. */
async function screens(t: Test, { ready, open }: Sandbox): Promise<void> {
  const file = new URL('../../../docs/pictures/labels.json', import.meta.url);
  const labels = JSON.parse(await readFile(file, 'utf8')) as Record<string, string[]>;
  await eachScreen(ready.demo, open, async (page, name) => {
    t.same(await labelsOf(page), labels[name], `${name}: npm run pictures`);
  });
}

/** One endpoint is broken. After its repair, it gets the deliveries that have failed since. */
async function repair(t: Test, { api }: Sandbox, page: Page): Promise<void> {
  await page.getByText('Your webhook fails').waitFor();
  await inspect(t, page, 'sandbox-dashboard');
  await press(page, 'Repair the webhook');
  await page
    .getByRole('link', { name: 'Webhook', exact: false })
    .and(page.locator('nav a'))
    .click();
  await page.getByRole('button', { name: 'Replay all since' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText(/^\d+ events? failed and can be sent again\.$/).waitFor();
  await dialog.getByRole('button', { name: 'Replay all' }).press('Enter');
  await page.getByText('Your webhook fails').waitFor({ state: 'detached' });
  t.same((await api<{ endpoints: unknown[] }>('attention')).endpoints, []);
}

/** A plan with a trial, and a link with a discount for bob, who subscribes. */
async function sell(t: Test, { ready, api, open }: Sandbox, page: Page): Promise<void> {
  const dialog = page.getByRole('dialog');
  await page.getByRole('link', { name: 'Plans', exact: true }).click();
  await page.getByRole('button', { name: 'New plan' }).press('Enter');
  await dialog.getByLabel('Name').fill('Tea club');
  await dialog.getByLabel('Amount in USDC').fill('5');
  await dialog.getByLabel('Free trial, days').fill('7');
  await dialog.getByRole('button', { name: 'Create and publish' }).press('Enter');
  await page.getByText('Tea club is published.').waitFor();
  const [plan] = await api<Schemas['Plan'][]>('plans');
  t.match(plan, { amount: '5000000', trialHours: 168 });

  await page.getByRole('link', { name: 'Checkout links' }).click();
  await page.getByRole('button', { name: 'New link' }).click();
  await dialog.getByLabel('Plan').selectOption(plan?.id ?? '');
  await dialog.getByLabel('Your customer’s id').fill('bob');
  await dialog.getByRole('combobox', { name: 'Discount' }).selectOption('Percent');
  await dialog.getByLabel('Percent off').fill('20');
  await dialog.getByRole('button', { name: 'Create link' }).press('Enter');
  const url = (await dialog.locator('code').textContent()) ?? '';
  await dialog.getByRole('button', { name: 'Done' }).click();
  const shop = await open(`${url}#demo=${ready.demo.secretKey}`);
  await shop.getByText('7 days').first().waitFor();
  await shop.getByRole('button', { name: /Subscribe and pay with/ }).click();
  await shop.getByText('Free until').first().waitFor();
  await shop.context().close();
  const [bob] = await api<Schemas['Subscription'][]>('subscriptions?externalId=bob');
  t.match(bob, { discount: { percentOff: 20 }, paidThrough: null, trialEndsAt: String });
}

/** Names a customer of the play alice, and finds her by the search box. */
async function nameAlice({ ready, api }: Sandbox, page: Page): Promise<Schemas['Subscription']> {
  const wallets = new Set(ready.subscribers.map(({ wallet }) => wallet));
  const live = await api<Schemas['Subscription'][]>('subscriptions?status=active&limit=100');
  const one = live.find(
    ({ cancelRequestedAt, subscriberWallet }) =>
      cancelRequestedAt === null && wallets.has(subscriberWallet),
  );
  if (one === undefined) throw new Error('no customer of the play is left');
  const search = page.getByRole('searchbox', { name: 'Search' });
  const found = page.getByRole('region', { name: 'Found' });
  await search.fill(one.id);
  await search.press('Enter');
  await found.getByRole('link').first().click();
  await page.getByRole('button', { name: 'Edit your data' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Your customer’s id').fill('alice');
  await dialog.getByRole('button', { name: 'Save' }).press('Enter');
  await page.getByRole('heading', { name: 'alice', exact: true }).waitFor();
  await search.fill('alice');
  await search.press('Enter');
  await found.getByRole('link', { name: 'alice' }).click();
  await page.getByRole('heading', { name: 'alice', exact: true }).waitFor();
  return one;
}

async function refund(
  t: Test,
  { api }: Sandbox,
  page: Page,
  { id }: Schemas['Subscription'],
): Promise<void> {
  const payments = page.getByRole('region', { name: 'Payments' });
  await payments.getByRole('button', { name: 'Refund the payment of alice' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Amount in USDC').fill('1');
  await dialog.getByRole('button', { name: 'Refund 1.00 USDC' }).press('Enter');
  await dialog.getByText('The transfer is final').waitFor();
  await dialog.getByRole('button', { name: 'Done' }).click();
  await payments.getByText('1.00 USDC', { exact: true }).waitFor();
  const [paid] = await api<Schemas['Transaction'][]>(`transactions?subscriptionId=${id}`);
  t.equal(paid?.amountRefunded, '1000000');
}

async function pause(
  t: Test,
  { api }: Sandbox,
  page: Page,
  { id }: Schemas['Subscription'],
): Promise<void> {
  const dialog = page.getByRole('dialog');
  for (const name of ['Pause', 'Unpause']) {
    await page.getByRole('button', { name, exact: true }).press('Enter');
    await dialog.getByRole('button', { name, exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
    const { pausedAt } = await api<Schemas['Subscription']>(`subscriptions/${id}`);
    t.equal(pausedAt !== null, name === 'Pause');
  }
  await page.getByRole('button', { name: 'Pause', exact: true }).waitFor();
}

/** The merchant offers alice the new plan, and her wallet signs the change. */
async function changePlan(
  t: Test,
  { ready, api, open }: Sandbox,
  page: Page,
  { id, subscriberWallet }: Schemas['Subscription'],
): Promise<void> {
  const dialog = page.getByRole('dialog');
  const answering = page.waitForResponse((response) => response.url().includes('/change?'));
  await page.getByRole('button', { name: 'Change plan' }).press('Enter');
  const { data: change } = (await (await answering).json()) as {
    data: Schemas['ChangePreview'];
  };
  const shown = async (name: string) =>
    dialog
      .locator('dt', { hasText: name })
      .locator('xpath=following-sibling::dd[1]')
      .locator('.amount')
      .getAttribute('title');
  await dialog.getByText('Paid today').waitFor();
  t.equal(await shown('Paid today'), usdc(change.today));
  t.equal(await shown('Next payment'), usdc(change.next?.amount ?? ''));
  t.equal(await shown('After that'), usdc(change.after?.amount ?? ''));
  await dialog.getByRole('button', { name: 'Create link' }).press('Enter');
  const url = (await dialog.locator('code').textContent()) ?? '';
  await dialog.getByRole('button', { name: 'Done' }).click();
  const secret = ready.subscribers.find(({ wallet }) => wallet === subscriberWallet)?.secretKey;
  const shop = await open(`${url}#demo=${secret ?? ''}`);
  await shop.getByRole('button', { name: /Subscribe and pay with/ }).click();
  await shop.getByRole('heading', { name: 'Change plan' }).waitFor();
  await shop.getByRole('button', { name: 'Subscribe and pay', exact: true }).click();
  await shop.getByText('Paid until').waitFor();
  await shop.context().close();
  const [next] = await api<Schemas['Subscription'][]>('subscriptions');
  t.match(next, { replaces: id, externalId: 'alice' });
  await page.getByRole('button', { name: 'Change plan' }).waitFor({ state: 'detached' });
}

/** Each tile of the overview has the API's figure. */
async function overview(t: Test, page: Page): Promise<void> {
  const answering = page.waitForResponse((response) => response.url().includes('/analytics?'));
  await page.getByRole('link', { name: 'Overview' }).click();
  const { data } = (await (await answering).json()) as { data: Schemas['Analytics'] };
  const count = (number: number) => new Intl.NumberFormat('en').format(number);
  const percent = (rate: number | null) => (rate === null ? '–' : `${(rate * 100).toFixed(1)} %`);
  await tile(page, 'Net revenue').waitFor();
  const tiles = [
    ['Net revenue', cents(BigInt(data.net) - BigInt(data.refunded))],
    ['Monthly recurring', cents(BigInt(data.mrr))],
    ['Active subscriptions', count(data.active)],
    ['New', count(data.new)],
    ['Past due', count(data.pastDue)],
    ['Churn', percent(data.churnRate)],
    ['Payments that succeeded', percent(data.successRate)],
    ['Refunded', cents(BigInt(data.refunded))],
    ['Platform fees', cents(BigInt(data.fees))],
  ] as const;
  t.same(
    await page.locator('.tiles').first().locator('dt').allTextContents(),
    tiles.map(([name]) => name),
    'every tile is compared',
  );
  for (const [name, text] of tiles) t.equal(await tile(page, name).textContent(), text, name);
  t.equal(await page.locator('.tile .meaning').count(), tiles.length, 'each with its definition');
  t.equal(data.refunded, '1000000');
  for (const [name, figure] of Object.entries({
    active: data.active,
    new: data.new,
    mrr: data.mrr,
  }))
    t.ok(Number(figure) > 0, `${name} is not nothing`);
}

/** The statements have the API's figures, and the export is the API's file. */
async function statement(t: Test, { api, read }: Sandbox, page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Statements' }).click();
  await page.getByRole('heading', { name: 'Statements' }).waitFor();
  const now = new Date();
  const months = [2, 1, 0].map((back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back)).toISOString().slice(0, 7),
  );
  for (const month of months) {
    await page.getByLabel('Month').selectOption(month);
    const stated = await api<Schemas['Statement']>(`statements/${month}`);
    const figures = [
      ['Gross', usdc(stated.gross)],
      ['Platform fees', usdc(stated.fees)],
      ['Net', usdc(stated.net)],
      ['Refunded', usdc(stated.refunded)],
      ['Net after refunds', usdc(stated.netAfterRefunds)],
      ['Payments', String(stated.payments)],
      ['Refunds', String(stated.refunds)],
    ] as const;
    for (const [name, text] of figures) {
      await tile(page, name).filter({ hasText: text }).waitFor();
      t.equal(await tile(page, name).textContent(), text, `${month}: ${name}`);
    }
    const downloading = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download CSV' }).press('Enter');
    const file = await (await downloading).path();
    const csv = await (await read(`statements/${month}/csv`)).text();
    t.equal(await readFile(file, 'utf8'), csv, `${month}: the file`);
    const lines = csv
      .trimEnd()
      .split('\r\n')
      .slice(1)
      .map((line) => line.split(','));
    const sumOf = (index: number) =>
      lines.reduce((sum, line) => sum + BigInt(line[index] ?? '0'), 0n).toString();
    t.same(
      [sumOf(2), sumOf(3), sumOf(4), sumOf(5)],
      [stated.gross, stated.fees, stated.net, stated.refunded],
      `${month}: its lines`,
    );
  }
}

/** The buttons of the sandbox: a wallet is emptied, an approval revoked, and a month passes. */
async function passMonth(t: Test, { ready, api }: Sandbox, page: Page): Promise<void> {
  const live = await api<Schemas['Subscription'][]>('subscriptions?status=active&limit=100');
  const [one, other] = live.filter(
    ({ cancelRequestedAt, externalId, subscriberWallet }) =>
      cancelRequestedAt === null && externalId === null && subscriberWallet !== ready.demo.wallet,
  );
  const chosen = [one?.id ?? '', other?.id ?? ''] as const;
  for (const [id, button] of [
    [chosen[0], 'Empty this wallet'],
    [chosen[1], 'Revoke the approval'],
  ] as const) {
    await page.goto(`/dashboard#/subscriptions/${id}`);
    await press(page, button);
    await page.getByRole('button', { name: 'Edit your data' }).waitFor();
  }
  await page.goto('/dashboard#/?days=7');
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await press(page, '+1 month');
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  const [from, to] = [
    await page.getByLabel('From').inputValue(),
    await page.getByLabel('To').inputValue(),
  ];
  const days = (Date.parse(to) - Date.parse(from)) / 86_400_000;
  t.match(
    { days, isAhead: Date.parse(to) > Date.now() + 25 * 86_400_000 },
    { days: 30, isAhead: true },
  );
  const [bob] = await api<Schemas['Subscription'][]>('subscriptions?externalId=bob');
  const [paid] = await api<Schemas['Transaction'][]>(
    `transactions?subscriptionId=${bob?.id ?? ''}`,
  );
  // After 168 of 730 hours: the rest of the period, less 20 %, in whole cents.
  t.match(paid, { status: 'succeeded', amountGross: '3070000' });
  const failed = await api<Schemas['Transaction'][]>('transactions?status=failed&limit=100');
  const reasons = chosen.map(
    (id) => failed.find(({ subscriptionId }) => subscriptionId === id)?.failureReason,
  );
  t.same(reasons, ['insufficient_funds', 'delegate_replaced']);
}
