// A trial, a discount and a pause, as the subscriber sees them; judged by the database.
import t from 'tap';
import { closeBrowser, inspect, type Stage, startStage } from '../fixtures/browser.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';

t.teardown(closeBrowser);

/** A wallet with money, and its window. */
async function visit(stage: Stage, gifts?: { usdc: bigint }) {
  const wallet = createTestWallet(stage.chain.rpcUrl, stage.chain.wallet(gifts).keypair);
  const { page, faults } = await stage.open({
    refusals: true,
    prepare: (one) => wallet.install(one),
  });
  /** The line of a list of terms. */
  const line = (name: string, value: string | RegExp) =>
    page.getByRole('term').filter({ hasText: name }).locator('..').getByText(value).waitFor();
  const offer = async (path: string) => {
    await page.goto(path);
    await page.getByRole('button', { name: /^Subscribe and pay with/ }).waitFor();
  };
  const account = async () => {
    await page.goto('/account');
    await page.getByRole('heading', { name: 'Coffee club' }).first().waitFor();
  };
  return { page, faults, line, offer, account };
}

void t.test('the pages show trials, discounts and pauses', async (t) => {
  const stage = await startStage(t);
  const { served } = stage;
  const { sql } = served;
  const { token, appId } = stage.merchant;
  const subscriptionOf = async (planId: string) => {
    const [row] = await sql<{ id: string; trialEndsAt: Date | null }[]>`
      select id, trial_ends_at from subscriptions where plan_id = ${planId}`;
    if (row === undefined) throw new Error('there is no subscription');
    return row;
  };
  const paid = async (planId: string) =>
    (
      await sql<{ amountGross: bigint }[]>`
      select amount_gross from payments where plan_id = ${planId}`
    ).map(({ amountGross }) => amountGross);

  await t.test(
    'in a trial the page shows no payment, but the trial’s end and the first payment',
    async (t) => {
      const plan = await stage.plan({ trialHours: 168 });
      const { page, faults, line, offer, account } = await visit(stage);
      await offer(`/s/${plan.id}`);
      await line('Free trial, once per wallet', '7 days');
      // 562 of the period's 730 hours are left after the trial.
      await line(' to ', '7.69 USDC');
      await line('Then every month, from', '10.00 USDC');
      await page.getByText('Counted as 30 days 10 hours').waitFor();
      await inspect(t, page, 'terms-trial-offer');
      await page.getByRole('button', { name: /^Subscribe and pay with/ }).click();
      await page.getByText('You are subscribed').waitFor();
      await page.getByText('Free until').waitFor();
      await inspect(t, page, 'terms-trial-done');
      await account();
      await line('Next payment', '7.69 USDC');
      await page.getByText('Free until').waitFor();
      await inspect(t, page, 'terms-trial-account');
      t.ok((await subscriptionOf(plan.id)).trialEndsAt);
      t.same(await paid(plan.id), []);

      // The same wallet, on another plan with a trial. Before a signature, the page shows that the
      // wallet gets no trial.
      const second = await stage.plan({ trialHours: 48 });
      await offer(`/s/${second.id}`);
      await line('Free trial, once per wallet', '2 days');
      await page.getByRole('button', { name: /^Subscribe and pay with/ }).click();
      await page.getByText('you pay 10.00 USDC when you subscribe').waitFor();
      await line('Today', '10.00 USDC');
      await inspect(t, page, 'terms-no-trial');
      t.same(await sql`select 1 from subscriptions where plan_id = ${second.id}`, []);
      await page.getByRole('button', { name: 'Subscribe and pay', exact: true }).click();
      await page.getByText('Paid until').waitFor();
      t.same(await paid(second.id), [10_000_000n]);
      t.same(faults, []);
    },
  );

  await t.test(
    'a wallet that cancelled in its trial can pay for the rest of the running period',
    async (t) => {
      const plan = await stage.plan({ trialHours: 168 });
      const { page, faults, line, offer, account } = await visit(stage);
      await offer(`/s/${plan.id}`);
      await page.getByRole('button', { name: /^Subscribe and pay with/ }).click();
      await page.getByText('Free until').waitFor();
      await account();
      await page.getByRole('button', { name: /^Cancel subscription/ }).click();
      await page.getByText('Cancelled. Nothing more is collected').waitFor();
      await inspect(t, page, 'terms-trial-cancelled');
      stage.chain.passSeconds(500 * 3600);
      await stage.until('it has ended', async () => {
        const [ended] = await sql`
          select 1 from subscriptions where plan_id = ${plan.id} and status = 'cancelled'`;
        return ended !== undefined;
      });
      await offer(`/s/${plan.id}`);
      await page.getByRole('button', { name: /^Subscribe and pay with/ }).click();
      // 230 of the period's 730 hours are left. Nothing is signed before the page shows this.
      const subscribe = page.getByRole('button', { name: 'Subscribe and pay', exact: true });
      await subscribe.waitFor();
      await line('Today', '3.15 USDC');
      await line('Then every month, from', '10.00 USDC');
      await inspect(t, page, 'terms-buy-again');
      t.same(await paid(plan.id), []);
      await subscribe.click();
      await page.getByText('Paid until').waitFor();
      await line('Paid', /^3\.15/);
      const [amount = 0n, ...others] = await paid(plan.id);
      t.same(others, []);
      t.ok(amount > 3_149_000n && amount <= 3_150_685n, `${amount}`);
      await account();
      await page.getByText('Active', { exact: true }).waitFor();
      await inspect(t, page, 'terms-bought-again');
      t.same(faults, []);
    },
  );

  await t.test('a wallet with an unused free trial sees it before it signs', async (t) => {
    const plan = await stage.plan();
    const { page, faults, line, offer } = await visit(stage);
    await offer(`/s/${plan.id}`);
    // The page was opened before the plan had a trial.
    await sql`update plans set trial_hours = 48 where id = ${plan.id}`;
    await page.getByRole('button', { name: /^Subscribe and pay with/ }).click();
    await page.getByText('This wallet gets a free trial of 2 days').waitFor();
    await line('Free trial, once per wallet', '2 days');
    await inspect(t, page, 'terms-has-trial');
    t.same(faults, []);
  });

  await t.test('a subscription that the merchant force-cancelled is not shown', async (t) => {
    const plan = await stage.plan();
    const { page, faults, offer } = await visit(stage);
    await offer(`/s/${plan.id}`);
    await page.getByRole('button', { name: /^Subscribe and pay with/ }).click();
    await page.getByText('Paid until').waitFor();
    const { id } = await subscriptionOf(plan.id);
    const path = `/merchant/apps/${appId}/subscriptions/${id}/cancel`;
    await served.call('POST', path, { token, body: { mode: 'force' } });
    await offer(`/s/${plan.id}`);
    await page.getByRole('button', { name: /^Subscribe and pay with/ }).click();
    await page.getByText('The merchant has ended your subscription to this plan.').waitFor();
    await inspect(t, page, 'terms-ended-by-merchant');
    t.equal(await page.getByText('You are subscribed').count(), 0);
    t.same(faults, []);
  });

  await t.test('a discount is shown in the offer, the payment and the next payment', async (t) => {
    const plan = await stage.plan();
    const body = { planId: plan.id, discount: { percentOff: 25, periods: 3 } };
    const path = `/merchant/apps/${appId}/checkout-sessions`;
    const { url } = await served.call<{ url: string }>('POST', path, { token, body });
    // Enough for the first payment, though not for the plan's amount.
    const { page, faults, line, offer, account } = await visit(stage, { usdc: 8_000_000n });
    await offer(new URL(url).pathname);
    await line('Discount', '25% off 3 payments');
    await line('Today', '7.50 USDC');
    await line('Then 2 more times every month, from', '7.50 USDC');
    await line('Then every month, from', '10.00 USDC');
    await inspect(t, page, 'terms-discount-offer');
    await page.getByRole('button', { name: /^Subscribe and pay with/ }).click();
    await page.getByText('Paid until').waitFor();
    await line('Paid', '7.50 USDC');
    t.same(await paid(plan.id), [7_500_000n]);
    await account();
    await page.getByText('25% off 2 payments').waitFor();
    await line('Next payment', '7.50 USDC');
    await inspect(t, page, 'terms-discount-account');
    t.same(faults, []);
  });

  await t.test(
    'the account page hides the next payment while paused and shows it again after unpausing',
    async (t) => {
      const plan = await stage.plan();
      const { page, faults, line, offer, account } = await visit(stage);
      await offer(`/s/${plan.id}`);
      await page.getByRole('button', { name: /^Subscribe and pay with/ }).click();
      await page.getByText('Paid until').waitFor();
      const { id } = await subscriptionOf(plan.id);
      const path = `/merchant/apps/${appId}/subscriptions/${id}`;
      await served.call('POST', `${path}/pause`, { token });
      await account();
      await page.getByText('Paused', { exact: true }).waitFor();
      await page.getByText('Paused by the merchant').waitFor();
      t.equal(await page.getByText('Next payment').count(), 0);
      await inspect(t, page, 'terms-paused');
      await served.call('POST', `${path}/unpause`, { token });
      await account();
      await line('Next payment', '10.00 USDC');
      t.equal(await page.getByText('Paused').count(), 0);
      t.same(faults, []);
    },
  );
});
