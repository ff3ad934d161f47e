// What `npm pack` makes, installed into an empty folder without dev and optional packages: `billing` is linked, and runs on Node 20 and 24.
// Needs the npm registry, so it is no part of `npm test`: `npm run test:package`.
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { run } from '../fixtures/command.ts';
import { daemonEnv, daemons, startReady } from '../fixtures/daemons.ts';

const execute = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const versions = [20, 24];

const folder = await mkdtemp(join(tmpdir(), 'billing-pack-'));
t.teardown(() => rm(folder, { recursive: true, force: true }));
const npm = (...args: string[]) => execute('npm', args, { cwd: folder });
const nodeOf = (version: number) => join(folder, 'node_modules', `node${version}`, 'bin', 'node');

void t.test('npm pack installs into an empty folder, and both Nodes beside it', { timeout: 300_000 }, async (t) => {
  const { stdout } = await execute('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder, root]);
  const packed = JSON.parse(stdout) as { filename: string; files: { path: string }[] }[];
  const [archive] = Array.isArray(packed) ? packed : Object.values(packed as Record<string, (typeof packed)[number]>);
  const paths = archive?.files.map(({ path }) => path) ?? [];
  for (const path of ['bin/billing.js', 'dist/cli.js', 'sql/0001_accounts.sql', 'program/subscriptions.so'])
    t.ok(paths.includes(path), path);
  t.same(
    paths.filter((path) => /^(test|src|bench|deploy|\.)/.test(path)),
    [],
    'and nothing else of the checkout',
  );
  await writeFile(join(folder, 'package.json'), '{ "name": "operator", "private": true }');
  await npm('install', '--omit=dev', '--omit=optional', join(folder, archive?.filename ?? ''));
  const platform = `${process.platform}-${process.arch}`;
  await npm('install', '--no-save', '--ignore-scripts', ...versions.map((version) => `node${version}@npm:node-${platform}@${version}`));
  await t.rejects(execute('npm', ['ls', 'litesvm'], { cwd: folder }), 'optional packages are left out');
});

void t.test('npx billing --help', async (t) => {
  const { stdout } = await npm('exec', '--', 'billing', '--help');
  t.match(stdout, /Usage: billing/);
});

for (const version of versions) {
  void t.test(`on Node ${version}: --help, and serve, keeper and dispatch become ready and stop`, { timeout: 120_000 }, async (t) => {
    const build = { node: nodeOf(version), program: join(folder, 'node_modules', 'billing', 'bin', 'billing.js') };
    t.match((await execute(build.node, ['--version'])).stdout, new RegExp(`^v${version}\\.`));
    t.match(await run(t, ['--help'], {}, build), { code: 0, stdout: /Usage: billing/ });
    const env = await daemonEnv(t);
    t.match(await run(t, ['migrate', '--json'], env, build), { code: 0, stdout: '{"applied":[]}' });
    for (const daemon of daemons) {
      const running = await startReady(t, daemon, env, build);
      running.child.kill('SIGTERM');
      t.match(await running.ended, { code: 0, stderr: '' }, daemon);
    }
  });
}

void t.test('the local chain needs what was left out, and says so', async (t) => {
  const build = { program: join(folder, 'node_modules', 'billing', 'bin', 'billing.js') };
  const { code, stderr } = await run(t, ['localnet', '--port', '0'], {}, build);
  t.equal(code, 1);
  t.match(stderr, /litesvm/);
  t.notMatch(stderr, /\n\s+at /, 'in a line, without a stack trace');
});
