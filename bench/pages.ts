// First contentful paint of the subscribe page in Chromium, compared with a page of one line.
// Rounds alternate. Each page is opened in a window without a cache, and the figures are medians.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Browser, chromium } from 'playwright-core';
import { connect } from '../src/db/postgres/connect.ts';
import { migrate } from '../src/db/postgres/migrate.ts';
import { startEmbeddedPostgres } from '../src/local/sandbox/postgres.ts';
import type { Result } from './run.ts';

const ROUNDS = 15;
const program = fileURLToPath(new URL('../bin/billing.js', import.meta.url));

const median = (values: number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;

/** Starts `billing serve`. Resolves with its URL once it listens. */
async function serve(databaseUrl: string): Promise<{ url: string; stop: () => Promise<unknown> }> {
  const env = {
    DATABASE_URL: databaseUrl,
    SOLANA_RPC_URL: 'http://127.0.0.1:1',
    KEEPER_ADDRESS: '11111111111111111111111111111111',
    PLATFORM_TREASURY: '11111111111111111111111111111111',
    JWT_SECRET: 'j'.repeat(32),
    ENCRYPTION_KEY: 'an encryption key of 32 bytes ...',
    PORT: '0',
    METRICS_PORT: '0',
  };
  const child = spawn(process.execPath, [program, 'serve'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  for await (const line of createInterface({ input: child.stdout })) {
    const { msg, address } = JSON.parse(line) as { msg: string; address: string };
    if (msg !== 'listening') continue;
    const stop = () => {
      child.stdout.resume();
      child.kill();
      return ended;
    };
    return { url: address, stop };
  }
  throw new Error('serve ended before it listened');
}

/** Returns the milliseconds from the navigation to the first contentful paint. */
async function firstPaint(browser: Browser, url: string): Promise<number> {
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    await page.goto(url);
    for (;;) {
      const painted = await page.evaluate<number | null>(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null",
      );
      if (painted !== null) return painted;
    }
  } finally {
    await context.close();
  }
}

export async function run(): Promise<Result> {
  const postgres = await startEmbeddedPostgres();
  const sql = connect(postgres.url, { max: 2, name: 'bench' });
  await migrate(sql);
  await sql.end();
  const served = await serve(postgres.url);
  const bare = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html').end('<!doctype html><p>Loading…</p>');
  }).listen(0, '127.0.0.1');
  await once(bare, 'listening');
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'],
  });
  const [ours, theirs]: [number[], number[]] = [[], []];
  try {
    const page = `${served.url}/s/019a2f6e-7c3a-7d5e-9b1f-3c8a5d2e4f60`;
    const { port } = bare.address() as AddressInfo;
    for (let round = 0; round < ROUNDS; round += 1) {
      ours.push(await firstPaint(browser, page));
      theirs.push(await firstPaint(browser, `http://127.0.0.1:${port}/`));
    }
  } finally {
    await browser.close();
    bare.close();
    await served.stop();
    await postgres.stop();
  }
  const [firstPaintMs, bareFirstPaintMs] = [median(ours), median(theirs)];
  return {
    figures: { firstPaintMs, bareFirstPaintMs },
    ratios: { firstPaintToBare: firstPaintMs / bareFirstPaintMs },
  };
}
