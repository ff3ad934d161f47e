// `npm test`: compiles once, starts one Postgres for the whole suite (or uses the server that
// DATABASE_URL names), and runs each test file in one of a few Node processes. `npm test --
// test/domain/money.test.ts` runs one. `--kind=browser` and `--kind=tools` run the files that need
// a browser or other programs in place of the suite, `--kind=long` the long forms: their files, and
// the tests with larger numbers; `--kind=browser,tools` both. Closes with the line "N passed, N
// failed" that CI reads.
import { fork, type ChildProcess } from 'node:child_process';
import { rmSync } from 'node:fs';
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  statfs,
  writeFile,
} from 'node:fs/promises';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { startEmbeddedPostgres } from '../src/local/sandbox/postgres.ts';
import { compile } from './compile.ts';
import { ensureTemplate, throwaway } from './fixtures/postgres.ts';
import type { Order, Report } from './worker.ts';

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: 'string' },
    kind: { type: 'string', default: 'test' },
    timeout: { type: 'string', default: '600' },
  },
});
const kinds = flags.kind.split(',');
/** Bytes after which a worker is replaced. */
const MAX_MEMORY = 1024 ** 3;
const root = fileURLToPath(new URL('..', import.meta.url));
/** The seconds that each file took in the last run of these kinds here. A fresh clone has none. */
const durationsFile = join(root, `.tap/durations-${flags.kind}.json`);
/** Most files that run at once. Each has some 30 connections, and Postgres takes 500. */
const MAX_PLACES = Math.min(16, Math.floor(totalmem() / MAX_MEMORY));
/** Files that run at once. */
const places =
  flags.jobs === undefined ? Math.min(availableParallelism() + 2, MAX_PLACES) : Number(flags.jobs);
/** Files that run at once while the machine has time left: many wait, for blocks or timers. */
const mostPlaces = flags.jobs === undefined ? MAX_PLACES : places;
/** The part of the machine's time that has to be left before one more file is started, 0 to 1. */
const TIME_LEFT = 0.1;
/** Milliseconds over which the machine's time is measured. */
const MEASURED_MS = 500;

async function readDurations(): Promise<Record<string, number>> {
  const text = await readFile(durationsFile, 'utf8').catch(() => '{}');
  return JSON.parse(text) as Record<string, number>;
}

/** Whether a file under test/ is one of this run. */
async function isWanted(path: string): Promise<boolean> {
  if (kinds.some((kind) => new RegExp(`\\.${kind}\\.tsx?$`).test(path))) return true;
  if (!kinds.includes('long') || !/\.test\.tsx?$/.test(path)) return false;
  return (await readFile(join(root, 'test', path), 'utf8')).includes('fixtures/long.ts');
}

/** The folders whose files run a whole installation, those that take longest first. */
const LONG_FOLDERS = [
  'soak',
  'failover',
  'package',
  'scenarios',
  'pages',
  'keeper',
  'local/sandbox',
  'cli/develop',
];

/**
 * What a file that has not run here counts for in the order, more than any that has: by its folder,
 * and in a folder by its bytes.
 */
async function assumedSeconds(file: string): Promise<number> {
  const index = LONG_FOLDERS.findIndex((folder) => file.startsWith(`test/${folder}/`));
  const folders = index === -1 ? 0 : LONG_FOLDERS.length - index;
  return (1 + folders) * 1e6 + (await stat(join(root, file))).size;
}

/**
 * The test files, relative to the root. Those that took longest come first, so that none of them
 * runs alone at the end.
 */
async function testFiles(durations: Record<string, number>): Promise<string[]> {
  const paths = await readdir(join(root, 'test'), { recursive: true });
  const wanted = await Promise.all(paths.map(isWanted));
  const files = await Promise.all(
    paths
      .filter((_, index) => wanted[index])
      .map(async (path) => {
        const file = join('test', path);
        return { file, seconds: durations[file] ?? (await assumedSeconds(file)) };
      }),
  );
  return files
    .sort((one, other) => other.seconds - one.seconds || one.file.localeCompare(other.file))
    .map(({ file }) => file);
}

/**
 * The failed assertions of one file's TAP, each with its diagnostic; the last lines of a file that
 * crashed.
 */
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

/** A Node process that runs test files, one after the other. */
class Worker {
  readonly #process: ChildProcess;

  constructor(compiled: string, env: NodeJS.ProcessEnv) {
    this.#process = fork(join(compiled, 'test/worker.js'), {
      cwd: root,
      env,
      // MB. The default of 16 costs 4 % more CPU time, for garbage collection.
      execArgv: ['--enable-source-maps', '--max-semi-space-size=64'],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
  }

  /**
   * Runs one file; undefined when the process ended without a report. A process that does not even
   * end a file that timed out is killed.
   */
  run(order: Order): Promise<Report | undefined> {
    return new Promise((resolve) => {
      const settle = (report?: Report) => {
        clearTimeout(kill);
        this.#process.off('message', hear).off('exit', end);
        resolve(report);
      };
      // tap sends messages of its own.
      const hear = (message: Report | object) => {
        if ('tap' in message) settle(message);
      };
      const end = () => {
        settle();
      };
      const kill = setTimeout(() => this.stop(), order.timeoutMs + 30_000);
      this.#process.on('message', hear).on('exit', end).send(order);
    });
  }

  stop(): void {
    this.#process.kill('SIGKILL');
  }
}

