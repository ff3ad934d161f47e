// States of the subscribe page for a wallet that has subscribed before, and of plans that are
// closed.
import { createCloseAccountInstruction } from '@solana/spl-token';
import { PublicKey } from '@solana/web3.js';
import t from 'tap';
import { tokenAccountAddress } from '../../src/chain/program/addresses.ts';
import { revokeAuthority } from '../../src/chain/program/instructions.ts';
import { revokeApproval } from '../../src/chain/transactions/system-instructions.ts';
import { walletTransaction } from '../../src/chain/transactions/wallet.ts';
import { closeBrowser, startStage } from '../fixtures/browser.ts';
import { approveForeign, look, scene, subscribed } from '../fixtures/subscribe-scene.ts';
import { approveTransaction, cancelTransaction } from '../fixtures/wallet-transactions.ts';

t.teardown(closeBrowser);

void t.test('the subscribe page adapts to the state of a returning wallet', async (t) => {
  const stage = await startStage(t);
  const { chain, served } = stage;

  await t.test('a wallet that has subscribed already is shown its subscription', async (t) => {
    const one = await scene(stage);
    await one.press();
    await one.sees('Paid until');
    await one.page.reload();
    await one.press();
    await one.sees('You are subscribed already');
    t.equal(await one.registrations(), 1);
    t.equal(await one.page.getByRole('term').filter({ hasText: 'Today' }).count(), 0);
    await look(t, one, 'already');
  });

  await t.test('a wallet that revoked its approval can approve again on the page', async (t) => {
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

    // A frozen account cannot be approved: both pages say so, and do not offer it.
    const approve = one.page.getByRole('button', { name: /^Approve payments again/ });
    const freeze = async (state: 'frozen' | 'initialized') => {
      await chain.rpc('surfnet_setTokenAccount', owner, chain.mint, { state });
      chain.mineBlocks(2);
    };
    await freeze('frozen');
    await one.page.reload();
    await one.press();
    await one.sees('is frozen by the issuer of USDC');
    t.equal(await approve.count(), 0);
    await look(t, one, 'already-frozen');
    await one.page.goto('/account');
    await one.sees('is frozen by the issuer of USDC');
    t.equal(await approve.count(), 0);
    await look(t, one, 'account-frozen');
    await freeze('initialized');
    await one.page.goto(`/s/${one.planId}`);
    await one.press();

    one.wallet.switches.rejects = 'sign';
    await approve.click();
    await one.sees('You declined in your wallet');
    t.equal(await one.page.getByText('You have not subscribed').count(), 0);
    t.equal(await one.page.getByRole('term').filter({ hasText: 'Today' }).count(), 0);
    await look(t, one, 'declined-approval');
    one.wallet.switches.rejects = undefined;
    await one.page.getByRole('button', { name: 'Try again' }).click();
    await approve.click();
    await one.sees('Payments are approved again');
    t.equal(await one.delegate(), one.authority);
    t.equal(await one.registrations(), 1);
  });

  await t.test('an approval of another program is named before it is replaced', async (t) => {
    const one = await scene(stage);
    const { page } = one;
    const revokes = async () => {
      const owner = one.wallet.address;
      await stage.land(one.keypair, (blockhash) =>
        walletTransaction(owner, [revokeApproval({ owner, mint: chain.mint })], blockhash),
      );
    };
    const approvesOther = async () => {
      const delegate = chain.wallet().keypair.publicKey.toBase58();
      await approveForeign(stage, one, delegate);
      return delegate;
    };
    const approve = page.getByRole('button', { name: /^Approve payments again/ });
    await one.press();
    await one.sees('Paid until');

    const first = await approvesOther();
    await page.reload();
    await one.press();
    await page.getByTitle(first).waitFor();
    t.notMatch(await page.locator('.panel').innerText(), /withdrew/);
    await look(t, one, 'approval-elsewhere');
    const second = await approvesOther();
    await approve.click();
    await page.getByTitle(second).waitFor();
    t.equal(await one.delegate(), second, 'not replaced before it was named');
    await approve.click();
    await one.sees('Payments are approved again');
    t.equal(await one.delegate(), one.authority);

    await revokes();
    await page.goto('/account');
    await one.sees('Your wallet withdrew its approval');
    const third = await approvesOther();
    await approve.click();
    await page.getByTitle(third).waitFor();
    await look(t, one, 'account-approval-elsewhere');
    t.equal(await one.delegate(), third);
    await approve.click();
    await one.sees('Payments are approved again');
    t.equal(await one.delegate(), one.authority);
  });

  await t.test(
    'a wallet whose authority was created anew is shown that its subscription cannot be paid',
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
      await one.page.goto('/account');
      await one.page.getByRole('heading', { name: 'Coffee club' }).waitFor();
      await one.sees('This subscription cannot be paid any more');
      t.equal(await one.page.getByText('Next payment').count(), 0);
      await look(t, one, 'account-replaced');
      t.equal(await one.registrations(), 1);
    },
  );

  await t.test(
    'a subscription whose authority was closed is shown as unpayable, with the way to continue',
    async (t) => {
      const one = await scene(stage);
      const user = one.wallet.address;
      await one.press();
      await one.sees('Paid until');
      const revoke = revokeAuthority(chain.programId, { user, mint: chain.mint });
      await stage.land(one.keypair, (blockhash) => walletTransaction(user, [revoke], blockhash));
      chain.passSeconds(731 * 3600);
      await stage.until('it is past due', async () => {
        const [row] = await served.sql`
          select 1 from subscriptions where plan_id = ${one.planId} and status = 'past_due'`;
        return row !== undefined;
      });
      await one.page.goto('/account');
      await one.sees('Your wallet closed the account that authorizes payments');
      await one.page.getByRole('button', { name: /^Cancel subscription/ }).waitFor();
      const card = await one.page.locator('article').innerText();
      t.equal(card.split('cannot be paid any more').length - 1, 1, 'said once');
      t.notMatch(card, /Approve payments again|Next try/);
      await look(t, one, 'authority-closed');
    },
  );

  await t.test(
    'a wallet whose USDC account was closed is shown what to do, and can then pay',
    async (t) => {
      const one = await scene(stage);
      const { publicKey } = one.keypair;
      const owner = one.wallet.address;
      const account = new PublicKey(tokenAccountAddress(owner, chain.mint).address);
      await one.press();
      await one.sees('Paid until');
      await chain.rpc('surfnet_setTokenAccount', owner, chain.mint, { amount: 0 });
      const closing = createCloseAccountInstruction(account, publicKey, publicKey);
      await stage.land(one.keypair, (blockhash) => walletTransaction(owner, [closing], blockhash));
      const closed = 'The USDC account of your wallet was closed, and its approval with it';
      await one.page.reload();
      await one.press();
      await one.sees(closed);
      await look(t, one, 'account-gone');
      await one.page.goto('/account');
      await one.sees(closed);
      chain.passSeconds(731 * 3600);
      const reads = async (status: string) =>
        stage.until(`it is ${status}`, async () => {
          const [row] = await served.sql`
            select 1 from subscriptions where plan_id = ${one.planId} and status = ${status}`;
          return row !== undefined;
        });
      await reads('past_due');
      const [failed] = await served.sql<{ reason: string }[]>`
        select failure_reason as reason from payments p join subscriptions s
          on s.id = p.subscription_id where s.plan_id = ${one.planId} and p.status = 'failed'`;
      t.equal(failed?.reason, 'account_closed');
      await one.page.reload();
      await one.sees(closed);
      const card = await one.page.locator('article').innerText();
      t.equal(card.split('was closed').length - 1, 1, 'said once');
      await look(t, one, 'account-gone-past-due');
      chain.fund(owner, { usdc: 100_000_000n });
      chain.mineBlocks(2);
      await one.page.getByRole('button', { name: /^Approve payments again/ }).click();
      await one.sees('Payments are approved again');
      await reads('active');
    },
  );

  await t.test(
    'a live account of an earlier visit is registered only after the user saw the amount',
    async (t) => {
      const one = await scene(stage);
      const { page } = one;
      await one.press();
      await one.sees('Paid until');
      const row = async () => {
        const [found] = await served.sql<{ id: string; status: string; paid: bigint | null }[]>`
          select s.id, s.status, (select sum(amount_gross)::int8 from payments p
            where p.subscription_id = s.id and p.status = 'succeeded') as paid
          from subscriptions s where plan_id = ${one.planId} order by id desc limit 1`;
        if (found === undefined) throw new Error('there is no subscription');
        return found;
      };
      const { id } = await row();
      const { token, appId } = stage.merchant;
      const path = `/merchant/apps/${appId}/subscriptions/${id}/cancel`;
      await served.call('POST', path, { token, body: {} });
      // 700 of the 730 hours of the second period are left.
      chain.passSeconds(760 * 3600);
      await stage.until('it has ended', async () => (await row()).status === 'cancelled');
      await page.goto(`/s/${one.planId}`);
      await one.press();
      await one.sees('This wallet has a subscription already');
      const pay = page.getByRole('button', { name: /^Register and pay 9\.5[89] USDC$/ });
      await pay.waitFor();
      t.equal(await one.registrations(), 1, 'asked first');
      await look(t, one, 'unregistered');
      await pay.click();
      await one.sees('Paid until');
      t.equal(await one.registrations(), 2);
      await stage.until('it is paid', async () => (await row()).paid !== null);
      const amount = (await row()).paid ?? 0n;
      t.ok(amount > 9_570_000n && amount <= 9_590_000n, `${amount}`);
    },
  );

  await t.test('a wallet that cancelled on chain can resume', async (t) => {
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
    'a wallet whose first payment failed cancels and pays only the rest of the period later',
    async (t) => {
      const one = await scene(stage, {
        beforeSigning: async () => {
          await chain.rpc('surfnet_setTokenAccount', one.wallet.address, chain.mint, { amount: 0 });
        },
      });
      await one.press();
      await one.sees('The first payment failed');
      t.equal(await one.page.locator('.tick').count(), 0);
      t.equal(await one.page.getByText('has begun').count(), 0);
      await look(t, one, 'first-failed');
      one.wallet.switches.beforeSigning = undefined;
      await one.page.reload();
      await one.press();
      await one.sees('You are subscribed already');
      await one.sees('Your wallet has too little USDC');
      t.equal(await one.page.getByText('There is nothing to do').count(), 0);
      await look(t, one, 'already-unpaid');
      await one.page.goto('/account');
      await one.page.getByRole('button', { name: /^Cancel subscription/ }).click();
      await one.sees('Cancelled. Nothing more is collected.');
      t.equal(await one.page.getByText('you keep what you have paid for').count(), 0);
      await one.page.getByRole('link', { name: 'Resume the subscription' }).waitFor();
      await stage.until('it has ended', async () => {
        const [row] = await served.sql`
          select 1 from subscriptions
          where plan_id = ${one.planId} and status in ('cancelled', 'expired')`;
        return row !== undefined;
      });
      await look(t, one, 'cancelled-unpaid');
      chain.fund(one.wallet.address, { usdc: 10_000_000n });
      chain.passSeconds(500 * 3600);
      chain.mineBlocks(5);
      await one.page.reload();
      await one.page.getByRole('link', { name: 'Resume the subscription' }).click();
      await one.press();
      await one.sees('Your earlier subscription to this plan still runs');
      // 230 of the 730 hours of the period are left.
      const line = (name: string | RegExp) =>
        one.page.getByRole('term').filter({ hasText: name }).locator('..').innerText();
      t.match(await line('Today'), '3.15 USDC');
      t.match(await line('Then every month, from'), '10.00 USDC');
      await look(t, one, 'buy-again');
      await one.page.getByRole('button', { name: 'Subscribe and pay', exact: true }).click();
      await one.sees('Paid until');
      t.equal(await one.registrations(), 2);
      t.match(await line(/^Paid$/), /Paid\s+3\.\d\d USDC/, 'to the cent');
      await look(t, one, 'bought-again');
    },
  );

  await t.test(
    'a wallet whose ended subscription still has a live account is sent to the plan’s page',
    async (t) => {
      const one = await scene(stage);
      await one.press();
      await one.sees('Paid until');
      const resume = one.page.getByRole('link', { name: 'Resume the subscription' });
      await one.page.goto('/account');
      await one.page.getByRole('button', { name: /^Cancel subscription/ }).waitFor();
      t.equal(await resume.count(), 0, 'not while it is live here');
      await served.sql`
        with ended as (
          update subscriptions set status = 'expired', ended_at = now(), end_reason = 'past_due',
            next_payment_due = null
          where plan_id = ${one.planId} returning id
        )
        update subscription_work set due_at = null, lease_until = null, claim_id = null
        from ended where subscription_id = id`;
      await one.page.reload();
      t.equal(await resume.getAttribute('href'), `/s/${one.planId}`);
      await look(t, one, 'ended-and-live');
    },
  );

  await t.test('the page says that a plan has ended, is pending or does not exist', async (t) => {
    const one = await scene(stage);
    const { sql } = served;
    await sql`update apps set website_url = 'https://tea.example/'`;
    await one.page.reload();
    await one.sees('Says that its website is');
    await look(t, one, 'unproven-website');
    await sql`update apps set website_url = null`;
    for (const status of ['pending', 'sunset', 'ended'] as const) {
      await sql`update plans set status = ${status} where id = ${one.planId}`;
      await one.page.reload();
      await one.sees('Not available');
      await look(t, one, status);
    }
    t.equal(await one.page.getByRole('term').filter({ hasText: 'Today' }).count(), 0);
    await one.page.goto('/s/01999999-0000-7000-8000-000000000000');
    await one.sees('This link leads nowhere');
    await look(t, one, 'nowhere');
    await one.page.goto('/s/%3Cscript%3E');
    await one.sees('This link leads nowhere');
  });

  await t.test(
    "the page tells the merchant's own wallet that another wallet must subscribe",
    async (t) => {
      const one = await scene(stage);
      await one.wallet.switchAccount(one.page, stage.merchant.keypairOnChain);
      await one.press();
      await one.sees('This is the merchant’s own wallet');
      await look(t, one, 'own-wallet');
    },
  );

  await t.test('a wallet subscribes by keyboard alone', async (t) => {
    const one = await scene(stage);
    const button = one.page.getByRole('button', { name: /^Subscribe and pay with/ });
    await button.waitFor();
    for (let presses = 0; presses < 20; presses += 1) {
      await one.page.keyboard.press('Tab');
      if (await one.page.locator('button:focus', { hasText: 'Subscribe and pay with' }).count())
        break;
    }
    await one.page.keyboard.press('Enter');
    await one.sees(subscribed);
    t.equal(await one.registrations(), 1);
    t.same(one.faults, []);
  });
});
