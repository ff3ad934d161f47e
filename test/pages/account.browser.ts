// The account page in a browser: cancel, resume, repair and close, judged by the chain and the
// database.
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { revokeApproval } from '../../src/chain/transactions/system-instructions.ts';
import { walletTransaction } from '../../src/chain/transactions/wallet.ts';
import { closeBrowser, inspect, type Stage, startStage } from '../fixtures/browser.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';
import { insertPayment } from '../fixtures/rows.ts';
import { approveForeign } from '../fixtures/subscribe-scene.ts';

t.teardown(closeBrowser);

void t.test(
  'a subscriber cancels, resumes, repairs an approval and closes on the account page',
  async (t) => {
    const stage = await startStage(t);
    const { chain, served } = stage;
    const plan = await stage.plan();
    const subscriber = chain.wallet();
    const wallet = createTestWallet(chain.rpcUrl, subscriber.keypair);
    const { page, faults } = await stage.open({ prepare: (one) => wallet.install(one) });
    const row = async () => {
      const [found] = await served.sql<
        { status: string; cancelRequestedAt: Date | null; paidThrough: Date | null }[]
      >`
        select status, cancel_requested_at, paid_through from subscriptions
        join subscription_work on subscription_id = id`;
      if (found === undefined) throw new Error('there is no subscription');
      return found;
    };

    await page.goto('/account');
    await page.getByRole('button', { name: /Sign in with/ }).waitFor();
    await inspect(t, page, 'account-sign-in');
    await page.goto(`/s/${plan.id}`);
    await page.getByRole('button', { name: /Subscribe and pay with/ }).click();
    await page.getByText('Paid until').waitFor();

    await page.goto('/account');
    await page.getByRole('heading', { name: 'Coffee club' }).waitFor();
    await page.getByRole('button', { name: 'Payments' }).click();
    await page.getByText('Succeeded').waitFor();
    await inspect(t, page, 'account');
    const link = await page.getByRole('link', { name: 'Open receipt' }).getAttribute('href');
    await checkReceipt(t, stage, page, link ?? '');

    // An earlier payment, of which a credit paid a part, and a part of which was refunded.
    const [{ id } = { id: '' }] = await served.sql<{ id: string }[]>`select id from subscriptions`;
    const amounts = { amountGross: '2989560', platformFee: '29895', amountNet: '2959665' };
    const earlier = { ...amounts, creditSpent: '10440', amountRefunded: '1000001' };
    await insertPayment(served.sql, id, '2026-01-01T00:00:00Z', earlier);
    await page.goto('/account');
    await page.getByRole('button', { name: 'Payments' }).click();
    const payments = page.getByRole('region', { name: 'Payments' });
    await payments.getByText('2.98956 USDC', { exact: true }).waitFor();
    await page.getByText('and 0.01044 USDC of credit').waitFor();
    await page.getByText('1.000001 USDC refunded').waitFor();
    await inspect(t, page, 'account-payments');

    await page.getByRole('button', { name: /Cancel subscription/ }).click();
    await page.getByText('Cancelled. Nothing more is collected').waitFor();
    t.ok((await row()).cancelRequestedAt, 'the service has seen the cancellation');
    await inspect(t, page, 'account-cancelled');
    await page.getByRole('button', { name: /Resume/ }).click();
    await page.getByText('Your cancellation is undone').waitFor();
    t.equal((await row()).cancelRequestedAt, null);

    // The wallet takes its approval back with the token program alone.
    await stage.land(subscriber.keypair, (blockhash) =>
      walletTransaction(
        subscriber.address,
        [revokeApproval({ owner: subscriber.address, mint: chain.mint })],
        blockhash,
      ),
    );
    await page.reload();
    await page.getByRole('button', { name: /Approve payments again/ }).waitFor();
    await inspect(t, page, 'account-approval-missing');
    await page.getByRole('button', { name: /Approve payments again/ }).click();
    await page.getByText('Payments are approved again').waitFor();

    await page.getByRole('button', { name: /Cancel subscription/ }).click();
    await page.getByText('Cancelled. Nothing more is collected').waitFor();
    const { paidThrough } = await row();
    chain.passSeconds(Math.ceil(((paidThrough?.getTime() ?? 0) - chain.now()) / 1000) + 60);
    await stage.until('it is cancelled', async () => (await row()).status === 'cancelled');
    await page.reload();
    await page.getByRole('term').filter({ hasText: 'Ended' }).waitFor();
    await page.getByRole('button', { name: /Close and get/ }).click();
    await page.getByText('The deposit is back in your wallet').waitFor();
    const { value } = await chain.rpc<{ value: unknown }>(
      'getAccountInfo',
      await pdaOf(served.sql),
      {
        encoding: 'base64',
        commitment: 'confirmed',
      },
    );
    t.equal(value, null, 'the account is gone from the chain');
    await inspect(t, page, 'account-closed');
    t.same(faults, []);

    // The approval went with the last subscription.
    wallet.asked.length = 0;
    await page.getByRole('button', { name: 'Withdraw the approval' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Withdraw the approval' }).click();
    await page.getByText('The approval is withdrawn.').waitFor();
    t.same(wallet.asked, [], 'there is nothing to sign');
  },
);

void t.test(
  'a subscriber changes the plan and sees the amount to pay before the wallet signs',
  async (t) => {
    const stage = await startStage(t);
    const { chain, served } = stage;
    const plan = await stage.plan();
    const other = await stage.plan({ name: 'Coffee for two', amount: '20000000' });
    await served.sql`
    update plans set app_id = (select app_id from plans where id = ${plan.id})
    where id = ${other.id}`;
    const subscriber = chain.wallet();
    const wallet = createTestWallet(chain.rpcUrl, subscriber.keypair);
    const { page, faults } = await stage.open({ prepare: (one) => wallet.install(one) });
    await page.goto(`/s/${plan.id}`);
    await page.getByRole('button', { name: /Subscribe and pay with/ }).click();
    await page.getByText('Paid until').waitFor();

    await served.sql`update subscriptions set discount_percent = 10, discount_periods = 1,
      discount_id = uuid_v7()`;
    await page.goto('/account');
    // The card has read the wallet's approval before another one replaces it.
    await page.getByRole('button', { name: /Cancel subscription/ }).waitFor();
    const delegate = chain.wallet().keypair.publicKey.toBase58();
    await approveForeign(stage, { wallet, keypair: subscriber.keypair }, delegate);
    await page.getByRole('button', { name: 'Change plan' }).click();
    await page.getByRole('button', { name: /Coffee for two/ }).click();
    await page.getByText('Another approval ends').first().waitFor();
    await page.getByTitle(delegate).first().waitFor();
    await page.getByText('Credit for what you have paid').waitFor();
    await page.getByText('Your discount ends with the plan that you leave.').waitFor();
    await page.getByRole('button', { name: 'Change when the paid period ends' }).waitFor();
    await page.getByRole('heading', { name: 'Now', exact: true }).waitFor();
    await page.getByRole('heading', { name: 'At the end of the paid period' }).waitFor();
    await page.getByText('Nothing', { exact: true }).waitFor();
    const amounts = await page.getByRole('article').innerText();
    t.match(amounts, /\d+\.\d\d USDC/);
    t.notMatch(amounts, /\d\.\d{3,}/, 'to the cent');
    await inspect(t, page, 'account-change');
    const own = async (lamports: number) => {
      await chain.rpc('surfnet_setAccount', wallet.address, { lamports });
      // The service reads the last sealed block.
      chain.mineBlocks(2);
    };
    await own(900_000);
    wallet.asked.length = 0;
    await page.getByRole('button', { name: 'Change now' }).click();
    await page.getByRole('heading', { name: 'Your wallet needs more SOL' }).waitFor();
    t.same(wallet.asked, [], 'nothing that cannot be paid is signed');
    t.notMatch(
      await page.getByRole('row', { name: /USDC/ }).innerText(),
      /\d\.\d{3,}/,
      'to the cent',
    );
    await inspect(t, page, 'account-change-short');
    await own(1_000_000_000);
    await page.getByRole('button', { name: 'Change now' }).click();
    await page.getByText('Your plan is changed.').waitFor();
    await page.getByRole('heading', { name: 'Coffee for two' }).waitFor();
    await page.getByText('Replaced by another plan').waitFor();
    await page.getByText('Replaced', { exact: true }).waitFor();
    t.equal(await page.locator('.badge').filter({ hasText: 'Ends' }).count(), 0);
    t.notMatch(await page.locator('main').innerText(), /\d\.\d{3,}/, 'to the cent');
    await inspect(t, page, 'account-changed');
    const rows = await served.sql<{ replaces: string | null; replacedBy: string | null }[]>`
    select replaces, replaced_by from subscriptions order by id`;
    t.equal(rows.length, 2);
    t.ok(rows[0]?.replacedBy !== null && rows[1]?.replaces !== null);
    t.same(faults, []);
  },
);

/** The receipt behind a link of the account page, and what the buyer types on it. */
async function checkReceipt(
  t: Test,
  { served, merchant }: Stage,
  page: Page,
  link: string,
): Promise<void> {
  const [event] = await served.sql<{ body: string }[]>`
    select body from events where type = 'payment_success'`;
  const { data } = JSON.parse(event?.body ?? '') as { data: Record<string, string> };
  t.equal(link, `${data.receiptUrl ?? ''}?lang=en`, 'the event has the same URL');
  const profile = (body: object) =>
    served.call('PATCH', '/merchant/profile', { token: merchant.token, body });
  await profile({ legalName: 'Coffee Ltd', legalAddress: '1 High Street\nLondon', taxId: 'GB 1' });

  await page.goto(link);
  await page.getByText('Coffee Ltd').waitFor();
  await page.getByText(data.txSignature ?? '').waitFor();
  await page.getByRole('button', { name: 'Print' }).waitFor();
  const times = await page.locator('time').allInnerTexts();
  // Times have the form of the account page, with the reader's time zone: a British browser in
  // Berlin.
  t.match(times[0], /^\d{1,2} [A-Z][a-z]+ \d{4}, \d\d:\d\d UTC \(.*(GMT\+[12]|CES?T)\)$/);
  await inspect(t, page, 'receipt');
  await page.getByLabel('Name').fill('Alice <b>');
  await page.getByLabel('Address').fill('2 Low Street\nParis');
  await page.getByRole('button', { name: 'Show with my details' }).click();
  await page.getByText('Print or save this page now').waitFor();
  await page.getByText('Alice <b>', { exact: true }).waitFor();
  await inspect(t, page, 'receipt-unsaved');
  await page.emulateMedia({ media: 'print' });
  t.notOk(await page.locator('form').isVisible(), 'the form is not printed');
  t.ok(await page.getByText('Coffee Ltd').isVisible());
  t.notOk(await page.locator('time .no-print').first().isVisible(), 'only UTC is printed');
  await page.emulateMedia({ media: null });

  await profile({ keepBuyerDetails: true });
  await page.goto(link);
  t.equal(await page.getByLabel('Name').inputValue(), '', 'nothing was kept');
  await page.getByLabel('Name').fill('Alice');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('strong', { hasText: 'Alice' }).waitFor();
  await page.getByRole('link', { name: 'Deutsch' }).click();
  await page.getByRole('heading', { name: 'Zahlungsbeleg' }).waitFor();
  t.equal(await page.getByLabel('Name').inputValue(), 'Alice');
}

async function pdaOf(sql: Stage['served']['sql']): Promise<string> {
  const [row] = await sql<
    { subscriptionPda: string }[]
  >`select subscription_pda from subscriptions`;
  return row?.subscriptionPda ?? '';
}
