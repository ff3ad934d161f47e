// `npm test`: compiles once, starts one Postgres for the whole suite (or uses the server that DATABASE_URL names), and runs each test file
// in one of a few Node processes. `npm test -- test/domain/money.test.ts` runs one. TEST_LONG=1 adds the
// long forms. Closes with the line "N passed, N failed" that CI reads.
import { fork, type ChildProcess } from 'node:child_process';
import { rmSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, statfs } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { startEmbeddedPostgres } from '../src/sandbox/postgres.ts';
import { compile } from './compile.ts';
import { isLong } from './fixtures/long.ts';
import { ensureTemplate, throwaway } from './fixtures/postgres.ts';
import type { Order, Report } from './worker.ts';

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: 'string', default: '7' },
    timeout: { type: 'string', default: '300' },
  },
});
/** Bytes after which a worker is replaced. */
const mostMemory = 1024 ** 3;
const root = fileURLToPath(new URL('..', import.meta.url));

/**
 * By the start of their path, the files that start first: those that take longest, so that none runs alone at the end, and then those that mostly wait for
 * blocks, beside which others compute.
 */
const first = [
  'soak',
  'keeper/top-up',
  'commands/trigger',
  'keeper/races',
  'commands/sandbox',
  'commands/listen',
  'commands/serve',
  'cli/admin',
  'commands/outage',
  'commands/silent-postgres',
  'commands/deliver',
  'docs/quick-start',
  'docs/cells',
  'keeper',
  'commands',
  'docs',
  'contract',
];

/** The test files, relative to the root. */
async function testFiles(): Promise<string[]> {
  const rank = (file: string) => {
    const found = first.findIndex((path) => file.startsWith(`test/${path}`));
    return found === -1 ? first.length : found;
  };
  return (await readdir(join(root, 'test'), { recursive: true }))
    .filter((name) => (isLong ? /\.(test|long)\.tsx?$/ : /\.test\.tsx?$/).test(name))
    .map((name) => join('test', name))
    .sort((one, other) => rank(one) - rank(other) || one.localeCompare(other));
}

/** The failed assertions of one file's TAP, each with its diagnostic; the last lines of a file that crashed. */
function failures(tap: string): string {
  const lines = tap.split('\n');
  const shown: string[] = [];
  let showing = false;
  for (const line of lines) {
    if (/^\s*not ok /.test(line)) showing = true;
    else if (/^\s*ok /.test(line) || /^\s*# Subtest/.test(line)) showing = false;
    if (showing) shown.push(line);
  }
  return (shown.length > 0 ? shown : lines.slice(-40)).join('\n');
}

interface Totals {
  passed: number;
  failed: number;
}

/** Resolves with the worker's report, or with undefined when it ended without one. A worker that does not even end a file that timed out is killed. */
function ask(worker: ChildProcess, order: Order): Promise<Report | undefined> {
  return new Promise((resolve) => {
    const settle = (report?: Report) => {
      clearTimeout(kill);
      worker.off('message', hear).off('exit', end);
      resolve(report);
    };
    // tap sends messages of its own.
    const hear = (message: Report | object) => {
      if ('tap' in message) settle(message);
    };
    const end = () => {
      settle();
    };
    const kill = setTimeout(() => worker.kill('SIGKILL'), order.timeoutMs + 30_000);
    worker.on('message', hear).on('exit', end).send(order);
  });
}

/** Takes files with `next` and runs them in one process; in a fresh one after a failure or when it has grown. Prints a line for each, and what failed in it. */
async function work(
  next: () => string | undefined,
  compiled: string,
  env: NodeJS.ProcessEnv,
): Promise<Totals> {
  const totals: Totals = { passed: 0, failed: 0 };
  let worker: ChildProcess | undefined;
  for (let file = next(); file !== undefined; file = next()) {
    worker ??= fork(join(compiled, 'test/worker.js'), {
      cwd: root,
      env,
      // MB. The default of 16 costs 4 % more CPU time, for garbage collection.
      execArgv: ['--enable-source-maps', '--max-semi-space-size=64'],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const started = performance.now();
    const report = await ask(worker, {
      file,
      url: pathToFileURL(join(compiled, file.replace(/\.tsx?$/, '.js'))).href,
      timeoutMs: Number(flags.timeout) * 1000,
    });
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    const { total, passed, failed } = report ?? { total: 0, passed: 0, failed: 1 };
    const ok = failed === 0 && total > 0;
    totals.passed += passed;
    totals.failed += ok ? 0 : Math.max(failed, 1);
    if (!ok) console.log(report === undefined ? 'the process ended' : failures(report.tap));
    console.log(`${ok ? 'ok' : 'not ok'} ${file} # ${seconds} s, ${passed} passed`);
    if (!ok || report === undefined || report.memory > mostMemory) {
      worker.kill('SIGKILL');
      worker = undefined;
    }
  }
  worker?.disconnect();
  return totals;
}

/** Bytes that a run may need for temporary files. */
const roomNeeded = 4 * 1024 ** 3;

/**
 * Puts the temporary files of this process and its children in memory where Linux has room for them there. A test's database is 900 files: among so
 * many that were just deleted, ext4 takes up to 200 ms of CPU time to create them. Removed at exit.
 */
async function useMemory(): Promise<void> {
  const memory = '/dev/shm';
  const mounts = await readFile('/proc/mounts', 'utf8').catch(() => '');
  const [, , , options] =
    mounts
      .split('\n')
      .map((line) => line.split(' '))
      .find(([, directory]) => directory === memory) ?? [];
  if (process.env.TMPDIR !== undefined || options === undefined) return;
  const { bavail, bsize } = await statfs(memory);
  // Postgres is run from there.
  if (options.split(',').includes('noexec') || bavail * bsize < roomNeeded) return;
  const directory = await mkdtemp(join(memory, 'billing-test-'));
  // Its servers may run as another user.
  await chmod(directory, 0o711);
  process.env.TMPDIR = directory;
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
}

// An exit event for those as well.
process.once('SIGINT', () => process.exit(130));
process.once('SIGTERM', () => process.exit(143));
await useMemory();
const given = process.env.DATABASE_URL;
const server =
  given === undefined || given === ''
    ? await startEmbeddedPostgres({ settings: throwaway })
    : undefined;
const databaseUrl = server?.url ?? given ?? '';
await mkdir(join(root, '.build'), { recursive: true });
const compiled = await mkdtemp(join(root, '.build/run-'));
let totals: Totals[] = [{ passed: 0, failed: 1 }];
try {
  await Promise.all([compile(compiled), ensureTemplate(databaseUrl)]);
  const files =
    positionals.length > 0
      ? positionals.map((path) => relative(root, join(process.cwd(), path)))
      : await testFiles();
  const env = { ...process.env, DATABASE_URL: databaseUrl, NO_COLOR: '1' };
  // The files at the front wait for blocks, those at the back compute: every other worker takes from the back.
  const workers = Array.from({ length: Number(flags.jobs) }, (_, place) =>
    work(() => (place % 2 === 0 ? files.shift() : files.pop()), compiled, env),
  );
  totals = await Promise.all(workers);
} finally {
  await server?.stop();
  await rm(compiled, { recursive: true, force: true });
}
const passed = totals.reduce((sum, each) => sum + each.passed, 0);
const failed = totals.reduce((sum, each) => sum + each.failed, 0);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
