// A wallet app on an Android phone, through the Mobile Wallet Adapter. The app is a WebSocket
// server of the test (fixtures/phone-wallet.ts).
import t, { type Test } from 'tap';
import { closeBrowser, inspect, type Stage, startStage } from '../fixtures/browser.ts';
import { createTestWallet, type WalletSwitches } from '../fixtures/page-wallet.ts';
import { ANDROID_CHROME, installPhoneWallet, type PhoneWallet } from '../fixtures/phone-wallet.ts';
import { subscribed } from '../fixtures/subscribe-scene.ts';

t.teardown(closeBrowser);

type Loopback = 'granted' | 'denied' | 'prompt';

/** Opens a plan's page on a phone with a wallet app. */
async function phoneScene(
  t: Test,
  stage: Stage,
  switches: Partial<WalletSwitches> = {},
  loopback: Loopback = 'granted',
) {
  const { id: planId } = await stage.plan();
  const { keypair } = stage.chain.wallet();
  const wallet = createTestWallet(stage.chain.rpcUrl, keypair, switches);
  let phone!: PhoneWallet;
  const viewer = await stage.open({
    width: 390,
    phone: true,
    userAgent: ANDROID_CHROME,
    refusals: true,
    prepare: async (page) => {
      phone = await installPhoneWallet(t, page, wallet);
      const session = await page.context().newCDPSession(page);
      const { targetInfo } = await session.send('Target.getTargetInfo');
      await session.send('Browser.setPermission', {
        permission: { name: 'loopback-network' },
        setting: loopback,
        origin: stage.origin,
        ...(targetInfo.browserContextId !== undefined && {
          browserContextId: targetInfo.browserContextId,
        }),
      });
    },
  });
  const { page } = viewer;
  await page.goto(`/s/${planId}`);
  return {
    ...viewer,
    phone,
    wallet,
    planId,
    press: (name: string | RegExp) => page.getByRole('button', { name }).click(),
    sees: (text: string) => page.getByText(text).first().waitFor(),
  };
}

const OPEN = 'Open the wallet app';

void t.test('the subscribe page works with a wallet app on a phone', async (t) => {
  const stage = await startStage(t);

  await t.test('a phone’s wallet app subscribes, pays and cancels', async (t) => {
    const one = await phoneScene(t, stage);
    const { page, phone } = one;
    const button = page.getByRole('button', { name: 'Subscribe and pay with your wallet app' });
    await button.waitFor();
    await page.getByRole('link', { name: 'Open in Phantom' }).waitFor();
    await inspect(t, page, 'phone-offer');
    await button.click();
    await one.sees('Continue in your wallet app');
    await inspect(t, page, 'phone-tap');
    await one.press(OPEN);
    await page.getByText('Confirm the subscription').waitFor();
    await one.press(OPEN);
    await one.sees(subscribed);
    await one.sees('Paid until');
    t.same(
      phone.asked.filter((method) => /^sign|^authorize/.test(method)),
      ['authorize', 'authorize', 'sign_messages', 'authorize', 'sign_transactions'],
    );
    t.equal(phone.intents.length, 3);

    const kept = await page.evaluate<string[]>('Object.keys(localStorage)');
    t.same(kept, [], 'nothing outlives the tab');
    t.same(await page.evaluate('Object.keys(sessionStorage).sort()'), [
      'billing-token-subscriber',
      'billing-wallet-app',
    ]);
    await page.goto('/account');
    await one.press(/^Cancel subscription/);
    await one.sees('Cancelled. Nothing more is collected');
    t.equal(phone.intents.length, 4, 'the account page needs no new sign-in');
    t.same(one.faults, []);
  });

  await t.test('a phone’s wallet app that first declines can be tried again', async (t) => {
    const one = await phoneScene(t, stage, { rejects: 'connect' });
    await one.press(/^Subscribe and pay with/);
    await one.sees('You declined in your wallet.');
    one.wallet.switches.rejects = undefined;
    await one.press(/^Subscribe and pay with/);
    const dialog = one.page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Stop waiting' }).click();
    await one.sees('You declined in your wallet.');
  });

  await t.test(
    'without a wallet app on the phone, the page offers links to install some',
    async (t) => {
      const one = await phoneScene(t, stage);
      one.phone.isMissing = true;
      await one.press(/^Subscribe and pay with/);
      await one.sees('No wallet app answered.');
      await one.page.getByRole('link', { name: 'Open in Phantom' }).waitFor();
      await inspect(t, one.page, 'phone-no-app');
    },
  );

  await t.test(
    'the page explains when the browser does not let it connect to the wallet app',
    async (t) => {
      const refused = await phoneScene(t, stage, {}, 'denied');
      await refused.press(/^Subscribe and pay with/);
      await refused.sees('Your browser does not let this page connect');
      t.same(refused.phone.intents, []);
      const asked = await phoneScene(t, stage, {}, 'prompt');
      await asked.press(/^Subscribe and pay with/);
      await asked.sees('Your browser now asks');
      await inspect(t, asked.page, 'phone-permission');
      await asked.press('Continue');
      await asked.sees('Your browser does not let this page connect');
      t.same(asked.phone.intents, []);
    },
  );
});
