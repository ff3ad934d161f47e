// The API reference in a browser: the service's name and style, nothing from another host.
import t from 'tap';
import { closeBrowser, inspect, startStage } from '../fixtures/browser.ts';

t.teardown(closeBrowser);

void t.test("the API reference shows only this project's name and logo", async (t) => {
  const stage = await startStage(t, { keeper: false });
  const { page, faults } = await stage.open();
  await page.goto('/docs/');
  await page.getByRole('link', { name: 'billing API' }).waitFor();
  await page.getByRole('button', { name: /List the checkout sessions of an app/ }).waitFor();
  t.equal(await page.title(), 'billing API');
  const images = await page.evaluate<string[]>('[...document.images].map(({ src }) => src)');
  t.same(images, [`${stage.origin}/docs/icon.svg`]);
  const shown = await page.locator('body').innerText();
  t.notMatch(shown, /swagger|smartbear/i);
  // Swagger UI nests a link in a button.
  await inspect(t, page, 'docs', { accessible: false });
  t.same(faults, []);
});