/** Milliseconds of all cores since the machine's start: those without work, and all. */
function readMachine(): { idle: number; all: number } {
  const times = cpus().map((cpu) => cpu.times);
  const idle = times.reduce((sum, time) => sum + time.idle, 0);
  const all = times.flatMap((time) => Object.values(time)).reduce((sum, ms) => sum + ms, 0);
  return { idle, all };
}

/** Returns a function that tells what part of the machine's time was left since its last call. */
function watchMachine(): () => number {
  let before = readMachine();
  return () => {
    const now = readMachine();
    const left = (now.idle - before.idle) / Math.max(1, now.all - before.all);
    before = now;
    return left;
  };
}

/**
 * Runs files in a few processes: as many at once as there are places, and more while the machine
 * has time left. Prints a line for each file, and what failed in it.
 */
class Suite {
  readonly totals: Totals = { passed: 0, failed: 0 };
  readonly durations: Record<string, number>;
  /** CPU milliseconds of each file's process, without the processes that it started. */
  readonly cpuMs: Record<string, number> = {};
  readonly #files: string[];
  readonly #start: () => Worker;
  readonly #compiled: string;
  readonly #running = new Set<Worker>();
  readonly #idle: Worker[] = [];
  #onDone: () => void = () => undefined;

  constructor(
    files: readonly string[],
    durations: Record<string, number>,
    compiled: string,
    start: () => Worker,
  ) {
    this.#files = [...files];
    this.durations = { ...durations };
    this.#compiled = compiled;
    this.#start = start;
  }

  /** Resolves when all files have run. */
  async run(): Promise<void> {
    const timeLeft = watchMachine();
    const more = setInterval(() => {
      if (timeLeft() > TIME_LEFT && this.#running.size < mostPlaces) this.#startNext();
    }, MEASURED_MS);
    await new Promise<void>((resolve) => {
      this.#onDone = resolve;
      this.#fill();
    });
    clearInterval(more);
    for (const worker of this.#idle) worker.stop();
  }

  /** Starts files while there is a place. */
  #fill(): void {
    while (this.#running.size < places && this.#files.length > 0) this.#startNext();
    if (this.#running.size === 0) this.#onDone();
  }

  #startNext(): void {
    const file = this.#files.shift();
    if (file !== undefined) void this.#run(file, this.#idle.pop() ?? this.#start());
  }

  async #run(file: string, worker: Worker): Promise<void> {
    this.#running.add(worker);
    const started = performance.now();
    const order = {
      file,
      url: pathToFileURL(join(this.#compiled, file.replace(/\.tsx?$/, '.js'))).href,
      timeoutMs: Number(flags.timeout) * 1000,
    };
    const report = await worker.run(order);
    const seconds = (performance.now() - started) / 1000;
    const { total, passed, failed } = report ?? { total: 0, passed: 0, failed: 1 };
    const ok = failed === 0 && total > 0;
    this.totals.passed += passed;
    this.totals.failed += ok ? 0 : Math.max(failed, 1);
    this.durations[file] = Math.round(seconds * 10) / 10;
    this.cpuMs[file] = report?.cpuMs ?? 0;
    if (!ok) console.log(report === undefined ? 'the process ended' : failures(report.tap));
    console.log(`${ok ? 'ok' : 'not ok'} ${file} # ${seconds.toFixed(1)} s, ${passed} passed`);
    this.#running.delete(worker);
    // A failure may leave something behind.
    if (!ok || report === undefined || report.memory > MAX_MEMORY) worker.stop();
    else this.#idle.push(worker);
    this.#fill();
  }
}

/** What a run cost: CPU of the machine and of the files’ processes, and the ten dearest files. */
function costs(cpuMs: Record<string, number>, machineMs: number): string {
  const inSeconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
  const files = Object.entries(cpuMs).sort(([, one], [, other]) => other - one);
  const sum = files.reduce((all, [, ms]) => all + ms, 0);
  const dearest = files.slice(0, 10).map(([file, ms]) => `  ${inSeconds(ms)} ${file}`);
  return [
    `CPU: ${inSeconds(machineMs)} of the machine, ${inSeconds(sum)} of them in the processes of the files`,
    ...dearest,
  ].join('\n');
}

/** Bytes that a run may need for temporary files. */
const roomNeeded = 4 * 1024 ** 3;

/**
 * Puts the temporary files of this process and its children in memory where Linux has room for them
 * there. A test's database is 900 files: among so many that were just deleted, ext4 takes up to 200
 * ms of CPU time to create them. Removed at exit.
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
let totals: Totals = { passed: 0, failed: 1 };
try {
  await Promise.all([compile(compiled), ensureTemplate(databaseUrl)]);
  const durations = await readDurations();
  const files =
    positionals.length > 0
      ? positionals.map((path) => relative(root, join(process.cwd(), path)))
      : await testFiles(durations);
  const env = {
    ...process.env,
    DATABASE_URL: databaseUrl,
    NO_COLOR: '1',
    ...(kinds.includes('long') && { TEST_LONG: '1' }),
  };
  const suite = new Suite(files, durations, compiled, () => new Worker(compiled, env));
  const began = readMachine();
  await suite.run();
  const ended = readMachine();
  const machineMs = ended.all - began.all - (ended.idle - began.idle);
  if (files.length > 1) console.log(costs(suite.cpuMs, machineMs));
  totals = suite.totals;
  await mkdir(join(root, '.tap'), { recursive: true });
  await writeFile(durationsFile, JSON.stringify(suite.durations, undefined, 1));
} finally {
  await server?.stop();
  await rm(compiled, { recursive: true, force: true });
}
console.log(`${totals.passed} passed, ${totals.failed} failed`);
process.exit(totals.failed === 0 && totals.passed > 0 ? 0 : 1);
