// Measures start times: (1) `billing --help`, compared with Node and an empty program, and (2)
// `billing serve` on a migrated database until /readyz returns 200.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { connect } from '../src/db/postgres/connect.ts';
import { migrate } from '../src/db/postgres/migrate.ts';
import { freePorts } from '../src/local/sandbox/ports.ts';
import { startEmbeddedPostgres } from '../src/local/sandbox/postgres.ts';
import type { Result } from './run.ts';

const ROUNDS = 15;
const program = fileURLToPath(new URL('../bin/billing.js', import.meta.url));

const median = (values: number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;

/** Returns the milliseconds that Node runs with these arguments. */
async function node(...args: string[]): Promise<number> {
  const startedAt = performance.now();
  const [code] = (await once(
    spawn(process.execPath, args, { env: {}, stdio: 'ignore' }),
    'close',
  )) as [number];
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`);
  return performance.now() - startedAt;
}

async function serve(databaseUrl: string): Promise<number> {
  const [port = 0] = await freePorts(1);
  const env = {
    DATABASE_URL: databaseUrl,
    SOLANA_RPC_URL: 'http://127.0.0.1:1',
    KEEPER_ADDRESS: '11111111111111111111111111111111',
    PLATFORM_TREASURY: '11111111111111111111111111111111',
    JWT_SECRET: 'j'.repeat(32),
    ENCRYPTION_KEY: 'an encryption key of 32 bytes ...',
    PORT: String(port),
    METRICS_PORT: '0',
  };
  const startedAt = performance.now();
  const child = spawn(process.execPath, [program, 'serve'], { env, stdio: 'ignore' });
  const ended = once(child, 'close');
  let ms = NaN;
  while (child.exitCode === null) {
    const response = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined);
    await response?.text();
    if (response?.ok === true) {
      ms = performance.now() - startedAt;
      break;
    }
    await delay(5);
  }
  child.kill();
  await ended;
  if (Number.isNaN(ms))
    throw new Error(`serve ended with ${child.exitCode ?? ''} before it was ready`);
  return ms;
}

export async function run(): Promise<Result> {
  const postgres = await startEmbeddedPostgres();
  const sql = connect(postgres.url, { max: 2, name: 'bench' });
  await migrate(sql);
  await sql.end();
  const [bare, helps, serves]: [number[], number[], number[]] = [[], [], []];
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      bare.push(await node('--eval', ''));
      helps.push(await node(program, '--help'));
      serves.push(await serve(postgres.url));
    }
  } finally {
    await postgres.stop();
  }
  const [helpFastestMs, serveReadyFastestMs, serveReadySlowestMs] = [
    Math.min(...helps),
    Math.min(...serves),
    Math.max(...serves),
  ];
  return {
    figures: {
      helpMs: median(helps),
      helpFastestMs,
      serveReadyMs: median(serves),
      serveReadyFastestMs,
      serveReadySlowestMs,
    },
    ratios: { helpToBareNode: median(helps) / median(bare) },
  };
}
