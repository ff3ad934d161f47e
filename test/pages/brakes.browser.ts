// What a buyer sees of an operator's measures: the link for reports, and a suspended merchant's
// plan.
import t from 'tap';
import { endSuspension, suspend } from '../../src/db/accounts/suspensions.ts';
import { closeBrowser, inspect, startStage } from '../fixtures/browser.ts';

t.teardown(closeBrowser);

void t.test(
  'a visitor can report a plan, and the plan of a suspended merchant is not available',
  async (t) => {
    const stage = await startStage(t, {
      keeper: false,
      env: { REPORT_URL: 'mailto:abuse@operator.example' },
    });
    const { sql } = stage.served;
    const { id } = await stage.plan({ name: 'Stolen brand' });
    const { page, faults } = await stage.open();
    const account = {
      role: 'merchant',
      wallet: stage.merchant.wallet,
      by: { who: 'tester', host: 'here' },
    } as const;
    const subscribe = page.getByRole('button', { name: /^Subscribe/ });

    await page.goto(`/s/${id}`);
    t.equal(
      await page.getByRole('link', { name: 'Report this plan' }).getAttribute('href'),
      `mailto:abuse@operator.example?subject=${encodeURIComponent(`Report of plan ${id}`)}`,
    );

    await suspend(sql, { ...account, reason: 'stolen cards' });
    await page.reload();
    await page.getByRole('heading', { name: 'Not available' }).waitFor();
    t.equal(await subscribe.count(), 0);
    const content = await page.content();
    t.notOk(content.includes('stolen cards'), 'the reason is not for buyers');
    t.notOk(
      content.includes('Stolen brand') || content.includes(stage.merchant.wallet),
      'nothing of it',
    );
    t.ok(await page.getByRole('link', { name: 'Report this plan' }).isVisible());
    await inspect(t, page, 'suspended');

    await endSuspension(sql, { ...account, reason: 'it was a mistake' });
    await page.reload();
    await page.getByRole('img', { name: 'QR code of this page' }).waitFor();
    t.equal(await page.getByRole('heading', { name: 'Not available' }).count(), 0);

    await page.goto('/account');
    await page.getByRole('heading', { name: 'See and manage your subscriptions' }).waitFor();
    const report = page.getByRole('link', { name: 'Report abuse' });
    t.equal(await report.getAttribute('href'), 'mailto:abuse@operator.example');
    await inspect(t, page, 'account before sign-in');
    t.same(faults, []);
  },
);
