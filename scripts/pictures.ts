// `npm run pictures` runs the sandbox scenario and writes screenshots of its pages and their labels
// to docs/pictures (picture-screens.ts). It also writes the README's sample of a run
// (readme-sample.ts). Needs `npm run build` and Chromium, at the path CHROMIUM or in /usr/bin.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { chromium, type Page } from 'playwright-core';
import { format, resolveConfig } from 'prettier';
import { type DemoUrls, eachScreen, labelsOf } from './picture-screens.ts';
import { SAMPLE_ARGS, sampleOf, samplePattern } from './readme-sample.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const target = fileURLToPath(new URL('../docs/pictures/', import.meta.url));
const readme = new URL('../README.md', import.meta.url);

await mkdir(target, { recursive: true });
await writePictures();
await writeSample();

async function writePictures(): Promise<void> {
  const size = ['--subscribers', '60', '--periods', '12', '--seed', '3'];
  const child = spawn(
    process.execPath,
    ['bin/billing.js', 'sandbox', '--json', '--secrets', ...size],
    { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  try {
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const { demo } = JSON.parse(String((await lines.next()).value)) as { demo: DemoUrls };
    // The second line is the summary, which is printed when the scenario has ended.
    await lines.next();
    await takePictures(demo);
  } finally {
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
}

async function takePictures(demo: DemoUrls): Promise<void> {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'],
  });
  const open = async (url: string): Promise<Page> => {
    const context = await browser.newContext({
      viewport: { width: 1200, height: 720 },
      locale: 'en-GB',
      timezoneId: 'Europe/Berlin',
    });
    const page = await context.newPage();
    page.on('dialog', (dialog) => void dialog.accept());
    await page.goto(url);
    return page;
  };
  const labels: Record<string, string[]> = {};
  await eachScreen(demo, open, async (page, name) => {
    labels[name] = await labelsOf(page);
    await page.screenshot({ path: `${target}${name}.png` });
  });
  const style = await resolveConfig(import.meta.filename);
  const text = await format(JSON.stringify(labels), { ...style, parser: 'json' });
  await writeFile(`${target}labels.json`, text);
  await browser.close();
}

/** Replaces the README's sample with the output of a new run. */
async function writeSample(): Promise<void> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['bin/billing.js', ...SAMPLE_ARGS],
    { cwd: root },
  );
  const text = await readFile(readme, 'utf8');
  await writeFile(
    readme,
    text.replace(samplePattern, () => sampleOf(stdout)),
  );
}
