// Several accounts of a wallet: the page asks which, and follows a change of account.
import type { Page } from 'playwright-core';
import t from 'tap';
import { closeBrowser, inspect, type Stage, startStage } from '../fixtures/browser.ts';
import { createTestWallet, type WalletSwitches } from '../fixtures/page-wallet.ts';
import { subscribed } from '../fixtures/subscribe-scene.ts';

t.teardown(closeBrowser);

async function checkout({ served, merchant }: Stage, planId: string): Promise<string> {
  const { token, appId } = merchant;
  const made = await served.call('POST', `/merchant/apps/${appId}/checkout-sessions`, {
    token,
    body: { planId, externalId: 'customer-1' },
  });
  return new URL((made as { url: string }).url).pathname;
}

/** Opens a page with a wallet whose accounts have these gifts. */
async function visit(
  stage: Stage,
  path: string,
  gifts: { lamports?: bigint },
  switches: Partial<WalletSwitches> = {},
) {
  const keys = [1, 2].map(() => stage.chain.wallet({ usdc: 5_000_000n, ...gifts }).keypair);
  const [first, second] = keys as [(typeof keys)[0], (typeof keys)[0]];
  const wallet = createTestWallet(stage.chain.rpcUrl, first, switches);
  const viewer = await stage.open({ refusals: true, prepare: (page) => wallet.install(page) });
  await viewer.page.goto(path);
  return { ...viewer, wallet, first, second, secondAddress: second.publicKey.toBase58() };
}

const press = (page: Page) =>
  page
    .getByRole('group')
    .getByRole('button', { name: /Test wallet/ })
    .click();
const sees = (page: Page, text: string) => page.getByText(text).first().waitFor();

async function owners({ served }: Stage, planId: string): Promise<string[]> {
  const rows = await served.sql<{ wallet: string }[]>`
    select subscriber_wallet as wallet from subscriptions where plan_id = ${planId} order by id`;
  return rows.map(({ wallet }) => wallet);
}

void t.test(
  'a wallet with several accounts subscribes with the account that is chosen',
  async (t) => {
    const stage = await startStage(t, { env: { SPONSOR_LAMPORTS_PER_DAY: '1000000000' } });
    const amount = { amount: '5000000' };
    const sponsors = (sponsorship: 'on' | 'off') =>
      stage.served.call('PATCH', `/merchant/apps/${stage.merchant.appId}`, {
        token: stage.merchant.token,
        body: { sponsorship, onePerCustomer: true },
      });

    await t.test(
      'a sponsored checkout with externalId continues with the account that the wallet switched to',
      async (t) => {
        const { id } = await stage.plan(amount);
        const path = await checkout(stage, id);
        const one = await visit(stage, path, { lamports: 0n }, { holds: 'sign' });
        await press(one.page);
        await sees(one.page, 'Confirm the subscription in');
        await one.wallet.switchAccount(one.page, one.second);
        await sees(one.page, 'You switched accounts');
        await inspect(t, one.page, 'switched-unsigned');
        one.wallet.switches.holds = undefined;
        one.wallet.release();
        await press(one.page);
        await sees(one.page, subscribed);
        t.same(await owners(stage, id), [one.secondAddress]);
      },
    );

    await stage.served.sql`update subscriptions set external_id = null`;
    await sponsors('off');
    await t.test(
      'an unsponsored checkout continues with the switched account, also after a reload',
      async (t) => {
        const { id } = await stage.plan(amount);
        const path = await checkout(stage, id);
        const one = await visit(stage, path, {}, { holds: 'sign' });
        await press(one.page);
        await sees(one.page, 'Confirm the subscription in');
        await one.wallet.switchAccount(one.page, one.second);
        await sees(one.page, 'You switched accounts');
        await one.page.reload();
        one.wallet.switches.holds = undefined;
        one.wallet.release();
        await press(one.page);
        await sees(one.page, subscribed);
        t.same(await owners(stage, id), [one.secondAddress]);
      },
    );

    await t.test('a wallet that shares several accounts must choose one of them', async (t) => {
      const { id } = await stage.plan(amount);
      const one = await visit(stage, `/s/${id}`, {});
      one.wallet.switches.others = [one.second];
      const { page } = one;
      const dialog = page.getByRole('dialog', { name: 'Choose an account' });
      const choose = async () => {
        await dialog.getByTitle(one.secondAddress).click();
      };
      await press(page);
      await dialog.waitFor();
      t.equal(await dialog.locator('code').count(), 2);
      await inspect(t, page, 'choose-account');
      await dialog.getByRole('button', { name: 'Stop waiting' }).click();
      await sees(page, 'Your wallet is not connected');
      t.same(await owners(stage, id), []);
      await press(page);
      await choose();
      await sees(page, subscribed);
      t.same(await owners(stage, id), [one.secondAddress]);

      await page.goto('/account');
      await page.getByRole('heading', { name: 'Coffee club' }).waitFor();
      await page.getByRole('button', { name: 'Sign out' }).click();
      await press(page);
      await choose();
      await page.getByRole('heading', { name: 'Coffee club' }).waitFor();
      t.same(one.faults, []);
    });
  },
);
