// The committed program is what clang-19 makes of its source.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { build, CLANG } from '../../scripts/program.ts';
import { needTools } from '../fixtures/tools.ts';

await needTools(CLANG);
const FOLDER = fileURLToPath(new URL('../../program/', import.meta.url));
const SCRIPT = fileURLToPath(new URL('../../scripts/program.ts', import.meta.url));
const COMMITTED = readFileSync(join(FOLDER, 'subscriptions.so'));

function run(args: string[], path: string | undefined) {
  const tsx = fileURLToPath(import.meta.resolve('tsx'));
  const { status, stderr } = spawnSync(
    process.execPath,
    ['--import', `file://${tsx}`, SCRIPT, ...args],
    {
      ...{ cwd: tmpdir(), encoding: 'utf8', env: { ...process.env, PATH: path } },
    },
  );
  return { status, stderr };
}

void t.test(
  'the committed program equals a build of its source; without clang-19 the check says how to get it',
  async (t) => {
    const { status, stderr } = run(['--check'], process.env['PATH']);
    t.equal(status, 0, stderr);
    const without = run(['--check'], '');
    t.equal(without.status, 2);
    t.match(without.stderr, 'apt-get install clang-19');
    t.ok(
      readFileSync(join(FOLDER, 'subscriptions.so')).equals(COMMITTED),
      'the check writes nothing',
    );
  },
);

void t.test(
  'the source copied to another directory builds to the same bytes, changed source to other bytes',
  async (t) => {
    const copy = mkdtempSync(join(tmpdir(), 'billing-link-test-'));
    t.teardown(() => rmSync(copy, { recursive: true }));
    cpSync(FOLDER, copy, { recursive: true });
    t.ok(build(copy).equals(COMMITTED));
    const source = join(copy, 'period.c');
    writeFileSync(
      source,
      readFileSync(source, 'utf8').replace(
        'now >= end_ts ? end_ts - 1',
        'now >= end_ts ? end_ts - 2',
      ),
    );
    t.notOk(build(copy).equals(COMMITTED));
  },
);
