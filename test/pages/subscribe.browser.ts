// The subscribe page in a browser: every state, judged by the chain and the database.
import t from 'tap';
import { closeBrowser, inspect, startStage } from '../fixtures/browser.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';

t.teardown(closeBrowser);

void t.test(
  'opening a link to a plan leads to a subscription with a collected payment',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const wallet = createTestWallet(stage.chain.rpcUrl, stage.chain.wallet().keypair);
    const { page, faults } = await stage.open({ prepare: (one) => wallet.install(one) });

    await page.goto(`/s/${plan.id}`);
    const button = page.getByRole('button', { name: 'Subscribe and pay with Test wallet' });
    await button.waitFor();
    t.same(wallet.asked, [], 'no wallet was asked before the button');
    await inspect(t, page, 'subscribe-offer');
    await button.click();
    await page.getByRole('heading', { name: 'You are subscribed' }).waitFor();
    await page.getByText('Paid until').waitFor();
    await inspect(t, page, 'subscribe-done');

    const { sql } = stage.served;
    const rows = await sql<{ status: string; amountGross: bigint; subscriberWallet: string }[]>`
    select status, amount_gross, subscriber_wallet from payments`;
    t.match(rows, [
      { status: 'succeeded', amountGross: 10_000_000n, subscriberWallet: wallet.address },
    ]);
    t.equal(rows.length, 1);
    t.same(faults, []);
  },
);
