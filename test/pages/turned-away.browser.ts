// Screens that a wallet reaches only when something changes after the page was loaded, or when the
// service's answers are lost.
import t from 'tap';
import { closeBrowser, startStage } from '../fixtures/browser.ts';
import { look, scene, subscribed } from '../fixtures/subscribe-scene.ts';

t.teardown(closeBrowser);

void t.test(
  'the subscribe page explains changes and lost responses after it was loaded',
  async (t) => {
    const stage = await startStage(t, { env: { SPONSOR_LAMPORTS_PER_DAY: '1000000000' } });
    const { chain, merchant } = stage;
    const { token, appId } = merchant;
    const sponsorship = (to: 'on' | 'off') =>
      stage.served.call('PATCH', `/merchant/apps/${appId}`, { token, body: { sponsorship: to } });

    await t.test(
      'a sponsored payment whose token was lost is shown as possibly paid',
      async (t) => {
        const { id: planId } = await stage.plan();
        const one = await scene(stage, {}, { gifts: { lamports: 0n, usdc: 10_000_000n }, planId });
        let isLost = false;
        await one.page.route('**/checkout/offers/*/transaction', async (route) => {
          if (isLost) return route.continue();
          isLost = true;
          await route.fetch();
          await route.abort();
        });
        await one.press();
        await one.sees(subscribed);
        t.ok(isLost);
        t.equal(await one.registrations(), 1);
        await look(t, one, 'done-without-session');
        await one.page.getByRole('button', { name: 'See my subscriptions' }).click();
        await one.page.getByRole('button', { name: /^Sign in with/ }).waitFor();
      },
    );

    await sponsorship('off');
    await t.test(
      'a service that does not respond after the wallet signed can be tried again',
      async (t) => {
        const one = await scene(stage);
        await one.page.clock.install();
        await one.page.route('**/subscriber/transactions', (route) => route.abort());
        await one.press();
        await one.sees('Sending your transaction');
        const slow = one.page.getByText('This takes longer than usual');
        while (!(await slow.isVisible())) await one.page.clock.fastForward(2000);
        t.notMatch(await one.page.locator('.panel').innerText(), /Nothing was paid/);
        await look(t, one, 'slow');
        await one.page.unrouteAll();
        await one.page.getByRole('button', { name: 'Try again' }).click();
        await one.sees(subscribed);
        t.equal(await one.registrations(), 1);
      },
    );

    await t.test(
      'the page reports when the merchant’s account can no longer be paid',
      async (t) => {
        const one = await scene(stage);
        await stage.freeze('frozen');
        await one.press();
        await one.sees('The merchant cannot receive payments of this plan at the moment');
        t.notOk(one.wallet.asked.includes('signTransaction'), 'nothing is signed');
        await look(t, one, 'plan-blocked');
        await stage.freeze('initialized');
        await one.page.getByRole('button', { name: 'Try again' }).click();
        await one.sees(subscribed);
      },
    );

    await t.test('the page of a blocked plan does not ask to connect a wallet', async (t) => {
      const { id: planId } = await stage.plan();
      // The keeper would unblock the plan if the account were in order.
      await stage.freeze('frozen');
      await stage.served.sql`
      update plans set collection_blocked_reason = 'receiver_frozen' where id = ${planId}`;
      const one = await scene(stage, {}, { planId });
      await one.sees('The merchant cannot receive payments of this plan at the moment. Come back');
      t.equal(await one.page.getByRole('button', { name: /^Subscribe and pay with/ }).count(), 0);
      await look(t, one, 'plan-blocked-at-load');
      await stage.freeze('initialized');
    });

    await t.test('the page reports when the plan has ended since it was loaded', async (t) => {
      const end = new Date(chain.now() + 20 * 86_400_000);
      const { id: planId } = await stage.plan({ periodHours: 168, endsAt: end.toISOString() });
      const one = await scene(stage, {}, { planId });
      chain.passSeconds(21 * 86_400);
      await one.press();
      await one.sees('This plan no longer accepts new subscribers');
      t.notOk(one.wallet.asked.includes('signTransaction'), 'nothing is signed');
      t.equal(await one.page.getByRole('button', { name: /^(Subscribe|Try again)/ }).count(), 0);
      t.equal(await one.page.getByText('What you approve.').count(), 0);
      await one.page.getByRole('link', { name: 'See my subscriptions' }).waitFor();
      await look(t, one, 'plan-closed');
    });
  },
);
