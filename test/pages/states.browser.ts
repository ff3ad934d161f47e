// Every state of the subscribe page, selected by the test wallet's settings. Payments are checked on chain and in the database.
import type { Keypair } from '@solana/web3.js';
import t, { type Test } from 'tap';
import { authorityAddress, tokenAccountAddress } from '../../src/chain/addresses.ts';
import { revokeApproval } from '../../src/chain/system-instructions.ts';
import {
  approveTransaction,
  cancelTransaction,
  revokeTransaction,
} from '../../src/chain/transactions.ts';
import { walletTransaction } from '../../src/chain/wallet-transaction.ts';
import {
  closeBrowser,
  inspect,
  type Stage,
  startStage,
  type Viewer,
  type ViewerOptions,
} from '../fixtures/browser.ts';
import { call } from '../fixtures/localnet.ts';
import {
  ASSERTION_PROGRAM,
  createTestWallet,
  type TestWallet,
  type WalletSwitches,
} from '../fixtures/page-wallet.ts';

t.teardown(closeBrowser);

const subscribed = 'You are subscribed';

interface Scene extends Viewer {
  wallet: TestWallet;
  keypair: Keypair;
  /** The address that the wallet approves for its payments. */
  authority: string;
  /** Whom its token account has approved on chain. */
  delegate(): Promise<string | undefined>;
  planId: string;
  press(): Promise<void>;
  sees(text: string): Promise<void>;
  registrations(): Promise<number>;
}

async function scene(
  stage: Stage,
  switches: Partial<WalletSwitches> = {},
  options: ViewerOptions & { gifts?: { lamports?: bigint; usdc?: bigint }; planId?: string } = {},
): Promise<Scene> {
  const planId = options.planId ?? (await stage.plan()).id;
  const { keypair } = stage.chain.wallet(options.gifts);
  const wallet = createTestWallet(stage.chain.rpcUrl, keypair, switches);
  const viewer = await stage.open({
    refusals: true,
    ...options,
    prepare: (page) => wallet.install(page),
  });
  await viewer.page.goto(`/s/${planId}`);
  const { mint, programId } = stage.chain;
  return {
    ...viewer,
    wallet,
    keypair,
    planId,
    authority: authorityAddress(programId, wallet.address, mint).address,
    delegate: async () => {
      const account = tokenAccountAddress(wallet.address, mint).address;
      const { value } = await stage.chain.rpc<{
        value: { data: { parsed: { info: { delegate?: string } } } };
      }>('getAccountInfo', account, { encoding: 'jsonParsed', commitment: 'confirmed' });
      return value.data.parsed.info.delegate;
    },
    press: () => viewer.page.getByRole('button', { name: /^Subscribe with/ }).click(),
    sees: async (text) => viewer.page.getByText(text).first().waitFor(),
    registrations: async () =>
      (
        await stage.served.sql`
          select 1 from subscriptions where plan_id = ${planId} and subscriber_wallet = ${wallet.address}`
      ).length,
  };
}

/** Inspects the screen, and expects a silent console. */
async function look(t: Test, { page, faults }: Viewer, name: string): Promise<void> {
  await inspect(t, page, `state-${name}`);
  t.same(faults, [], `${name}: quiet`);
}

