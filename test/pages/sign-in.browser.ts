// How wallets with different features sign in on the pages.
import t from 'tap';
import { closeBrowser, startStage } from '../fixtures/browser.ts';
import { randomAddress } from '../fixtures/http.ts';
import { createTestWallet, type WalletSwitches } from '../fixtures/page-wallet.ts';
import { scene, subscribed } from '../fixtures/subscribe-scene.ts';

t.teardown(closeBrowser);

void t.test('the subscribe page', async (t) => {
  const stage = await startStage(t);
  const ways: [WalletSwitches['features'], string][] = [
    [['signOffchainMessage', 'signMessage', 'signIn'], 'signIn'],
    [['signOffchainMessage', 'signMessage'], 'signMessage'],
    [['signOffchainMessage'], 'signOffchainMessage'],
    [[], 'signTransaction'],
  ];
  for (const [features, first] of ways)
    await t.test(`a wallet signs in by ${first}`, async (t) => {
      const one = await scene(stage, { features: [...features, 'signTransaction'] });
      await one.press();
      await one.sees(subscribed);
      t.same(one.wallet.asked, ['connect', first, 'signTransaction']);
      t.equal(await one.registrations(), 1);
    });

  await t.test('an account that signIn answers with is named when it differs', async (t) => {
    const other = randomAddress();
    const one = await scene(stage, { signsInAs: other });
    await one.press();
    await one.sees(other);
    t.equal(await one.registrations(), 0);
    one.wallet.switches.signsInAs = undefined;
    await one.page.getByRole('button', { name: /^(Subscribe with|Try again)/ }).click();
    await one.sees(subscribed);
  });

  await t.test('a wallet that cannot sign in is named, with the reason', async () => {
    const one = await scene(stage, { features: ['signAndSendTransaction'] });
    await one.sees('Test wallet cannot be used here: it signs no message');
    await one.sees('No wallet of this browser can sign in here.');
  });

  await t.test('a merchant signs in with a message only', async () => {
    const { keypair } = stage.chain.wallet();
    const wallet = createTestWallet(stage.chain.rpcUrl, keypair, { features: ['signTransaction'] });
    const { page } = await stage.open({ prepare: (one) => wallet.install(one) });
    await page.goto('/dashboard');
    await page.getByText('a merchant signs in with a message').waitFor();
  });
});

void t.test('a merchant signs in under each name of a developer’s machine', async (t) => {
  const stage = await startStage(t, { keeper: false });
  const wallet = createTestWallet(stage.chain.rpcUrl, stage.merchant.keypairOnChain);
  const { page } = await stage.open({ prepare: (one) => wallet.install(one) });
  await page.goto(`${stage.origin.replace('127.0.0.1', 'localhost')}/dashboard`);
  await page.getByRole('button', { name: /^Sign in with/ }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  t.same(wallet.asked, ['connect', 'signIn']);
});
