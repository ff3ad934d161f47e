// Before a cancellation, the account page names the credit that is kept.
import t from 'tap';
import { closeBrowser, inspect, startStage } from '../fixtures/browser.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';
import { grantCredit } from '../fixtures/rows.ts';

t.teardown(closeBrowser);

void t.test(
  'before a cancellation that leaves credit, the page asks and says that it is kept',
  async (t) => {
    const stage = await startStage(t);
    const { chain, served } = stage;
    const plan = await stage.plan();
    const wallet = createTestWallet(chain.rpcUrl, chain.wallet().keypair);
    const { page, faults } = await stage.open({ prepare: (one) => wallet.install(one) });
    await page.goto(`/s/${plan.id}`);
    await page.getByRole('button', { name: /Subscribe and pay with/ }).click();
    await page.getByText('Paid until').waitFor();
    const [{ id }] = await served.sql<[{ id: string }]>`select id from subscriptions`;
    await grantCredit(served.sql, id, 98_140_000n);
    await page.goto('/account');
    const cancel = page.getByRole('button', { name: /Cancel subscription/ });
    await cancel.first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('98.14 USDC').waitFor();
    await inspect(t, page, 'account-credit-kept');
    await dialog.getByRole('button', { name: 'Keep the subscription' }).click();
    await page.getByRole('button', { name: 'Payments' }).click();
    const table = (name: string) => page.getByRole('region', { name, exact: true });
    await table('Invoices').getByText('10.00 USDC').first().waitFor();
    await table('Credit').getByText('Granted by the merchant').waitFor();
    await inspect(t, page, 'account-invoices');
    await cancel.first().click();
    wallet.asked.length = 0;
    await dialog.getByRole('button', { name: 'Keep the subscription' }).click();
    await dialog.waitFor({ state: 'detached' });
    t.same(wallet.asked, [], 'nothing is signed');
    await page.getByRole('button', { name: 'Withdraw the approval' }).click();
    await dialog.getByRole('checkbox').check();
    await dialog.getByText('Your credit stays').waitFor();
    await inspect(t, page, 'account-withdraw-credit');
    await dialog.getByRole('button', { name: /Keep/ }).click();
    await dialog.waitFor({ state: 'detached' });
    await cancel.first().click();
    await dialog.getByRole('button', { name: 'Cancel subscription' }).click();
    await page.getByText(/98\.14 USDC of credit is left/).waitFor();
    t.equal(await page.getByText('you keep what you have paid for').count(), 0);
    t.same(faults, []);
  },
);
