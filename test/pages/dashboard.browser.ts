// The dashboard in a browser, judged by the chain and the database.
import t from 'tap';
import { closeBrowser, inspect, startStage } from '../fixtures/browser.ts';
import { png } from '../fixtures/images.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';
import { ok, startReceiver, status } from '../fixtures/receiver.ts';

t.teardown(closeBrowser);

void t.test(
  'a merchant adds a webhook, publishes a plan, reads a subscription and makes a key on the dashboard',
  async (t) => {
    const stage = await startStage(t);
    const { chain, served, merchant } = stage;
    const { sql } = served;
    const receiver = await startReceiver(t, status(410));
    const site = await startReceiver(t, status(404));
    const selling = createTestWallet(chain.rpcUrl, merchant.keypairOnChain);
    const { page, faults } = await stage.open({ prepare: (one) => selling.install(one) });

    await page.goto('/dashboard');
    await page.getByRole('button', { name: /Sign in with/ }).waitFor();
    await inspect(t, page, 'dashboard-sign-in');
    await page.getByRole('button', { name: /Sign in with/ }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    for (const [link, empty] of [
      ['Plans', 'No plans yet'],
      ['Checkout links', 'No checkout links yet'],
      ['Subscriptions', 'No subscriptions yet'],
      ['Payments', 'No payments'],
    ] as const) {
      await page.getByRole('link', { name: link, exact: true }).click();
      await page.getByText(empty).waitFor();
      await inspect(t, page, `dashboard-empty-${link.toLowerCase().replace(' ', '-')}`);
    }

    await page.getByRole('link', { name: 'Webhook' }).click();
    await page.getByLabel('URL').waitFor();
    await inspect(t, page, 'dashboard-empty-webhook');
    await page.getByLabel('URL').fill(receiver.url);
    for (const type of ['renewal_upcoming', 'plan_blocked', 'refund_recorded'])
      await page.getByLabel(type).check();
    await page.getByLabel('plan_blocked').uncheck();
    await page.getByRole('button', { name: 'Add endpoint' }).click();
    await page
      .getByRole('dialog')
      .getByText(/^whsec_/)
      .waitFor();
    await inspect(t, page, 'dashboard-secret');
    await page.getByRole('button', { name: 'I have stored it' }).click();
    await page.getByText('Further events: renewal_upcoming, refund_recorded').waitFor();
    const [endpoint] = await sql<{ extraEvents: string[] }[]>`
    select extra_events from webhook_endpoints`;
    t.same(endpoint?.extraEvents, ['renewal_upcoming', 'refund_recorded']);
    await page.getByRole('button', { name: 'Send a test' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText('Answered 410').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();

    // The wallet signs again before a secret is replaced; without that signature nothing happens.
    const signatures = () => selling.asked.filter((method) => method.startsWith('sign')).length;
    const secrets = async () =>
      (await sql`select 1 from webhook_endpoints where rotated_at is not null`).length;
    const replace = async () => {
      await page.getByRole('button', { name: 'Replace the secret' }).click();
      await page.getByRole('button', { name: 'Replace it' }).click();
    };
    let signed = signatures();
    selling.switches.rejects = 'signIn';
    await replace();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    t.equal(await secrets(), 0, 'declined');
    selling.switches.rejects = undefined;
    await replace();
    await page
      .getByRole('dialog')
      .getByText(/^whsec_/)
      .waitFor();
    t.equal(await secrets(), 1);
    t.equal(signatures(), signed + 2);
    await page.getByRole('button', { name: 'I have stored it' }).click();

    await page.getByRole('link', { name: 'Plans', exact: true }).click();
    await page.getByRole('button', { name: 'New plan' }).click();
    await page.getByLabel('Name').fill('Tea club');
    await page.getByLabel('Amount in USDC').fill('9.50');
    await inspect(t, page, 'dashboard-new-plan');
    await page.getByRole('button', { name: 'Create and publish' }).click();
    await page.getByText('Tea club is published.').waitFor();
    const [plan] = await sql<{ id: string; status: string; amount: bigint; planPda: string }[]>`
    select id, status, amount, plan_pda from plans`;
    t.match(plan, { status: 'active', amount: 9_500_000n });
    const { value } = await chain.rpc<{ value: object | null }>('getAccountInfo', plan?.planPda, {
      encoding: 'base64',
      commitment: 'confirmed',
    });
    t.ok(value, 'the plan is on chain');
    await page.getByRole('link', { name: /^Open/ }).waitFor();
    await inspect(t, page, 'dashboard-plans');

    // A hundred times the price may be a slip, and a published amount never changes.
    await page.getByRole('button', { name: 'New plan' }).click();
    await page.getByLabel('Name').fill('Dear tea');
    await page.getByLabel('Amount in USDC').fill('950');
    await page.getByRole('button', { name: 'Create and publish' }).click();
    await page.getByText('Dear tea is created, but not published').waitFor();
    await page.getByRole('cell', { name: /Pending .*950/ }).waitFor();
    t.match(await sql`select status from plans where name = 'Dear tea'`, [{ status: 'pending' }]);

    // A site to return to, then a link for one customer.
    await page.getByRole('link', { name: 'Settings' }).click();
    await page.getByLabel('Sites that a checkout may lead back to').fill('https://tea.example');
    await page.getByRole('button', { name: 'Save' }).first().click();
    await page.getByText('Saved.').waitFor();

    // What the app shows of itself: its logo, its terms, and a website that names it.
    await page.getByLabel('Website').fill(`http://127.0.0.1:${site.port}/`);
    await page.getByLabel('Support: mail address').fill('help@tea.example');
    const terms = `http://127.0.0.1:${site.port}/terms`;
    await page.getByLabel('Terms').fill(terms);
    await page.getByLabel('Privacy notice').fill('https://tea.example/privacy');
    await page.getByRole('button', { name: 'Save' }).first().click();
    await page.getByText('Put this at').waitFor();
    await page.getByRole('button', { name: 'Check it' }).click();
    await page.getByText('The website is not proven').waitFor();
    const [app] = await sql<{ id: string }[]>`select id from apps`;
    site.answer = (response) => response.end(JSON.stringify({ appId: app?.id }));
    await page.getByRole('button', { name: 'Check it' }).click();
    await page.getByText(/^Proven/).waitFor();
    const logo = { name: 'logo.png', mimeType: 'image/png', buffer: Buffer.from('no image') };
    await page.getByLabel('Image file').setInputFiles(logo);
    await page.getByText('must be a whole PNG image').waitFor();
    // Orange, which is visible in both colour schemes.
    const buffer = png(64, 64, { rgba: [0xd9, 0x6b, 0x0f, 0xff] });
    await page.getByLabel('Image file').setInputFiles({ ...logo, buffer });
    await page.getByRole('img', { name: 'The logo of this app' }).waitFor();
    t.match(faults.splice(0), [/status of 409/, /status of 400/], 'the two refusals');
    await inspect(t, page, 'dashboard-app-settings');

    await page.getByRole('link', { name: 'Checkout links' }).click();
    await page.getByRole('button', { name: 'New link' }).click();
    await page.getByLabel('Your customer’s id').fill('customer-7');
    await page.getByLabel('After subscribing, go to').fill('https://tea.example/welcome');
    await inspect(t, page, 'dashboard-new-link');
    await page.getByRole('button', { name: 'Create link' }).click();
    const url = (await page.getByRole('dialog').locator('code').textContent()) ?? '';
    const [made] = await sql<{ id: string; externalId: string; successUrl: string }[]>`
    select id, external_id, success_url from checkout_sessions`;
    t.match(made, { externalId: 'customer-7', successUrl: 'https://tea.example/welcome' });
    t.equal(url, `${stage.origin}/checkout/${made?.id ?? ''}`);
    await inspect(t, page, 'dashboard-link-made');
    await page.getByRole('dialog').getByRole('button', { name: 'Copy the link' }).click();
    t.equal(await page.evaluate('navigator.clipboard.readText()'), url, 'copied');
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('cell', { name: 'customer-7', exact: true }).waitFor();
    await inspect(t, page, 'dashboard-links');

    const buyer = createTestWallet(chain.rpcUrl, chain.wallet().keypair);
    const shop = await stage.open({ prepare: (one) => buyer.install(one) });
    await shop.page.goto(`/s/${plan?.id ?? ''}`);
    const logoSize = 'document.querySelector("img.logo")?.naturalWidth';
    await stage.until('the logo is shown', async () => (await shop.page.evaluate(logoSize)) === 64);
    await shop.page.getByRole('link', { name: `127.0.0.1:${site.port}` }).waitFor();
    const mail = shop.page.getByRole('link', { name: 'help@tea.example' });
    t.equal(await mail.getAttribute('href'), 'mailto:help@tea.example');
    t.equal(await shop.page.getByRole('link', { name: 'Terms' }).getAttribute('href'), terms);
    t.equal(await shop.page.getByRole('link', { name: 'Privacy' }).count(), 0, 'of another origin');
    await shop.page.getByText('https://tea.example/privacy').waitFor();
    await inspect(t, shop.page, 'plan-with-logo');
    await shop.page.getByRole('button', { name: /Subscribe and pay with/ }).click();
    await shop.page.getByText('Paid until').waitFor();
    await stage.until(
      'two deliveries have failed',
      async () => (await sql`select 1 from deliveries where status = 'failed'`).length === 2,
    );

    await page.getByRole('link', { name: 'Subscriptions', exact: true }).click();
    await page.getByRole('region', { name: 'Subscriptions' }).getByText('Active').waitFor();
    await inspect(t, page, 'dashboard-subscriptions');
    await page.getByRole('region', { name: 'Subscriptions' }).getByRole('link').click();
    await page.getByText('Payment: succeeded').waitFor();
    await inspect(t, page, 'dashboard-subscription');

    await page.getByRole('link', { name: 'Payments' }).click();
    await page.getByRole('cell', { name: 'Succeeded' }).waitFor();
    await inspect(t, page, 'dashboard-payments');

    await page.getByRole('link', { name: 'Webhook' }).click();
    const failed = page.getByRole('region', { name: 'Failed deliveries' });
    await failed.waitFor();
    await inspect(t, page, 'dashboard-webhook');
    const before = receiver.requests.length;
    receiver.answer = ok;
    for (const box of await failed.getByRole('checkbox').all()) await box.check();
    await page.getByRole('button', { name: 'Replay 2' }).click();
    await page.getByText('2 queued again.').waitFor();
    await receiver.got(before + 2);
    await stage.until(
      'both are delivered',
      async () => (await sql`select 1 from deliveries where status = 'delivered'`).length === 2,
    );
    await failed.getByRole('link').first().click();
    await page.getByRole('heading', { name: 'Attempts' }).waitFor();
    await inspect(t, page, 'dashboard-delivery');

    // The service disables the endpoint; the merchant enables it.
    await sql`update webhook_endpoints set disabled_at = now(), disabled_reason = 'failing'`;
    await page.getByRole('link', { name: 'Webhook' }).click();
    await page.getByText('All of its requests failed for days.').waitFor();
    await inspect(t, page, 'dashboard-disabled');
    await page.getByRole('button', { name: 'Enable it' }).click();
    await page.getByText('This endpoint is disabled.').waitFor({ state: 'detached' });
    await page.getByText(/of its requests succeeded/).waitFor();
    t.match(await sql`select disabled_at from webhook_endpoints`, [{ disabledAt: null }]);

    await page.getByRole('link', { name: 'API keys' }).click();
    const [{ keys: keysBefore } = { keys: 0 }] = await sql<{ keys: number }[]>`
    select count(*)::int as keys from api_keys where revoked_at is null`;
    signed = signatures();
    selling.switches.rejects = 'signIn';
    await page.getByRole('button', { name: 'New key' }).click();
    await page.getByRole('alert').waitFor();
    selling.switches.rejects = undefined;
    t.equal((await sql`select 1 from api_keys where revoked_at is null`).length, keysBefore);
    await page.getByRole('button', { name: 'New key' }).click();
    const key = (await page.getByRole('dialog').locator('code').textContent()) ?? '';
    t.match(key, /^sk_test_/);
    t.equal(signatures(), signed + 2, 'the wallet is asked each time');
    await page.getByRole('button', { name: 'I have stored it' }).click();
    const used = () =>
      fetch(`${stage.origin}/merchant/profile`, { headers: { authorization: `Bearer ${key}` } });
    t.equal((await used()).status, 200);
    await page.getByRole('button', { name: `Revoke ${key.slice(0, 14)}` }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    t.equal((await used()).status, 401);
    t.equal(
      (await sql`select 1 from api_keys where revoked_at is null`).length,
      keysBefore,
      'the others stay',
    );
    await inspect(t, page, 'dashboard-keys');

    await page.getByRole('link', { name: 'Overview' }).click();
    await page.getByRole('heading', { name: 'Net revenue per day' }).waitFor();
    await inspect(t, page, 'dashboard-overview');
    await page.getByRole('link', { name: 'Settings' }).click();
    await page.getByLabel('E-mail').fill('ada@example.test');
    const you = page.locator('form', { has: page.getByLabel('E-mail') });
    await you.getByRole('button', { name: 'Save' }).click();
    await you.getByText('Saved.').waitFor();
    const receipts = page.locator('form', { has: page.getByLabel('Legal name') });
    await receipts.getByLabel('Legal name').fill('Coffee Ltd');
    await receipts.getByLabel('Address', { exact: true }).fill('1 High Street\nLondon');
    await receipts.getByLabel('Tax id', { exact: true }).fill('GB 1');
    await receipts.getByLabel(/Keep what buyers type/).check();
    await receipts.getByRole('button', { name: 'Save' }).click();
    await receipts.getByText('Saved.').waitFor();
    t.match(await sql`select * from merchants where legal_name is not null`, [
      { legalName: 'Coffee Ltd', legalAddress: '1 High Street\nLondon', keepBuyerDetails: true },
    ]);
    await inspect(t, page, 'dashboard-settings');
    t.same([...faults, ...shop.faults], []);
  },
);
