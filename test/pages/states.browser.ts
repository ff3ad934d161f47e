// States of the subscribe page on the way to a subscription, selected by the test wallet's
// settings. Those after it: returning.browser.ts. Payments are checked on chain and in the
// database.
import bs58 from 'bs58';
import t from 'tap';
import { closeBrowser, startStage } from '../fixtures/browser.ts';
import { call } from '../fixtures/localnet.ts';
import { ASSERTION_PROGRAM, createTestWallet } from '../fixtures/page-wallet.ts';
import {
  approveForeign,
  holdRequests,
  look,
  scene,
  subscribed,
} from '../fixtures/subscribe-scene.ts';

t.teardown(closeBrowser);

void t.test('the subscribe page shows each state on the way to a subscription', async (t) => {
  const stage = await startStage(t, {
    env: { ONRAMP_URL: 'https://buy.example/?to={address}&usdc={amount}' },
  });
  const { chain } = stage;

  await t.test('a visitor without a wallet gets a QR code, or links on a phone', async (t) => {
    const { id } = await stage.plan();
    const desk = await stage.open();
    await desk.page.goto(`/s/${id}`);
    await desk.page.getByRole('img', { name: 'QR code of this page' }).waitFor();
    await look(t, desk, 'no-wallet');
    const phone = await stage.open({ width: 390, phone: true, dark: true });
    await phone.page.goto(`/s/${id}`);
    for (const name of ['Phantom', 'Solflare', 'Backpack']) {
      const link = phone.page.getByRole('link', { name: `Open in ${name}` });
      t.match(await link.getAttribute('href'), encodeURIComponent(`${stage.origin}/s/${id}`));
    }
    await look(t, phone, 'no-wallet-phone');
  });

  await t.test('the page has one button for each of several wallets', async (t) => {
    const one = await scene(stage, { name: 'First' });
    const second = createTestWallet(chain.rpcUrl, chain.wallet().keypair, { name: 'Second' });
    await second.install(one.page);
    await one.page.reload();
    await one.page.getByRole('button', { name: 'Subscribe and pay with First' }).waitFor();
    await one.page.getByRole('button', { name: 'Subscribe and pay with Second' }).waitFor();
    await look(t, one, 'several');
  });

  await t.test(
    'if a wallet cannot sign transactions, the page names the wallet and the reason',
    async (t) => {
      const one = await scene(stage, { features: ['signMessage'] });
      await one.sees('it signs no Solana transactions');
      await look(t, one, 'obstacle');
    },
  );

  await t.test(
    'a service that cannot be reached is reported, and can be tried again',
    async (t) => {
      const one = await scene(stage);
      await one.page.route('**/auth/nonce', (route) => route.abort());
      await one.press();
      await one.sees('cannot be reached');
      await look(t, one, 'unreachable');
      await one.page.unrouteAll();
      await one.press();
      await one.sees(subscribed);
    },
  );

  await t.test('the page reports a sign-in that the service does not accept', async (t) => {
    const one = await scene(stage, { features: ['signMessage', 'signTransaction'] });
    // The page sends the message with another account's signature.
    await one.page.route('**/auth/verify', (route) => {
      const body = route.request().postDataJSON() as object;
      return route.continue({ postData: { ...body, signature: bs58.encode(new Uint8Array(64)) } });
    });
    await one.press();
    await one.sees('Your sign-in was not accepted');
    await look(t, one, 'not-accepted');
  });

  await t.test('the page reports a transaction that the network refused', async (t) => {
    const one = await scene(stage, {
      beforeSigning: async () => {
        await chain.rpc('surfnet_setAccount', one.wallet.address, { lamports: 5000 });
      },
    });
    await one.press();
    await one.sees('The transaction failed');
    t.equal(await one.registrations(), 0);
    await look(t, one, 'failed');
  });

  await t.test(
    'a wallet on another Solana cluster is refused before it is asked to sign',
    async (t) => {
      const one = await scene(stage, { network: 'mainnet' });
      await one.press();
      await one.sees('is not on the local chain');
      t.same(one.wallet.asked, []);
      await look(t, one, 'wrong-network');
    },
  );

  for (const [rejects, text] of [
    ['connect', 'Your wallet is not connected'],
    ['signIn', 'You are not signed in'],
    ['sign', 'You have not subscribed'],
  ] as const)
    await t.test(`a wallet that declines ${rejects} can try again and accept`, async (t) => {
      const one = await scene(stage, { rejects }, { width: 390 });
      await one.press();
      await one.sees(text);
      t.equal(await one.registrations(), 0);
      await look(t, one, `declined-${rejects}`);
      one.wallet.switches.rejects = undefined;
      await one.page.getByRole('button', { name: /^(Subscribe and pay with|Try again)/ }).click();
      await one.sees(subscribed);
      t.equal(await one.registrations(), 1);
    });

  for (const [throws, rejection, text] of [
    ['object', 'User rejected the request.', 'You declined in your wallet. Nothing was paid.'],
    [
      'object',
      'Blind signing is off',
      'Your wallet declined: Blind signing is off. Nothing was paid.',
    ],
    ['nothing', '', 'Your wallet failed and gave no reason. Nothing was paid.'],
    ['failure', '', 'Your wallet failed and gave no reason. Nothing was paid.'],
  ] as const)
    await t.test(
      `the page handles a wallet that throws ${throws} with the message "${rejection}"`,
      async () => {
        const one = await scene(stage, { rejects: 'sign', throws, rejection });
        await one.press();
        await one.sees(text);
      },
    );

  await t.test('a user can stop waiting for the wallet and start again', async (t) => {
    const one = await scene(stage, { holds: 'sign' });
    await one.press();
    await one.sees('Confirm the subscription in');
    await look(t, one, 'holding');
    await one.page.getByRole('button', { name: 'Stop waiting' }).click();
    one.wallet.switches.holds = undefined;
    one.wallet.release();
    await one.page.getByRole('button', { name: 'Subscribe and pay', exact: true }).click();
    await one.sees(subscribed);
    t.equal(await one.registrations(), 1);
  });

  await t.test('switching the account of the wallet restarts the page', async (t) => {
    const one = await scene(stage, { holds: 'sign' });
    await one.press();
    await one.sees('Confirm the subscription in');
    await one.wallet.switchAccount(one.page, chain.wallet().keypair);
    await one.sees('You switched accounts');
    await look(t, one, 'switched');
    one.wallet.switches.holds = undefined;
    await one.press();
    await one.sees(subscribed);
    t.equal(await one.registrations(), 1, 'of the new account');
  });

  await t.test(
    'a wallet that locks or switches after sending does not change what was paid',
    async (t) => {
      const one = await scene(stage);
      const { page, wallet } = one;
      const letGo = await holdRequests(one, '**/subscriber/transactions');
      await one.press();
      await one.sees('Sending your transaction');
      await wallet.lock(page);
      await wallet.switchAccount(page, chain.wallet().keypair);
      letGo();
      await one.sees('Paid until');
      await wallet.switchAccount(page, chain.wallet().keypair);
      t.match(await page.locator('.panel').innerText(), subscribed);
      t.notMatch(
        await page.locator('.panel').innerText(),
        /Nothing was paid|switched|Subscribe and pay with/,
      );
      await look(t, one, 'switched-later');
      await wallet.switchAccount(page, one.keypair);
      t.equal(await one.registrations(), 1);
      await page.goto('/account');
      await page.getByRole('button', { name: /^Sign in with/ }).click();
      const cancel = page.getByRole('button', { name: /^Cancel subscription/ });
      await cancel.waitFor();
      await wallet.lock(page);
      const go = await holdRequests(one, '**/subscriber/transactions');
      await cancel.click();
      await one.sees('Waiting for the network');
      t.equal(wallet.asked.filter((what) => what === 'connect').length, 3, 'asked to unlock');
      await wallet.switchAccount(page, chain.wallet().keypair);
      go();
      await one.sees('Cancelled. Nothing more is collected');
      await one.sees('Your wallet switched accounts');
      await look(t, one, 'account-switched-later');
      await page.getByRole('button', { name: 'Sign in again' }).click();
      await page.getByRole('button', { name: /^Sign in with/ }).waitFor();
    },
  );

  await t.test(
    'a wallet without enough USDC is shown where to send it, and can then subscribe',
    async (t) => {
      const one = await scene(stage, {}, { gifts: { usdc: 3_000_000n } });
      await one.press();
      await one.sees('Your wallet needs more');
      t.ok(await one.page.getByRole('cell', { name: '7.00' }).isVisible(), 'seven are missing');
      t.equal(await one.registrations(), 0);
      await look(t, one, 'short-usdc');
      await one.sees('Send 7.00 USDC on the Solana network');
      await one.sees(one.wallet.address);
      await one.page.getByRole('img', { name: 'QR code of your address' }).waitFor();
      const buy = one.page.getByRole('link', { name: 'Buy USDC' });
      t.equal(
        await buy.getAttribute('href'),
        `https://buy.example/?to=${one.wallet.address}&usdc=7.00`,
      );
      chain.fund(one.wallet.address, { usdc: 4_000_000n });
      chain.mineBlocks(3);
      await one.sees('Send 3.00 USDC on the Solana network');
      chain.fund(one.wallet.address, { usdc: 3_000_000n });
      chain.mineBlocks(3);
      // The page goes on by itself.
      await one.sees(subscribed);
    },
  );

  await t.test('before signing, the page shows which approval the wallet loses', async (t) => {
    const one = await scene(stage, {}, { width: 390 });
    const delegate = chain.wallet().keypair.publicKey.toBase58();
    await approveForeign(stage, one, delegate);
    await one.press();
    await one.sees('Your USDC account is approved to another program');
    await one.page.getByTitle(delegate).waitFor();
    t.equal(one.wallet.asked.includes('signTransaction'), false);
    await look(t, one, 'other-approval');
    await one.page.getByRole('button', { name: 'Subscribe and pay', exact: true }).click();
    await one.sees(subscribed);
    t.equal(await one.delegate(), one.authority);
  });

  await t.test('a wallet without enough SOL is shown the missing amount', async (t) => {
    const one = await scene(stage, {}, { gifts: { lamports: 1_000_000n }, dark: true });
    await one.press();
    await one.sees('Your wallet needs more');
    t.equal(await one.registrations(), 0);
    await look(t, one, 'short-sol');
  });

  await t.test(
    'a transaction whose blockhash lapsed before the wallet signed can be tried again',
    async (t) => {
      const one = await scene(stage, {
        beforeSigning: async () => {
          chain.mineBlocks(200);
        },
      });
      await one.press();
      await one.sees('The request expired');
      t.equal(await one.registrations(), 0);
      await look(t, one, 'lapsed');
      one.wallet.switches.beforeSigning = undefined;
      await one.page.getByRole('button', { name: 'Try again' }).click();
      await one.sees(subscribed);
    },
  );

  await t.test(
    'the page refuses a transaction that the wallet exchanged for another one',
    async (t) => {
      const one = await scene(stage, { signsSomethingElse: true });
      await one.press();
      await one.sees('Your wallet changed the transaction');
      t.equal(await one.registrations(), 0);
      await look(t, one, 'changed');
    },
  );

  await t.test(
    'the page accepts a transaction to which the wallet appended assertions',
    async (t) => {
      await putAssertionProgram(chain.rpcUrl);
      const one = await scene(stage, { appendsAssertion: true });
      await one.press();
      await one.sees(subscribed);
      t.equal(await one.registrations(), 1);
    },
  );

  await t.test('a wallet that cannot sign without sending signs in and subscribes', async (t) => {
    const one = await scene(stage, { features: ['signMessage', 'signAndSendTransaction'] });
    await one.press();
    await one.sees(subscribed);
    t.same(one.wallet.asked, ['connect', 'signMessage', 'signAndSendTransaction']);
    t.match(one.wallet.minContextSlots, [Number], 'it knows as of which slot to send');
    t.equal(await one.registrations(), 1);
  });

  await t.test(
    'the page finds the payment when the wallet reports an error after sending',
    async (t) => {
      const one = await scene(stage, {
        features: ['signMessage', 'signAndSendTransaction'],
        failsAfterSending: true,
      });
      await one.press();
      await one.sees(subscribed);
      await one.sees('Paid until');
      t.equal(await one.registrations(), 1);
      await one.page.goto('/account');
      await one.page.getByRole('button', { name: /^Cancel subscription/ }).click();
      await one.sees('Cancelled. Nothing more is collected');
    },
  );

  await t.test(
    'the page reports an unsent payment once it is certain that nothing was paid',
    async (t) => {
      const one = await scene(stage, {
        features: ['signMessage', 'signAndSendTransaction'],
        rejects: 'sign',
        rejection: 'Transaction rejected: unexpected error',
        throws: 'failure',
      });
      await one.page.clock.install();
      await one.press();
      await one.sees('Looking whether your transaction was sent all the same');
      t.notMatch(await one.page.locator('.panel').innerText(), /Nothing was paid/);
      await look(t, one, 'looking');
      await one.page.clock.fastForward(110_000);
      await one.sees('Your wallet says: Transaction rejected: unexpected error. Nothing was paid.');
      await look(t, one, 'failed-unsent');
      one.wallet.switches.rejects = undefined;
      await one.page.getByRole('button', { name: 'Try again' }).click();
      await one.sees(subscribed);
      t.equal(await one.registrations(), 1);
    },
  );

  await t.test(
    'a later refusal does not hide that an earlier request may have been sent',
    async (t) => {
      const one = await scene(stage, {
        features: ['signMessage', 'signAndSendTransaction'],
        rejects: 'sign',
        rejection: 'Something failed',
        throws: 'failure',
      });
      await one.press();
      await one.sees('Looking whether your transaction was sent all the same');
      await one.page.getByRole('button', { name: 'Stop waiting' }).click();
      Object.assign(one.wallet.switches, {
        rejection: 'User rejected the request.',
        throws: 'refusal',
      });
      await one.page.getByRole('button', { name: 'Subscribe and pay', exact: true }).click();
      await one.sees(
        'You declined in your wallet. It is not certain yet whether anything was paid.',
      );
      await look(t, one, 'unsure');
    },
  );

  await t.test(
    'after a transaction lapsed, a wallet that can send sends its next transaction itself',
    async (t) => {
      const one = await scene(stage, {
        features: ['signMessage', 'signTransaction', 'signAndSendTransaction'],
        beforeSigning: async () => {
          chain.mineBlocks(200);
        },
      });
      await one.press();
      await one.sees('The request expired');
      one.wallet.switches.beforeSigning = undefined;
      await one.page.getByRole('button', { name: 'Try again' }).click();
      await one.sees(subscribed);
      t.same(one.wallet.asked.slice(2), ['signTransaction', 'signAndSendTransaction']);
      t.equal(await one.registrations(), 1);
    },
  );

  await t.test(
    'a subscription that landed while its page was closed is registered once',
    async (t) => {
      const one = await scene(stage, { features: ['signMessage', 'signAndSendTransaction'] });
      await one.page.route('**/subscriber/subscriptions', (route) => route.abort());
      await one.page.route('**/standing', (route) =>
        one.wallet.asked.includes('signAndSendTransaction') ? route.abort() : route.continue(),
      );
      await one.press();
      // The page goes on asking: the wallet has sent the transaction.
      await one.sees('Waiting for the network to confirm');
      await one.page.unrouteAll();
      await one.page.goto(`/s/${one.planId}`);
      await one.press();
      // Before the keeper has registered it, the page asks first.
      const register = one.page.getByRole('button', { name: /^Register and pay/ });
      await one.page.getByText(subscribed).or(register).first().waitFor();
      if (await register.isVisible()) await register.click();
      await one.sees(subscribed);
      t.equal(await one.registrations(), 1, 'one registration');
      t.equal(
        one.wallet.asked.filter((method) => method === 'signAndSendTransaction').length,
        1,
        'the wallet signed one transaction',
      );
    },
  );
});

/** The local chain has no assertion program: the memo program is deployed at its address. */
async function putAssertionProgram(rpcUrl: string): Promise<void> {
  const { value } = await call<{ value: { data: [string]; owner: string } }>(
    rpcUrl,
    'getAccountInfo',
    'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr',
    { encoding: 'base64' },
  );
  await call(rpcUrl, 'surfnet_setAccount', ASSERTION_PROGRAM, {
    lamports: 10_000_000_000,
    owner: value.owner,
    executable: true,
    data: Buffer.from(value.data[0], 'base64').toString('hex'),
  });
}
