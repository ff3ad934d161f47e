// A page that is refused, or whose script does not start, says what holds and how to go on.
import t from 'tap';
import { closeBrowser, inspect, startStage } from '../fixtures/browser.ts';

t.teardown(closeBrowser);

void t.test('a page that does not start offers a way to continue', async (t) => {
  const stage = await startStage(t, { keeper: false });
  const { id } = await stage.plan();
  const pages = [
    { url: `/s/${id}`, fact: 'nothing was paid' },
    { url: '/account', fact: 'your subscriptions continue' },
    { url: '/dashboard', fact: 'payments and webhooks continue' },
  ];

  for (const { url, fact } of pages)
    await t.test(
      `${url.split('/')[1]}: a page whose script does not load explains what to do`,
      async (t) => {
        const { page } = await stage.open({
          prepare: async (page) => {
            await page.route('**/assets/*.js', (route) => route.abort());
          },
        });
        await page.goto(url);
        const late = page.getByRole('heading', { name: 'This page has not started' });
        await page.getByText('Loading…').waitFor();
        await late.waitFor();
        await page.getByText(fact).waitFor();
        await inspect(t, page, `not-started-${url.split('/')[1]}`);
        await page.unroute('**/assets/*.js');
        await page.getByRole('link', { name: 'Load the page again' }).click();
        // A script that starts replaces it.
        await late.waitFor({ state: 'detached' });
        await page.getByText('Loading…').waitFor({ state: 'detached' });
      },
    );

  await t.test(
    'a client address that loads too many pages gets an error page with this reason',
    async (t) => {
      const { page } = await stage.open({ refusals: true });
      let status = 200;
      // The window's own address, which the browser's requests have.
      while (status === 200) {
        const response = await page.request.get('/account');
        status = response.status();
        await response.dispose();
      }
      t.equal(status, 429);
      await page.goto(`/s/${id}`);
      await page.getByRole('heading', { name: 'One moment, please' }).waitFor();
      await page.getByText('Too many requests came from your network').waitFor();
      await inspect(t, page, 'refused');
      await stage.served.sql`delete from rate_budgets`;
    },
  );
});
