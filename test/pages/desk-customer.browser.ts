// The dashboard's page of a customer, its lists by day, a second app, and what is not registered.
import type { Locator, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { decodePlan } from '../../src/chain/program/layouts.ts';
import type { components } from '../../src/client/openapi.ts';
import { closeBrowser, inspect, type Stage, startStage } from '../fixtures/browser.ts';
import { randomAddress } from '../fixtures/http.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';
import {
  grantCredit,
  insertEvent,
  insertInvoice,
  insertPayment,
  insertPlan,
  insertSubscription,
} from '../fixtures/rows.ts';
import { subscribeTransaction } from '../fixtures/wallet-transactions.ts';

type Schemas = components['schemas'];

t.teardown(closeBrowser);

const usdc = (units: bigint | string) => `${(Number(units) / 1e6).toFixed(2)} USDC`;
const sum = (units: readonly string[]) => units.reduce((all, one) => all + BigInt(one), 0n);

/** A window of the merchant, signed in at this address. */
async function desk(stage: Stage, address = '/dashboard') {
  const selling = createTestWallet(stage.chain.rpcUrl, stage.merchant.keypairOnChain);
  const viewer = await stage.open({ prepare: (one) => selling.install(one) });
  await viewer.page.goto(address);
  await viewer.page.getByRole('button', { name: /Sign in with/ }).click();
  return viewer;
}

const callOf =
  ({ served, merchant }: Stage) =>
  <T>(path: string, method = 'GET', body?: unknown) =>
    served.call<T>(method, `/merchant/apps/${path}`, { token: merchant.token, body });

/** The value beside a name in a list of facts. */
const fact = (page: Page, name: string) =>
  page
    .locator('dl div')
    .filter({ has: page.getByText(name, { exact: true }) })
    .locator('dd');

/** On the page of a customer with an open invoice: grants credit, takes it back, and forgives. */
async function creditAndInvoices(t: Test, page: Page, rows: (name: string) => Locator) {
  const dialog = page.getByRole('dialog');
  const change = async (button: string, amount: string, reason: string) => {
    await page.getByRole('button', { name: button }).click();
    await dialog.getByLabel('Amount in USDC').fill(amount);
    await dialog.getByLabel('Reason').fill(reason);
  };
  await change('Grant credit', '1.50', 'An outage');
  await inspect(t, page, 'desk-grant-credit');
  await dialog.getByRole('button', { name: 'Grant', exact: true }).click();
  await page.getByText('4.00 USDC left').waitFor();
  await change('Take credit back', '3', 'A mistake');
  await dialog.getByRole('button', { name: 'Take back' }).click();
  await page.getByText('1.00 USDC left').waitFor();
  await rows('Credit').nth(2).waitFor();
  t.match(await rows('Credit').first().textContent(), /Taken back.*A mistake.*-3\.00 USDC/);

  const [open] = [rows('Invoices').first()];
  t.match(await open.textContent(), /Open.*Plan.*10\.00 USDC/);
  await inspect(t, page, 'desk-customer-credit');
  await open.getByRole('button', { name: 'Forgive' }).click();
  await inspect(t, page, 'desk-forgive-invoice');
  await dialog.getByRole('button', { name: 'Forgive' }).click();
  await rows('Invoices').getByText('Forgiven').waitFor();
}

void t.test(
  'one page of the dashboard shows a customer’s data, and its URL keeps the chosen days',
  async (t) => {
    const stage = await startStage(t, { keeper: false });
    const { merchant, served } = stage;
    const { sql } = served;
    const { appId } = merchant;
    const api = callOf(stage);
    const [coffee, tea] = [
      await insertPlan(sql, merchant, { name: 'Coffee club' }),
      await insertPlan(sql, merchant, { name: 'Tea club' }),
    ];
    // An id may have the characters that divide a URL.
    const externalId = 'team/alice?1';
    const wallets = [randomAddress(), randomAddress()] as const;
    const at = (day: string) => new Date(`${day}T12:00:00Z`);
    const [first, second] = [
      await insertSubscription(
        sql,
        { appId, planId: coffee },
        {
          subscriberWallet: wallets[0],
          externalId,
          ownIdsFrom: 'merchant',
          metadata: { team: 'blue' },
          createdAt: at('2026-02-28'),
        },
      ),
      await insertSubscription(
        sql,
        { appId, planId: tea },
        {
          subscriberWallet: wallets[1],
          externalId,
          ownIdsFrom: 'merchant',
          metadata: { seats: '4' },
          status: 'cancelled',
          cancelledAt: at('2026-03-02'),
          createdAt: at('2026-03-01'),
        },
      ),
    ];
    await grantCredit(sql, first, 2_500_000n);
    const unnamed = await insertSubscription(
      sql,
      { appId, planId: tea },
      { createdAt: at('2026-03-02') },
    );
    const paid = await insertPayment(sql, first, '2026-03-01T00:30:00Z', {
      amountRefunded: 1_000_000n,
    });
    await insertPayment(sql, second, '2026-03-01T23:30:00Z');
    await insertPayment(sql, first, '2026-03-02T00:00:00Z', {
      failureReason: 'insufficient_funds',
    });
    await insertPayment(sql, unnamed, '2026-02-28T23:30:00Z');
    await sql`
    insert into refunds (app_id, payment_id, subscription_id, amount, reference, status,
      tx_signature, occurred_at)
    values (${appId}, ${paid}, ${first}, 1000000, ${randomAddress()}, 'succeeded',
      ${randomAddress() + randomAddress()}, now())`;
    await insertEvent(sql, first);

    await insertInvoice(sql, first, { from: at('2026-04-01') });
    const { page, faults } = await desk(stage);
    const heading = page.getByRole('heading', { name: externalId, exact: true });
    const rows = (name: string) =>
      page.getByRole('region', { name, exact: true }).locator('tbody tr');
    /** A filter leaves this many of more rows. */
    const shrinks = async (name: string, count: number) => {
      await rows(name).nth(count).waitFor({ state: 'detached' });
      await rows(name)
        .nth(count - 1)
        .waitFor();
      t.equal(await rows(name).count(), count, name);
    };

    // The search, a subscription and a payment lead to the customer.
    const search = page.getByRole('searchbox', { name: 'Search' });
    await search.fill('team');
    await search.press('Enter');
    const toCustomer = page.locator('p', { hasText: 'All of one customer' }).getByRole('link');
    await toCustomer.waitFor();
    await inspect(t, page, 'desk-found-customer');
    await toCustomer.click();
    await heading.waitFor();
    const customer = `#/customers/${encodeURIComponent(externalId)}`;
    await page.waitForURL((url) => url.hash === `${customer}?app=${appId}`);
    for (const view of [`subscriptions/${first}`, `payments/${paid}`]) {
      await page.goto(`/dashboard#/${view}`);
      await fact(page, 'Customer').getByRole('link', { name: externalId }).click();
      await page.waitForURL((url) => url.hash.startsWith(customer));
      await heading.waitFor();
    }

    // Each figure equals the API's, and the sums equal those of the API's lists.
    const query = `externalId=${encodeURIComponent(externalId)}`;
    const sums = await api<Schemas['CustomerSums']>(`${appId}/customer?${query}`);
    const payments = await api<Schemas['Transaction'][]>(`${appId}/transactions?${query}`);
    t.equal(payments.length, 3);
    t.equal(
      sums.amountPaid,
      String(
        sum(payments.map(({ amountGross, status }) => (status === 'failed' ? '0' : amountGross))),
      ),
    );
    t.equal(sums.amountRefunded, String(sum(payments.map(({ amountRefunded }) => amountRefunded))));
    t.equal(await fact(page, 'Paid in all').textContent(), usdc(sums.amountPaid));
    t.equal(await fact(page, 'Refunded in all').textContent(), usdc(sums.amountRefunded));
    await page.getByText(`${usdc(sums.credit)} left`).waitFor();
    t.equal(await fact(page, 'Live subscriptions').textContent(), '1 of 2');
    for (const [list, count] of [
      ['Subscriptions', 2],
      ['Payments', 3],
      ['Refunds', 1],
    ] as const) {
      await rows(list)
        .nth(count - 1)
        .waitFor();
      t.equal(await rows(list).count(), count, list);
    }
    t.equal(await rows('Payments').getByRole('link', { name: 'Receipt' }).count(), 2);
    await page.getByRole('region', { name: 'Metadata of Coffee club' }).getByText('blue').waitFor();
    await page.getByRole('region', { name: 'Metadata of Tea club' }).getByText('seats').waitFor();
    await inspect(t, page, 'desk-customer');
    await creditAndInvoices(t, page, rows);
    const receipt = rows('Payments').getByRole('link', { name: 'Receipt' }).first();
    t.equal(
      await receipt.getAttribute('href'),
      payments.find(({ status }) => status === 'succeeded')?.receiptUrl,
    );

    // Filtered by wallet, the page shows this wallet's rows alone, with a link back to the
    // customer.
    await fact(page, 'Wallets').getByRole('link').first().click();
    await page.getByText('Here is what this wallet has alone').waitFor();
    await heading.waitFor();
    await shrinks('Subscriptions', 1);
    await inspect(t, page, 'desk-customer-wallet');
    await rows('Subscriptions').getByRole('link').click();
    await page.waitForURL(/#\/subscriptions\//);

    // Payments of a UTC day: the reader's clock is an hour ahead.
    await page.getByRole('link', { name: 'Payments', exact: true }).click();
    await rows('Payments').nth(3).waitFor();
    await page.getByLabel('From UTC').fill('2026-03-01');
    await shrinks('Payments', 3);
    await page.getByLabel('To UTC').fill('2026-03-01');
    await shrinks('Payments', 2);
    await page.getByLabel('Status').selectOption('succeeded');
    await page.getByLabel('Plan').selectOption('Tea club');
    await shrinks('Payments', 1);
    const link = page.url();
    t.match(link, /from=2026-03-01&to=2026-03-01&status=succeeded&plan=/);
    await page.reload();
    await rows('Payments').first().waitFor();
    t.equal(await rows('Payments').count(), 1, 'a reload keeps the filters');
    t.equal(await page.getByLabel('From UTC').inputValue(), '2026-03-01');
    t.equal(await page.getByLabel('Plan').inputValue(), tea);
    await inspect(t, page, 'desk-payments-days');
    await page.getByLabel('From UTC').fill('2026-03-02');
    await page.getByText('“From” (2026-03-02) is after “To” (2026-03-01)').waitFor();
    t.equal(await rows('Payments').count(), 0);
    await inspect(t, page, 'desk-payments-wrong-days');

    await page.getByRole('link', { name: 'Subscriptions', exact: true }).click();
    await rows('Subscriptions').nth(2).waitFor();
    await page.getByLabel('To UTC').fill('2026-02-28');
    await shrinks('Subscriptions', 1);
    await page.getByRole('link', { name: 'Events', exact: true }).click();
    await rows('Events').first().waitFor();
    await page.getByLabel('To UTC').fill('2020-01-01');
    await page.getByText('No events').waitFor();
    await page.getByLabel('To UTC').fill('');
    await page.getByLabel('From UTC').fill('2020-01-01');
    await rows('Events').first().waitFor();
    // The address from before shows the same rows to another reader.
    const other = await desk(stage, link);
    const seen = other.page.getByRole('region', { name: 'Payments', exact: true });
    await seen.locator('tbody tr').first().waitFor();
    t.equal(await seen.locator('tbody tr').count(), 1);
    t.same([...faults, ...other.faults], []);
  },
);

void t.test('a link to a row of a second app opens that app, and a reload keeps it', async (t) => {
  const stage = await startStage(t, { keeper: false });
  const { merchant, served } = stage;
  const { sql } = served;
  const body = { name: 'Second app' };
  const second = await served.call<{ id: string }>('POST', '/merchant/apps', {
    token: merchant.token,
    body,
  });
  const rowOf = async (appId: string, externalId: string) => {
    const planId = await insertPlan(sql, { ...merchant, appId });
    const id = await insertSubscription(sql, { appId, planId }, { externalId });
    return { id, payment: await insertPayment(sql, id, '2026-03-01') };
  };
  const mine = await rowOf(merchant.appId, 'alice');
  const theirs = await rowOf(second.id, 'bob');

  const { page, faults } = await desk(
    stage,
    `/dashboard#/payments/${theirs.payment}?app=${second.id}`,
  );
  const apps = page.getByRole('combobox', { name: 'App' });
  const isSecond = async (what: string) => {
    t.equal(await apps.inputValue(), second.id, what);
    t.ok(page.url().endsWith(`?app=${second.id}`), page.url());
  };
  await page.getByRole('heading', { name: 'Payment of bob' }).waitFor();
  await isSecond('after the sign-in');
  await page.reload();
  await page.getByRole('heading', { name: 'Payment of bob' }).waitFor();
  await isSecond('after a reload');
  await page.getByRole('link', { name: 'Subscriptions', exact: true }).click();
  await page.getByRole('region', { name: 'Subscriptions' }).getByText('bob').waitFor();
  await page.reload();
  await page.getByRole('region', { name: 'Subscriptions' }).getByText('bob').waitFor();
  await isSecond('a list after a reload');

  // A link leads from the first app to the row of the second app, and back.
  await page.goto(`/dashboard#/subscriptions/${mine.id}?app=${merchant.appId}`);
  await page.getByRole('heading', { name: 'alice' }).waitFor();
  t.equal(await apps.inputValue(), merchant.appId);
  await page.goto(`/dashboard#/subscriptions/${theirs.id}?app=${second.id}`);
  await page.getByRole('heading', { name: 'bob' }).waitFor();
  await isSecond('by a link');
  await page.goBack();
  await page.getByRole('heading', { name: 'alice' }).waitFor();
  t.equal(await apps.inputValue(), merchant.appId);
  t.same(faults, []);
});

void t.test(
  'an unregistered subscription is listed with advice until it is registered',
  async (t) => {
    const stage = await startStage(t);
    const { chain, served, merchant } = stage;
    const api = callOf(stage);
    const plan = await stage.plan();
    const { keypair } = chain.wallet();
    const buyer = createTestWallet(chain.rpcUrl, keypair);
    const { value } = await chain.rpc<{ value: { data: [string] } }>(
      'getAccountInfo',
      plan.planPda,
      {
        encoding: 'base64',
        commitment: 'confirmed',
      },
    );
    const state = {
      plan: decodePlan(Buffer.from(value.data[0], 'base64')),
      authority: null,
      hasTokenAccount: true,
      approved: false,
      previous: null,
    };
    // Another program opens the subscription: the service has offered nothing.
    let pda = '';
    await stage.land(keypair, (blockhash) => {
      const subscriber = buyer.address;
      const made = subscribeTransaction(chain.programId, { subscriber, state, blockhash });
      pda = made.subscription;
      return made.transaction;
    });
    const list = () => api<Schemas['UnregisteredSubscription'][]>(`${merchant.appId}/unregistered`);
    await stage.until('it is listed', async () => (await list()).length === 1);

    const { page, faults } = await desk(stage);
    const link = page.getByRole('link', { name: 'Subscriptions', exact: true });
    await link.locator('.count').waitFor();
    t.equal(await link.locator('.visually-hidden').textContent(), '1 not registered');
    await link.click();
    await page.getByText('One subscription on chain is not registered').waitFor();
    await inspect(t, page, 'desk-unregistered-told');
    await page.getByRole('link', { name: 'See what to do' }).click();
    const rows = page.getByRole('region', { name: 'Not registered' });
    await rows.getByTitle(buyer.address).waitFor();
    await rows.getByTitle(pda).waitFor();
    await page.getByText('switch on “Register subscriptions').waitFor();
    await inspect(t, page, 'desk-unregistered');
    const href = await rows.getByRole('link', { name: 'Coffee club' }).getAttribute('href');
    t.equal(href, `/s/${plan.id}`);

    // The first way: the wallet's owner opens the plan's page.
    const shop = await stage.open({ prepare: (one) => buyer.install(one) });
    await shop.page.goto(href ?? '');
    await shop.page.getByRole('button', { name: /Subscribe and pay with/ }).click();
    await shop.page.getByRole('button', { name: 'Register and pay 10.00 USDC' }).click();
    await shop.page.getByText('Paid until').waitFor();
    await page.getByText('All are registered').waitFor();
    t.same(await list(), []);
    t.match(await served.sql`select subscription_pda from subscriptions`, [
      { subscriptionPda: pda },
    ]);
    t.same([...faults, ...shop.faults], []);
  },
);
