// Text that others wrote is text; a page in a frame is refused; the first paint waits for no script
// and no data.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { closeBrowser, inspect, startStage } from '../fixtures/browser.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';
import { startReceiver } from '../fixtures/receiver.ts';

t.teardown(closeBrowser);

const script =
  '"><script>document.title="owned"</script><img src=x onerror=document.title="owned">';
const bidi = '\u202egnp.exe\u2066 \u200b';

void t.test('hostile text in names is shown as plain text', async (t) => {
  const stage = await startStage(t);
  const { chain, served, merchant } = stage;
  const { token, appId } = merchant;
  const receiver = await startReceiver(t, (response) =>
    response.writeHead(500).end(`${'['.repeat(3000)}${script}${bidi}`),
  );
  await served.call('PATCH', `/merchant/apps/${appId}`, {
    token,
    body: {
      name: script.slice(0, 100),
      description: 'x'.repeat(2000),
      websiteUrl: 'https://user:pass@evil.test/',
    },
  });
  await served.call('PATCH', '/merchant/profile', {
    token,
    body: { name: script.slice(0, 80) },
  });
  await served.call('POST', `/merchant/apps/${appId}/webhooks`, {
    token,
    body: { url: `${receiver.url}?${encodeURIComponent(script)}` },
  });
  const plan = await stage.plan({ name: script.slice(0, 100) });
  const wallet = createTestWallet(chain.rpcUrl, chain.wallet().keypair, { name: script + bidi });
  const shop = await stage.open({ width: 390, prepare: (page) => wallet.install(page) });
  await shop.page.goto(`/s/${plan.id}`);
  const button = shop.page.getByRole('button', { name: /^Subscribe and pay with/ });
  await button.waitFor();
  const shown = await shop.page.locator('body').innerText();
  t.ok(shown.includes('<script>'), 'a tag is shown as text');
  t.notMatch(shown, /[\u202a-\u202e\u2066-\u2069\u200b]/, 'nothing turns the direction');
  t.equal(
    await shop.page.getByRole('link', { name: /evil/ }).count(),
    0,
    'no link with credentials',
  );
  const width = await shop.page.evaluate<number>('document.documentElement.scrollWidth');
  t.ok(width <= 390, `nothing is wider than the screen: ${width}`);
  await inspect(t, shop.page, 'hostile-subscribe');
  await button.click();
  await shop.page.getByText('Paid until').waitFor();
  await receiver.got(1);

  await shop.page.goto('/account');
  await shop.page.getByRole('button', { name: 'Payments' }).click();
  await shop.page.getByText('Succeeded').waitFor();
  await inspect(t, shop.page, 'hostile-account');

  await served.call('POST', `/merchant/apps/${appId}/checkout-sessions`, {
    token,
    body: { planId: plan.id, externalId: script.slice(0, 120) },
  });
  const selling = createTestWallet(chain.rpcUrl, merchant.keypairOnChain);
  const desk = await stage.open({ prepare: (page) => selling.install(page) });
  await desk.page.goto('/dashboard');
  await desk.page.getByRole('button', { name: /Sign in with/ }).click();
  await desk.page.getByRole('link', { name: 'Webhook' }).click();
  await desk.page.getByRole('region', { name: 'Deliveries' }).getByRole('link').first().click();
  await desk.page.getByLabel('Response of attempt 1').waitFor();
  await inspect(t, desk.page, 'hostile-delivery');
  for (const [view, shows] of [
    ['Overview', 'Net revenue per day'],
    ['Plans', 'Active'],
    ['Checkout links', 'Open'],
    ['Subscriptions', 'Next payment'],
    ['Payments', 'Gross'],
    ['Webhook', 'Deliveries'],
    ['Settings', 'This app'],
  ] as const) {
    await desk.page.getByRole('link', { name: view, exact: true }).click();
    await desk.page.locator('main').getByText(shows).first().waitFor();
    await inspect(t, desk.page, `hostile-${view.toLowerCase().replace(' ', '-')}`);
    const text = await desk.page.locator('body').innerText();
    t.notMatch(text, /[\u202a-\u202e\u2066-\u2069\u200b]/, `${view}: nothing turns the direction`);
    t.equal(
      await desk.page.locator('img, main script').count(),
      0,
      `${view}: no element of theirs`,
    );
  }
  t.notMatch(await desk.page.title(), /owned/);
  t.notMatch(await shop.page.title(), /^owned/);
  t.same([...shop.faults, ...desk.faults], []);
});

void t.test('the browser refuses to show the pages in a frame of another site', async (t) => {
  const stage = await startStage(t, { keeper: false });
  const framing = createServer((_request, response) =>
    response
      .setHeader('content-type', 'text/html')
      .end(`<iframe src="${stage.origin}/account"></iframe>`),
  ).listen(0, '127.0.0.1');
  await once(framing, 'listening');
  t.teardown(() => framing.close());
  const { page, faults } = await stage.open();
  await page.goto(`http://127.0.0.1:${(framing.address() as AddressInfo).port}/`);
  const refused = () => faults.some((fault) => /frame-ancestors/.test(fault));
  await stage.until('Chromium refuses the frame', async () => refused());
  t.ok(refused());
});

void t.test('the first contentful paint needs only the document and its style sheet', async (t) => {
  const stage = await startStage(t, { keeper: false });
  const { id } = await stage.plan();
  const { page } = await stage.open();
  const asked: string[] = [];
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  await page.route('**/*', async (route) => {
    const { pathname } = new URL(route.request().url());
    asked.push(pathname);
    const isNeeded = pathname.startsWith('/s/') || pathname.endsWith('.css');
    if (!isNeeded) await released;
    await route.continue();
  });
  await page.goto(`/s/${id}`, { waitUntil: 'commit' });
  const paints = () =>
    page.evaluate<number>("performance.getEntriesByName('first-contentful-paint').length");
  await stage.until('it is painted', async () => (await paints()) > 0);
  t.match(await page.locator('body').innerText(), /Loading/);
  t.same(
    asked.filter((path) => !/\.(js|css|svg)$/.test(path)),
    [`/s/${id}`],
    'no data was asked for yet',
  );
  release();
  await page.getByRole('heading', { name: /Subscribe to/ }).waitFor();
});
