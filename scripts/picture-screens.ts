// The screens in the README's pictures: how a browser reaches each screen in a sandbox, and which
// labels it shows. `npm run pictures` stores pictures and labels. A browser test compares the
// labels.
import type { Page } from 'playwright-core';

export interface DemoUrls {
  subscribeUrl: string;
  accountUrl: string;
  dashboardUrl: string;
}

/** Opens each screen in its own window. Calls `take` when the screen is complete. */
export async function eachScreen(
  { subscribeUrl, accountUrl, dashboardUrl }: DemoUrls,
  open: (url: string) => Promise<Page>,
  take: (page: Page, name: string) => Promise<void>,
): Promise<void> {
  const offer = await open(subscribeUrl);
  await offer.getByRole('button', { name: /^Subscribe and pay with/ }).waitFor();
  await take(offer, 'subscribe');
  await offer.getByRole('button', { name: /^Subscribe and pay with/ }).click();
  await offer.getByText('Paid until').waitFor();

  const own = await open(accountUrl);
  await own.getByRole('button', { name: /^Sign in with/ }).click();
  await own.getByRole('button', { name: 'Payments' }).first().click();
  await own.getByText('Succeeded').first().waitFor();
  await take(own, 'account');

  const desk = await open(dashboardUrl);
  await desk.getByRole('button', { name: /^Sign in with/ }).click();
  await desk.getByRole('heading', { name: 'Overview' }).waitFor();
  await desk.getByLabel('Range').selectOption('365');
  await desk.getByText('Net revenue per week').first().waitFor();
  await desk.waitForLoadState('networkidle');
  await take(desk, 'dashboard');
}

/** Selector of the elements whose texts are compared. */
const SHOWN = 'h1, h2, h3, button, dt, .meaning, th, label, nav a';

/**
 * Returns the sorted texts of a page's headings, buttons, labels, definitions and links. Numbers
 * become 0 and times are left out, because they differ from run to run.
 */
export async function labelsOf(page: Page): Promise<string[]> {
  const texts = await page.evaluate<string[]>(`
    [...document.querySelectorAll('${SHOWN}')].map((one) => {
      const copy = one.cloneNode(true);
      for (const part of copy.querySelectorAll('time, select, .count, .visually-hidden'))
        part.remove();
      return copy.textContent;
    })`);
  const labels = texts.map((text) =>
    text
      .replaceAll(/\s+/g, ' ')
      .trim()
      .replaceAll(/\d+(?:[.,]\d+)*/g, '0'),
  );
  return [...new Set(labels)].filter((text) => text !== '').sort();
}
