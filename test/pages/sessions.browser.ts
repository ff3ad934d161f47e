// The hour's token: where the pages keep it, and how they go on when it is no longer accepted.
import { randomUUID } from 'node:crypto';
import { SignJWT } from 'jose';
import type { Page } from 'playwright-core';
import t from 'tap';
import { closeBrowser, type Stage, startStage } from '../fixtures/browser.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';
import { look, scene, subscribed } from '../fixtures/subscribe-scene.ts';

t.teardown(closeBrowser);

const keptKeys = (page: Page) =>
  page.evaluate<[string[], string[]]>('[Object.keys(sessionStorage), Object.keys(localStorage)]');

/** Makes every token issued so far invalid, as it is after its hour. */
async function expireTokens({ served }: Stage): Promise<void> {
  served.env.JWT_SECRET = randomUUID();
  await served.stop('SIGTERM');
  await served.restart();
}

/** Makes the tab's token one of a sign-in six minutes ago. */
async function ageToken({ served, origin }: Stage, page: Page): Promise<void> {
  const place = 'billing-token-merchant';
  const kept = await page.evaluate<string>(`sessionStorage.getItem('${place}')`);
  const { token, ...others } = JSON.parse(kept) as { token: string };
  const claims = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()) as {
    iat: number;
    page: string;
  };
  if (claims.page !== origin) throw new Error(`the token names ${claims.page}`);
  const older = await new SignJWT({ ...claims, iat: claims.iat - 360 })
    .setProtectedHeader({ alg: 'HS256' })
    .sign(Buffer.from(served.env.JWT_SECRET ?? ''));
  await page.evaluate(
    `sessionStorage.setItem('${place}', ${JSON.stringify(
      JSON.stringify({ ...others, token: older }),
    )})`,
  );
  await page.reload();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
}

const again = (page: Page) => page.getByRole('button', { name: 'Sign in again' });

void t.test('a reload and the step to /account need no new signature', async (t) => {
  const stage = await startStage(t);
  const one = await scene(stage);
  const { page, wallet } = one;
  await one.press();
  await one.sees('Paid until');
  t.same(wallet.asked, ['connect', 'signIn', 'signTransaction']);
  t.same(await keptKeys(page), [['billing-token-subscriber'], []]);
  await page.reload();
  await one.press();
  await one.sees('You are subscribed already');
  await page.goto('/account');
  await page.getByRole('heading', { name: 'Coffee club' }).waitFor();
  t.same(wallet.asked, ['connect', 'signIn', 'signTransaction', 'connect']);

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: /^Sign in with/ }).waitFor();
  t.same(await keptKeys(page), [[], []], 'signing out clears it');
  await page.reload();
  await page.getByRole('button', { name: /^Sign in with/ }).click();
  await page.getByRole('heading', { name: 'Coffee club' }).waitFor();

  await wallet.switchAccount(page, stage.chain.wallet().keypair);
  await one.sees('Your wallet switched accounts');
  t.same(await keptKeys(page), [[], []], 'another account clears it');
  await page.getByRole('button', { name: /^Sign in with/ }).click();
  await one.sees('No subscriptions yet');
  await wallet.switchAccount(page, one.keypair, { silently: true });
  await page.reload();
  await page.getByRole('button', { name: /^Sign in with/ }).waitFor();
  t.same(await keptKeys(page), [[], []], 'and so does one that was switched between two pages');
  t.same(one.faults, []);
});

void t.test(
  'after its token expired, a page signs in again and continues the action',
  async (t) => {
    const stage = await startStage(t);
    const one = await scene(stage, { rejects: 'sign' });
    const { page, wallet } = one;
    await one.press();
    await one.sees('You declined');
    await expireTokens(stage);
    wallet.switches.rejects = undefined;
    await page.getByRole('button', { name: 'Try again' }).click();
    await again(page).waitFor();
    await look(t, one, 'sign-in-again');
    wallet.switches.rejects = 'signIn';
    await again(page).click();
    await one.sees('You declined in your wallet');
    wallet.switches.rejects = undefined;
    await again(page).click();
    await one.sees(subscribed);
    t.equal(await one.registrations(), 1);

    await page.goto('/account');
    const cancel = page.getByRole('button', { name: /^Cancel subscription/ });
    await cancel.waitFor();
    await expireTokens(stage);
    await cancel.click();
    await again(page).click();
    await one.sees('Cancelled. Nothing more is collected');

    await expireTokens(stage);
    await page.reload();
    await again(page).click();
    await page.getByRole('button', { name: /^Resume/ }).waitFor();
    await expireTokens(stage);
    await page.getByRole('button', { name: /^Resume/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: /^Sign in with/ }).waitFor();
    t.same(await keptKeys(page), [[], []]);
  },
);

void t.test('the dashboard continues after its token expired and a new sign-in', async (t) => {
  const stage = await startStage(t, { keeper: false });
  const wallet = createTestWallet(stage.chain.rpcUrl, stage.merchant.keypairOnChain);
  const opened = await stage.open({ refusals: true, prepare: (one) => wallet.install(one) });
  const { page } = opened;
  await page.goto('/dashboard');
  await page.getByRole('button', { name: /^Sign in with/ }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  t.same(await keptKeys(page), [['billing-token-merchant'], []]);
  await page.getByRole('link', { name: 'Plans', exact: true }).click();
  await page.getByRole('button', { name: 'New plan' }).click();
  await page.getByLabel('Name').fill('Tea club');
  await page.getByLabel('Amount in USDC').fill('9.50');
  await expireTokens(stage);
  await page.getByRole('button', { name: 'Create and publish' }).click();
  await again(page).waitFor();
  await look(t, opened, 'dashboard-sign-in-again');
  await again(page).click();
  await page.getByText('Tea club is published.').waitFor();

  await expireTokens(stage);
  await page.getByRole('link', { name: 'Subscriptions', exact: true }).click();
  await again(page).click();
  await page.getByText('No subscriptions yet').waitFor();
  await page.waitForURL(/#\/subscriptions\?app=/);
});

void t.test('the dashboard requires a new sign-in before it creates a secret', async (t) => {
  const stage = await startStage(t, { keeper: false });
  const wallet = createTestWallet(stage.chain.rpcUrl, stage.merchant.keypairOnChain);
  const opened = await stage.open({ refusals: true, prepare: (one) => wallet.install(one) });
  const { page } = opened;
  await page.goto('/dashboard');
  await page.getByRole('button', { name: /^Sign in with/ }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await ageToken(stage, page);
  await page.getByRole('link', { name: 'Webhook' }).click();
  await page.getByLabel('URL').fill('https://shop.test/hook');
  const add = page.getByRole('button', { name: 'Add endpoint' });
  await add.click();
  await page.getByText('a sign-in of the last five minutes').first().waitFor();
  await look(t, opened, 'dashboard-sign-in-too-old');
  await page.getByRole('button', { name: 'Not now' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await add.click();
  await again(page).click();
  await page
    .getByRole('dialog')
    .getByText(/^whsec_/)
    .waitFor();
  t.same(wallet.asked, ['connect', 'signIn', 'signIn']);
});
