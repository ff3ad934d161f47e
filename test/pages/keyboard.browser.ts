// Everything works by keyboard: no mouse in this file.
import type { Page } from 'playwright-core';
import t from 'tap';
import { closeBrowser, startStage } from '../fixtures/browser.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';

t.teardown(closeBrowser);

/** The focused element: its role or tag, and its name. */
const focused = `(() => {
  const one = document.activeElement;
  if (one === null) return '';
  const label = one.labels?.[0]?.textContent ?? '';
  return one.tagName.toLowerCase() + ' ' + (one.getAttribute('aria-label') ?? (label || one.textContent));
})()`;

/** Presses Tab until the focused element matches. */
async function tabTo(page: Page, wanted: RegExp): Promise<void> {
  const passed: string[] = [];
  for (let presses = 0; presses < 40; presses += 1) {
    await page.keyboard.press('Tab');
    const now = await page.evaluate<string>(focused);
    if (wanted.test(now)) return;
    passed.push(now.slice(0, 60));
  }
  throw new Error(`no Tab led to ${String(wanted)}, but to ${passed.join(' | ')}`);
}

async function enter(page: Page, wanted: RegExp): Promise<void> {
  await tabTo(page, wanted);
  await page.keyboard.press('Enter');
}

void t.test('a subscriber subscribes, cancels and resumes without a mouse', async (t) => {
  const stage = await startStage(t);
  const { sql } = stage.served;
  const { id } = await stage.plan();
  const wallet = createTestWallet(stage.chain.rpcUrl, stage.chain.wallet().keypair);
  const { page, faults } = await stage.open({ prepare: (one) => wallet.install(one) });
  await page.goto(`/s/${id}`);
  await page.getByRole('button', { name: /^Subscribe and pay with/ }).waitFor();
  await enter(page, /^button Subscribe and pay with/);
  await page.getByText('Paid until').waitFor();
  await page.goto('/account');
  const cancel = page.getByRole('button', { name: /^Cancel subscription/ });
  await cancel.waitFor();
  await enter(page, /^button Cancel subscription/);
  await page.getByText('Cancelled. Nothing more is collected').waitFor();
  const cancelled = async () =>
    (await sql`select 1 from subscriptions where cancel_requested_at is not null`).length;
  t.equal(await cancelled(), 1);
  await enter(page, /^button Resume/);
  await page.getByText('Your cancellation is undone').waitFor();
  t.equal(await cancelled(), 0);
  t.same(faults, []);
});

void t.test('a merchant uses the dashboard without a mouse', async (t) => {
  const stage = await startStage(t, { keeper: false });
  const { sql } = stage.served;
  const wallet = createTestWallet(stage.chain.rpcUrl, stage.merchant.keypairOnChain);
  const { page, faults } = await stage.open({ prepare: (one) => wallet.install(one) });
  await page.goto('/dashboard');
  await page.getByRole('button', { name: /^Sign in with/ }).waitFor();
  await enter(page, /^button Sign in with/);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await enter(page, /^button Skip to the content/);
  t.match(await page.evaluate<string>(focused), /^main /, 'past the links at one press');
  await page.reload();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();

  await enter(page, /^a Plans/);
  await page.getByText('No plans yet').waitFor();
  t.match(await page.evaluate<string>(focused), /^main /, 'the focus goes to the new view');
  await enter(page, /^button New plan/);
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  t.match(await page.evaluate<string>(focused), /^button New plan/, 'back to where it came from');
  await page.keyboard.press('Enter');
  await page.keyboard.type('Tea club');
  await tabTo(page, /^input Amount/);
  await page.keyboard.type('9.5');
  await page.keyboard.press('Enter');
  await page.getByText('Tea club is published.').waitFor();
  t.match(await sql`select name, amount, status from plans`, [
    { name: 'Tea club', amount: 9_500_000n, status: 'active' },
  ]);

  await page.evaluate("location.hash = '#/keys'");
  await page.getByRole('heading', { name: 'API keys' }).waitFor();
  await enter(page, /^button New key/);
  await enter(page, /^button I have stored it/);
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  const live = async () => (await sql`select 1 from api_keys where revoked_at is null`).length;
  const before = await live();
  await enter(page, /^button Revoke/);
  await enter(page, /^button Revoke$/);
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  t.equal(await live(), before - 1);
  t.same(faults, []);
});
