// The account page in a browser: cancel, resume, repair and close, judged by the chain and the
// database.
import t from 'tap';
import { revokeApproval } from '../../src/chain/transactions/system-instructions.ts';
import { walletTransaction } from '../../src/chain/transactions/wallet.ts';
import { closeBrowser, inspect, type Stage, startStage } from '../fixtures/browser.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';

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
      >`select status, cancel_requested_at, paid_through from subscriptions`;
      if (found === undefined) throw new Error('there is no subscription');
      return found;
    };

    await page.goto('/account');
    await page.getByRole('button', { name: /Sign in with/ }).waitFor();
    await inspect(t, page, 'account-sign-in');
    await page.goto(`/s/${plan.id}`);
    await page.getByRole('button', { name: /Subscribe with/ }).click();
    await page.getByText('Paid until').waitFor();

    await page.goto('/account');
    await page.getByRole('heading', { name: 'Coffee club' }).waitFor();
    await page.getByRole('button', { name: 'Payments' }).click();
    await page.getByText('Succeeded').waitFor();
    await inspect(t, page, 'account');

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
    await page.getByRole('button', { name: /Approve payments again/ }).click();
    await page.getByText('Payments are approved again').waitFor();

    await page.getByRole('button', { name: /Cancel subscription/ }).click();
    await page.getByText('Cancelled. Nothing more is collected').waitFor();
    const { paidThrough } = await row();
    chain.passSeconds(Math.ceil(((paidThrough?.getTime() ?? 0) - chain.now()) / 1000) + 60);
    await stage.until('it is cancelled', async () => (await row()).status === 'cancelled');
    await page.reload();
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
  },
);

async function pdaOf(sql: Stage['served']['sql']): Promise<string> {
  const [row] = await sql<
    { subscriptionPda: string }[]
  >`select subscription_pda from subscriptions`;
  return row?.subscriptionPda ?? '';
}
