// `npm test`: one Postgres for the whole suite (the server DATABASE_URL names, or an embedded one), then tap over every test file. What comes
// after `--` goes to tap: `npm test -- test/domain/money.test.ts`. Closes with the line "N passed, N failed" that CI reads.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { once } from 'node:events';
import { startEmbeddedPostgres } from '../src/sandbox/postgres.ts';
import { ensureTemplate, throwaway } from './fixtures/postgres.ts';

const tap = createRequire(import.meta.url)
  .resolve('tap')
  .replace(/dist\/.*$/, 'dist/esm/run.mjs');

async function runTap(args: string[], env: NodeJS.ProcessEnv, onLine?: (line: string) => void): Promise<number> {
  const child = spawn(process.execPath, [tap, ...args], { env, stdio: ['ignore', onLine === undefined ? 'ignore' : 'pipe', 'inherit'] });
  if (child.stdout !== null && onLine !== undefined) createInterface({ input: child.stdout }).on('line', onLine);
  const [code] = (await once(child, 'close')) as [number | null];
  return code ?? 1;
}

/** Prints one line a file, and everything of what failed. */
function summarise() {
  let passed = 0;
  let failed = 0;
  let block: string[] = [];
  return {
    line: (text: string) => {
      const file = /^(not )?ok \d+ - (.*)$/.exec(text);
      if (file !== null) {
        if (file[1] !== undefined) console.log(failures(block).join('\n'));
        console.log(text.replace(/ \{$/, ''));
        block = [];
      } else block.push(text);
      const totals = /^# \{ total: \d+(?:, pass: (\d+))?(?:, fail: (\d+))?.*\}$/.exec(text);
      if (totals !== null) [passed, failed] = [Number(totals[1] ?? 0), Number(totals[2] ?? 0)];
    },
    totals: () => ({ passed, failed }),
  };
}

/** The failed assertions of one file's TAP, each with its diagnostic; a file that crashed shows its last lines. */
function failures(block: string[]): string[] {
  const shown: string[] = [];
  let showing = false;
  for (const text of block) {
    if (/^\s+not ok /.test(text)) showing = true;
    else if (/^\s+ok /.test(text) || /^\s+# Subtest/.test(text)) showing = false;
    if (showing) shown.push(text);
  }
  return shown.length > 0 ? shown : block.slice(-40);
}

const given = process.env.DATABASE_URL;
const server = given === undefined || given === '' ? await startEmbeddedPostgres({ settings: throwaway }) : undefined;
const databaseUrl = server?.url ?? given ?? '';
const env = { ...process.env, DATABASE_URL: databaseUrl, TAP_DISABLE_COVERAGE: '1', NO_COLOR: '1' };
let code = 1;
const summary = summarise();
try {
  await ensureTemplate(databaseUrl);
  await runTap(['build'], env);
  code = await runTap(['run', '--reporter=tap', ...process.argv.slice(2)], env, summary.line);
} finally {
  await server?.stop();
}
const { passed, failed } = summary.totals();
console.log(`${passed} passed, ${failed} failed`);
process.exit(code === 0 && failed === 0 && passed > 0 ? 0 : 1);
