// `npm run pictures`: runs the sandbox scenario and writes the README's screenshots of its pages to
// docs/pictures. Needs Chromium (CHROMIUM: path of another one) and `npm run build`.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { chromium, type Page } from 'playwright-core';

interface Ready {
  demo: { subscribeUrl: string; accountUrl: string; dashboardUrl: string };
}

interface Summary {
  chainSeconds: number;
}

const root = fileURLToPath(new URL('..', import.meta.url));
const target = fileURLToPath(new URL('../docs/pictures/', import.meta.url));
await mkdir(target, { recursive: true });

const child = spawn(
  process.execPath,
  ['bin/billing.js', 'sandbox', '--json', '--subscribers', '60', '--periods', '8', '--seed', '3'],
  { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] },
);
try {
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const { demo } = JSON.parse(String((await lines.next()).value)) as Ready;
  // The second line is the summary of the scenario, which advances the clock of the chain.
  const { chainSeconds } = JSON.parse(String((await lines.next()).value)) as Summary;
  await takePictures(demo, Date.now() + chainSeconds * 1000);
} finally {
  child.kill('SIGTERM');
  await once(child, 'exit');
}

async function takePictures(
  { subscribeUrl, accountUrl, dashboardUrl }: Ready['demo'],
  chainNow: number,
): Promise<void> {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'],
  });
  const open = async (url: string, colorScheme: 'light' | 'dark' = 'light') => {
    const viewport = { width: 1200, height: 720 };
    const context = await browser.newContext({
      viewport,
      colorScheme,
      locale: 'en-GB',
      timezoneId: 'Europe/Berlin',
    });
    const page = await context.newPage();
    await page.clock.setFixedTime(chainNow);
    page.on('dialog', (dialog) => void dialog.accept());
    await page.goto(url);
    return page;
  };
  const shoot = (page: Page, name: string) => page.screenshot({ path: `${target}${name}.png` });

  const offer = await open(subscribeUrl);
  await offer.getByRole('button', { name: /^Subscribe with/ }).waitFor();
  await shoot(offer, 'subscribe');
  await offer.getByRole('button', { name: /^Subscribe with/ }).click();
  await offer.getByText('Paid until').waitFor();

  const own = await open(accountUrl);
  await own.getByRole('button', { name: /^Sign in with/ }).click();
  await own.getByRole('button', { name: 'Payments' }).first().click();
  await own.getByText('Succeeded').first().waitFor();
  await shoot(own, 'account');

  const desk = await open(dashboardUrl);
  await desk.getByRole('button', { name: /^Sign in with/ }).click();
  await desk.getByRole('heading', { name: 'Overview' }).waitFor();
  await desk.getByLabel('Range').selectOption('365');
  await desk.waitForLoadState('networkidle');
  await shoot(desk, 'dashboard');
  await browser.close();
}