void t.test('states of the subscribe page', async (t) => {
  const stage = await startStage(t);
  const { chain, served } = stage;

  await t.test('no wallet: a code to scan, or links on a phone', async (t) => {
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

  await t.test('several wallets: one button each', async (t) => {
    const one = await scene(stage, { name: 'First' });
    const second = createTestWallet(chain.rpcUrl, chain.wallet().keypair, { name: 'Second' });
    await second.install(one.page);
    await one.page.reload();
    await one.page.getByRole('button', { name: 'Subscribe with First' }).waitFor();
    await one.page.getByRole('button', { name: 'Subscribe with Second' }).waitFor();
    await look(t, one, 'several');
  });

  await t.test('another network', async (t) => {
    const one = await scene(stage, { network: 'mainnet' });
    await one.press();
    await one.sees('is not on the local chain');
    t.same(one.wallet.asked, []);
    await look(t, one, 'wrong-network');
  });

  for (const [rejects, text] of [
    ['connect', 'Your wallet is not connected'],
    ['signIn', 'You are not signed in'],
    ['sign', 'You have not subscribed'],
  ] as const)
    await t.test(`declined: ${rejects}, then accepted`, async (t) => {
      const one = await scene(stage, { rejects }, { width: 390 });
      await one.press();
      await one.sees(text);
      t.equal(await one.registrations(), 0);
      await look(t, one, `declined-${rejects}`);
      one.wallet.switches.rejects = undefined;
      await one.page.getByRole('button', { name: /^(Subscribe with|Try again)/ }).click();
      await one.sees(subscribed);
      t.equal(await one.registrations(), 1);
    });

  await t.test('the wallet holds its answer', async (t) => {
    const one = await scene(stage, { holds: 'sign' });
    await one.press();
    await one.sees('Confirm the subscription in');
    await look(t, one, 'holding');
    await one.page.getByRole('button', { name: 'Stop waiting' }).click();
    one.wallet.switches.holds = undefined;
    one.wallet.release();
    await one.page.getByRole('button', { name: 'Subscribe', exact: true }).click();
    await one.sees(subscribed);
    t.equal(await one.registrations(), 1);
  });

  await t.test('the account is switched', async (t) => {
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

  await t.test('not enough USDC, then enough', async (t) => {
    const one = await scene(stage, {}, { gifts: { usdc: 3_000_000n } });
    await one.press();
    await one.sees('Your wallet needs more');
    t.ok(await one.page.getByRole('cell', { name: '7.00' }).isVisible(), 'seven are missing');
    t.equal(await one.registrations(), 0);
    await look(t, one, 'short-usdc');
    chain.fund(one.wallet.address, { usdc: 7_000_000n });
    chain.mineBlocks(3);
    await one.page.getByRole('button', { name: 'Check again' }).click();
    await one.sees(subscribed);
  });

  await t.test('not enough SOL', async (t) => {
    const one = await scene(stage, {}, { gifts: { lamports: 1_000_000n }, dark: true });
    await one.press();
    await one.sees('Your wallet needs more');
    t.equal(await one.registrations(), 0);
    await look(t, one, 'short-sol');
  });

  await t.test('the blockhash lapsed before the wallet answered', async (t) => {
    const one = await scene(stage, {
      beforeSigning: async () => {
        chain.mineBlocks(200);
      },
    });
    await one.press();
    await one.sees('The transaction lapsed');
    t.equal(await one.registrations(), 0);
    await look(t, one, 'lapsed');
    one.wallet.switches.beforeSigning = undefined;
    await one.page.getByRole('button', { name: 'Try again' }).click();
    await one.sees(subscribed);
  });

  await t.test('the wallet signs another transaction', async (t) => {
    const one = await scene(stage, { signsSomethingElse: true });
    await one.press();
    await one.sees('Your wallet changed the transaction');
    t.equal(await one.registrations(), 0);
    await look(t, one, 'changed');
  });

  await t.test('the wallet appends assertions', async (t) => {
    await putAssertionProgram(chain.rpcUrl);
    const one = await scene(stage, { appendsAssertion: true });
    await one.press();
    await one.sees(subscribed);
    t.equal(await one.registrations(), 1);
  });

  await t.test('a wallet that signs messages and sends by itself', async (t) => {
    const one = await scene(stage, { features: ['signMessage', 'signAndSendTransaction'] });
    await one.press();
    await one.sees(subscribed);
    t.same(one.wallet.asked, ['connect', 'signMessage', 'signAndSendTransaction']);
    t.equal(await one.registrations(), 1);
  });

  await t.test('landed though the page was closed', async (t) => {
    const one = await scene(stage, { features: ['signMessage', 'signAndSendTransaction'] });
    await one.page.route('**/subscriber/subscriptions', (route) => route.abort());
    await one.page.route('**/standing', (route) =>
      one.wallet.asked.includes('signAndSendTransaction') ? route.abort() : route.continue(),
    );
    await one.press();
    await one.sees('cannot be reached');
    t.equal(await one.registrations(), 0, 'on chain, not registered');
    await one.page.unrouteAll();
    await one.page.goto(`/s/${one.planId}`);
    await one.press();
    await one.sees(subscribed);
    t.equal(await one.registrations(), 1);
    t.equal(
      one.wallet.asked.filter((method) => method === 'signAndSendTransaction').length,
      1,
      'the wallet signed one transaction',
    );
  });

  await t.test('subscribed already', async (t) => {
    const one = await scene(stage);
    await one.press();
    await one.sees('Paid until');
    await one.page.reload();
    await one.press();
    await one.sees('You are subscribed already');
    t.equal(await one.registrations(), 1);
    await look(t, one, 'already');
  });

  await t.test('the approval was taken back: approved again', async (t) => {
    const one = await scene(stage);
    const owner = one.wallet.address;
    await one.press();
    await one.sees('Paid until');
    await stage.land(one.keypair, (blockhash) =>
      walletTransaction(owner, [revokeApproval({ owner, mint: chain.mint })], blockhash),
    );
    await one.page.reload();
    await one.press();
    await one.sees('Payments are not approved');
    t.equal(await one.delegate(), undefined);
    await look(t, one, 'approval-missing');
    await one.page.getByRole('button', { name: 'Approve payments again' }).click();
    await one.sees('Payments are approved again');
    t.equal(await one.delegate(), one.authority);
    t.equal(await one.registrations(), 1);
  });

  await t.test('the authority was rotated: only another subscription helps', async (t) => {
    const one = await scene(stage);
    const user = one.wallet.address;
    await one.press();
    await one.sees('Paid until');
    const authority = { user, mint: chain.mint, payer: user };
    await stage.land(one.keypair, (blockhash) =>
      revokeTransaction(chain.programId, { authority, blockhash }),
    );
    await stage.land(one.keypair, (blockhash) =>
      approveTransaction(chain.programId, { user, mint: chain.mint, blockhash }),
    );
    await one.page.reload();
    await one.press();
    await one.sees('This subscription cannot be paid any more');
    await look(t, one, 'authority-rotated');
    t.equal(await one.registrations(), 1);
  });

  await t.test('cancelled on chain: resumed', async (t) => {
    const one = await scene(stage);
    const subscriber = one.wallet.address;
    await one.press();
    await one.sees('Paid until');
    const cancelled = async () => {
      const [row] = await served.sql<{ at: Date | null; plan: string; subscription: string }[]>`
        select s.cancel_requested_at as at, p.plan_pda as plan, s.subscription_pda as subscription
        from subscriptions s join plans p on p.id = s.plan_id where s.plan_id = ${one.planId}`;
      if (row === undefined) throw new Error('there is no subscription');
      return row;
    };
    const { plan, subscription } = await cancelled();
    await stage.land(one.keypair, (blockhash) =>
      cancelTransaction(chain.programId, { subscriber, plan, subscription }, blockhash),
    );
    await stage.until('the service has seen it', async () => (await cancelled()).at !== null);
    await one.page.reload();
    await one.press();
    await one.sees('You have cancelled');
    await look(t, one, 'cancelled');
    await one.page.getByRole('button', { name: 'Resume the subscription' }).click();
    await one.sees('Your cancellation is taken back');
    await stage.until('the service has seen it', async () => (await cancelled()).at === null);
  });

  await t.test('the plan has ended, is pending, or does not exist', async (t) => {
    const one = await scene(stage);
    for (const status of ['ended', 'sunset'] as const) {
      await served.sql`update plans set status = ${status} where id = ${one.planId}`;
      await one.page.reload();
      await one.sees('Not available');
    }
    await look(t, one, 'ended');
    await one.page.goto('/s/01999999-0000-7000-8000-000000000000');
    await one.sees('This link leads nowhere');
    await look(t, one, 'nowhere');
    await one.page.goto('/s/%3Cscript%3E');
    await one.sees('This link leads nowhere');
  });

  await t.test('everything works by keyboard', async (t) => {
    const one = await scene(stage);
    const button = one.page.getByRole('button', { name: /^Subscribe with/ });
    await button.waitFor();
    for (let presses = 0; presses < 20; presses += 1) {
      await one.page.keyboard.press('Tab');
      if (await one.page.locator('button:focus', { hasText: 'Subscribe with' }).count()) break;
    }
    await one.page.keyboard.press('Enter');
    await one.sees(subscribed);
    t.equal(await one.registrations(), 1);
    t.same(one.faults, []);
  });
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
