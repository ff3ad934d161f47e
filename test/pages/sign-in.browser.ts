// How wallets with different features sign in on the pages.
import t from 'tap';
import { shortAddress } from '../../src/pages/shared/text.ts';
import { closeBrowser, startStage } from '../fixtures/browser.ts';
import { randomAddress } from '../fixtures/http.ts';
import { createTestWallet, type WalletSwitches } from '../fixtures/page-wallet.ts';
import { scene, subscribed } from '../fixtures/subscribe-scene.ts';

t.teardown(closeBrowser);

void t.test('the subscribe page signs wallets in by each method', async (t) => {
  const stage = await startStage(t);
  const ways: [WalletSwitches['features'], string][] = [
    [['signOffchainMessage', 'signMessage', 'signIn'], 'signIn'],
    [['signOffchainMessage', 'signMessage'], 'signMessage'],
    [['signOffchainMessage'], 'signOffchainMessage'],
    [[], 'signTransaction'],
  ];
  for (const [features, first] of ways)
    await t.test(`a wallet signs in by ${first} on the subscribe page`, async (t) => {
      const one = await scene(stage, { features: [...features, 'signTransaction'] });
      await one.press();
      await one.sees(subscribed);
      t.same(one.wallet.asked, ['connect', first, 'signTransaction']);
      t.equal(await one.registrations(), 1);
    });

  await t.test('a device that cannot sign messages signs in with a transaction', async (t) => {
    const one = await scene(stage, {
      features: ['signIn', 'signMessage', 'signTransaction'],
      accountFeatures: ['signTransaction'],
      rejects: 'signIn',
      rejection: 'Ledger accounts cannot sign messages',
      throws: 'failure',
    });
    await one.press();
    await one.sees(subscribed);
    t.same(one.wallet.asked, ['connect', 'signIn', 'signTransaction', 'signTransaction']);
    await one.page.goto('/account');
    await one.page.getByRole('button', { name: 'Sign out' }).click();
    await one.page.getByRole('button', { name: /^Sign in with/ }).click();
    await one.page.getByRole('button', { name: /^Cancel subscription/ }).waitFor();
    t.same(one.wallet.asked.slice(4), ['connect', 'signTransaction'], 'the way is remembered');
  });

  await t.test('sign-in tries each method until one works', async (t) => {
    const one = await scene(stage, {
      features: ['signOffchainMessage', 'signMessage', 'signIn', 'signTransaction'],
      rejects: 'signIn',
      throws: 'nothing',
    });
    await one.press();
    await one.sees(subscribed);
    const ways = ['signIn', 'signMessage', 'signOffchainMessage', 'signTransaction'];
    t.same(one.wallet.asked, ['connect', ...ways, 'signTransaction']);
  });

  await t.test(
    'sign-in tries the next method after a signature that the service refuses',
    async (t) => {
      const one = await scene(stage, { features: ['signMessage', 'signTransaction'] });
      let refused = 0;
      await one.page.route('**/auth/verify', (route) => {
        refused += 1;
        if (refused > 1) return route.continue();
        const body = { ...(route.request().postDataJSON() as object), signature: '1'.repeat(64) };
        return route.continue({ postData: JSON.stringify(body) });
      });
      await one.press();
      await one.sees(subscribed);
      t.same(one.wallet.asked, ['connect', 'signMessage', 'signTransaction', 'signTransaction']);
    },
  );

  await t.test('sign-in tries no other method after the user declines', async (t) => {
    const one = await scene(stage, { rejects: 'signIn' });
    await one.press();
    await one.sees('You are not signed in');
    t.same(one.wallet.asked, ['connect', 'signIn']);
  });

  await t.test('the page says when another account than the chosen one signed', async (t) => {
    const other = randomAddress();
    const one = await scene(stage, { signsInAs: other });
    await one.press();
    await one.sees(`Your wallet signed in with the account ${shortAddress(other)}`);
    t.equal(await one.registrations(), 0);
    one.wallet.switches.signsInAs = undefined;
    await one.page.getByRole('button', { name: /^(Subscribe and pay with|Try again)/ }).click();
    await one.sees(subscribed);
  });

  await t.test('if a wallet cannot sign in, the page names the wallet and the reason', async () => {
    const one = await scene(stage, { features: ['signAndSendTransaction'] });
    await one.sees('Test wallet cannot be used here: it signs no message');
    await one.sees('No wallet of this browser can sign in here.');
  });

  await t.test(
    'a merchant can sign in only with a signed message, not with a transaction',
    async () => {
      const { keypair } = stage.chain.wallet();
      const wallet = createTestWallet(stage.chain.rpcUrl, keypair, {
        features: ['signTransaction'],
      });
      const { page } = await stage.open({ prepare: (one) => wallet.install(one) });
      await page.goto('/dashboard');
      await page.getByText('a merchant signs in with a message').waitFor();
    },
  );
});

void t.test('a merchant signs in under each host name of a developer’s machine', async (t) => {
  const stage = await startStage(t, { keeper: false });
  const wallet = createTestWallet(stage.chain.rpcUrl, stage.merchant.keypairOnChain);
  const { page } = await stage.open({ prepare: (one) => wallet.install(one) });
  await page.goto(`${stage.origin.replace('127.0.0.1', 'localhost')}/dashboard`);
  await page.getByRole('button', { name: /^Sign in with/ }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  t.same(wallet.asked, ['connect', 'signIn']);
});
