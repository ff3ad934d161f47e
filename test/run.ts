// `npm test`: compiles once, starts one Postgres for the whole suite (or uses the server that DATABASE_URL names), and runs each test file
// in a Node process of its own. `npm test -- test/domain/money.test.ts` runs one. Closes with the line "N passed, N failed" that CI reads.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import { startEmbeddedPostgres } from '../src/sandbox/postgres.ts';
import { compile } from './compile.ts';
import { ensureTemplate, throwaway } from './fixtures/postgres.ts';

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: 'string', default: '3' },
    timeout: { type: 'string', default: '300' },
  },
});
const root = fileURLToPath(new URL('..', import.meta.url));

/** Folders whose files take longest; they start first, so that no long file runs alone at the end. */
const longest = ['sandbox', 'commands', 'keeper', 'contract', 'docs', 'soak'];

/** Every test file, relative to the root. */
async function testFiles(): Promise<string[]> {
  const rank = (file: string) => {
    const found = longest.indexOf(file.split('/')[1] ?? '');
    return found === -1 ? longest.length : found;
  };
  return (await readdir(join(root, 'test'), { recursive: true }))
    .filter((name) => /\.test\.tsx?$/.test(name))
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

interface Result {
  passed: number;
  failed: number;
}

/** Runs one compiled file and prints a line for it, and its failures. */
async function runFile(file: string, compiled: string, env: NodeJS.ProcessEnv): Promise<Result> {
  const started = performance.now();
  const script = join(compiled, file.replace(/\.tsx?$/, '.js'));
  const child = spawn(process.execPath, ['--enable-source-maps', script], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
    // A file ends its own tests at `timeout`; one that does not even do that is killed.
    timeout: (Number(flags.timeout) + 30) * 1000,
    killSignal: 'SIGKILL',
  });
  const closed = once(child, 'close') as Promise<[number | null, string | null]>;
  const tap = await text(child.stdout);
  const [code, signal] = await closed;
  const totals = [...tap.matchAll(/^# \{ total: \d+(?:, pass: (\d+))?(?:, fail: (\d+))?/gm)].at(-1);
  const [passed, failed] = [Number(totals?.[1] ?? 0), Number(totals?.[2] ?? 0)];
  const ok = code === 0 && failed === 0 && totals !== undefined;
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  if (!ok) console.log(failures(tap));
  console.log(
    `${ok ? 'ok' : 'not ok'} ${file} # ${seconds} s, ${passed} passed${ok ? '' : `, exit ${code ?? signal ?? ''}`}`,
  );
  return { passed, failed: ok ? 0 : Math.max(failed, 1) };
}

async function runFiles(files: string[], compiled: string, env: NodeJS.ProcessEnv) {
  const total: Result = { passed: 0, failed: 0 };
  const queue = [...files];
  const worker = async () => {
    for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
      const { passed, failed } = await runFile(file, compiled, env);
      total.passed += passed;
      total.failed += failed;
    }
  };
  await Promise.all(Array.from({ length: Number(flags.jobs) }, worker));
  return total;
}

const given = process.env.DATABASE_URL;
const server =
  given === undefined || given === ''
    ? await startEmbeddedPostgres({ settings: throwaway })
    : undefined;
const databaseUrl = server?.url ?? given ?? '';
await mkdir(join(root, '.build'), { recursive: true });
const compiled = await mkdtemp(join(root, '.build/run-'));
let total: Result = { passed: 0, failed: 1 };
try {
  await Promise.all([compile(compiled), ensureTemplate(databaseUrl)]);
  const files =
    positionals.length > 0
      ? positionals.map((path) => relative(root, join(process.cwd(), path)))
      : await testFiles();
  total = await runFiles(files, compiled, {
    ...process.env,
    DATABASE_URL: databaseUrl,
    TAP_TIMEOUT: flags.timeout,
    NO_COLOR: '1',
  });
} finally {
  await server?.stop();
  await rm(compiled, { recursive: true, force: true });
}
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed === 0 && total.passed > 0 ? 0 : 1);
