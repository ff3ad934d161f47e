// States of the subscribe page for a wallet that has subscribed before, and of plans that are
// closed.
import t from 'tap';
import { revokeAuthority } from '../../src/chain/program/instructions.ts';
import {
  approveTransaction,
  cancelTransaction,
} from '../../src/chain/transactions/subscriptions.ts';
import { revokeApproval } from '../../src/chain/transactions/system-instructions.ts';
import { walletTransaction } from '../../src/chain/transactions/wallet.ts';
import { closeBrowser, startStage } from '../fixtures/browser.ts';
import { look, scene, subscribed } from '../fixtures/subscribe-scene.ts';

t.teardown(closeBrowser);

void t.test('the subscribe page of a wallet that returns', async (t) => {
  const stage = await startStage(t);
  const { chain, served } = stage;

  await t.test('a wallet that has subscribed already sees its subscription', async (t) => {
    const one = await scene(stage);
    await one.press();
    await one.sees('Paid until');
    await one.page.reload();
    await one.press();
    await one.sees('You are subscribed already');
    t.equal(await one.registrations(), 1);
    await look(t, one, 'already');
  });

  await t.test('a wallet that revoked its approval approves again', async (t) => {
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

  await t.test(
    'a wallet whose authority was created anew sees that its subscription cannot be paid',
    async (t) => {
      const one = await scene(stage);
      const user = one.wallet.address;
      await one.press();
      await one.sees('Paid until');
      const revoke = revokeAuthority(chain.programId, { user, mint: chain.mint });
      await stage.land(one.keypair, (blockhash) => walletTransaction(user, [revoke], blockhash));
      await stage.land(one.keypair, (blockhash) =>
        approveTransaction(chain.programId, { user, mint: chain.mint, blockhash }),
      );
      await one.page.reload();
      await one.press();
      await one.sees('This subscription cannot be paid any more');
      await look(t, one, 'authority-rotated');
      t.equal(await one.registrations(), 1);
    },
  );

  await t.test('a wallet that cancelled on chain resumes', async (t) => {
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
    await one.sees('Your cancellation is undone');
    await stage.until('the service has seen it', async () => (await cancelled()).at === null);
  });

  await t.test(
    'a plan that has ended, is pending, or does not exist is named as such',
    async (t) => {
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
    },
  );

  await t.test('a wallet subscribes by keyboard alone', async (t) => {
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
