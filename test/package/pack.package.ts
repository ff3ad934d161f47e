// What `npm pack` makes, installed without dev and optional packages in both ways that there are:
// as a dependency in an empty folder (`billing` is linked), and unpacked with what it brings of
// package-lock.json. Needs the npm registry, so it is no part of `npm test`: `npm run
// test:package`.
import { execFile } from 'node:child_process';
import {
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { run, type Build } from '../fixtures/command.ts';
import { daemonEnv, daemons, startReady } from '../fixtures/daemons.ts';
import { installNodes, nodeVersions as versions } from '../fixtures/nodes.ts';
import { blocksOf } from '../fixtures/pages.ts';
import { shellBlocks } from '../fixtures/shell-blocks.ts';

interface Locked {
  name?: string;
  version?: string;
  integrity?: string;
  dev?: boolean;
  optional?: boolean;
  hasInstallScript?: boolean;
}

const execute = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));

const work = await mkdtemp(join(tmpdir(), 'billing-pack-'));
t.teardown(() => rm(work, { recursive: true, force: true }));
const folder = async (name: string) => {
  await mkdir(join(work, name));
  return join(work, name);
};
const [empty, opt, nodes] = [await folder('empty'), await folder('opt'), await folder('nodes')];
const npm = (cwd: string, ...args: string[]) => execute('npm', args, { cwd, maxBuffer: 1 << 26 });
let nodeOf: (version: number) => string = () => process.execPath;
const asDependency = join(empty, 'node_modules', 'billing', 'bin', 'billing.js');
const unpacked = join(opt, 'bin', 'billing.js');

/** The installed packages by path. */
async function packagesIn(at: string): Promise<[string, Locked][]> {
  const lock = JSON.parse(
    await readFile(join(at, 'node_modules', '.package-lock.json'), 'utf8'),
  ) as { packages: Record<string, Locked> };
  return Object.entries(lock.packages);
}

async function runsDaemons(t: Test, build: Build) {
  t.match(await run(t, ['--help'], {}, build), { code: 0, stdout: /Usage: billing/ });
  const env = await daemonEnv(t);
  const migrated = await run(t, ['migrate', '--json'], env, build);
  t.match(migrated, { code: 0, stderr: '' });
  t.match(JSON.parse(migrated.stdout), { applied: [] });
  for (const daemon of daemons) {
    const running = await startReady(t, daemon, env, build);
    running.child.kill('SIGTERM');
    t.match(await running.ended, { code: 0, stderr: '' }, daemon);
  }
}

let archive = '';

void t.test('npm pack makes an archive of the run-time files, with the lock file', async (t) => {
  // It builds, which would change the files of other tests that run in this checkout.
  const checkout = join(work, 'checkout');
  await execute('git', ['clone', '--quiet', root, checkout]);
  await symlink(join(root, 'node_modules'), join(checkout, 'node_modules'));
  const { stdout } = await npm(checkout, 'pack', '--json', '--silent', '--pack-destination', work);
  // An array, or an object by name from npm 12 on.
  const packed = JSON.parse(stdout.slice(stdout.search(/^[[{]/m))) as object;
  const [made] = Object.values(packed) as { filename: string; files: { path: string }[] }[];
  archive = join(work, made?.filename ?? '');
  const paths = made?.files.map(({ path }) => path) ?? [];
  for (const path of [
    'bin/billing.js',
    'dist/cli.js',
    'sql/0001_accounts.sql',
    'program/subscriptions.so',
    'npm-shrinkwrap.json',
    'deploy/systemd/billing',
    'docs/operators.md',
  ])
    t.ok(paths.includes(path), path);
  t.same(
    paths.filter((path) => /^(test|src|bench|\.)|(?<!\.d)\.ts$/.test(path)),
    [],
    'and nothing else of the checkout',
  );
  t.same(
    (await readdir(work))
      .filter((name) => name.endsWith('.tgz'))
      .map((name) => name.replace(/-\d.*/, '')),
    ['billing', 'billing-client'],
    'and the client beside it',
  );
  t.notOk(
    paths.some((path) => path.startsWith('dist/client-package')),
    'which is no part of it',
  );
  t.notOk(
    (await readdir(checkout)).includes('npm-shrinkwrap.json'),
    'the checkout is left as it was',
  );
  nodeOf = await installNodes(nodes);
  for (const version of versions)
    t.match((await execute(nodeOf(version), ['--version'])).stdout, new RegExp(`^v${version}\\.`));
});

void t.test(
  'the archive installs into an empty folder, without compilation and without packages with known vulnerabilities',
  async (t) => {
    // As docs/development.md says: npm applies the overrides of the root project only.
    const { overrides } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
      overrides: Record<string, unknown>;
    };
    const operator = {
      name: 'operator',
      private: true,
      overrides: { 'bigint-buffer': overrides['bigint-buffer'] },
    };
    await writeFile(join(empty, 'package.json'), JSON.stringify(operator));
    await npm(empty, 'install', '--omit=dev', '--omit=optional', archive);
    const installed = await packagesIn(empty);
    t.ok(installed.length > 100);
    for (const [path, entry] of installed) {
      t.notMatch(path, /node_modules\/(bindings|node-gyp-build)$/);
      if (path.endsWith('node_modules/bigint-buffer')) t.equal(entry.name, '@exodus/bigint-buffer');
      t.not(entry.hasInstallScript, true, path);
    }
    await npm(empty, 'ls', '--all', '--omit=dev', '--omit=optional');
    t.pass('npm finds nothing missing, extraneous or invalid');
  },
);

const user = `
import { createClient } from 'CLIENT';
import { verifyWebhook, WebhookVerificationError } from 'PACKAGE/webhook';
const billing = createClient({ baseUrl: 'http://127.0.0.1:1', token: 'sk_test_x' });
const said = await billing.get('/merchant/profile').then(({ tier }) => tier, (error: unknown) => String(error));
let reason = '';
try {
  verifyWebhook('{}', {}, 'whsec_x');
} catch (error) {
  if (error instanceof WebhookVerificationError) reason = error.reason;
}
console.log(reason, said);
`;

void t.test(
  'each archive, in an empty project, compiles with moduleResolution node16 and bundler and runs on each Node',
  async (t) => {
    const project = await folder('user');
    await writeFile(join(project, 'package.json'), '{ "private": true, "type": "module" }');
    // The README's block for a project that has the archive in its folder.
    const [block] = (await blocksOf('../README.md')).filter(({ code }) =>
      code.startsWith('npm install'),
    );
    const name = (await readdir(work)).find((file) => file.startsWith('billing-client-')) ?? '';
    t.equal(block?.code, `npm install ./${name}\n`);
    await copyFile(join(work, name), join(project, name));
    await execute('bash', ['-euc', block!.code], { cwd: project });
    t.same(
      (await packagesIn(project)).map(([path]) => path),
      ['node_modules/billing-client'],
      'nothing else comes with it',
    );
    const { stdout: used } = await execute('du', [
      '-sb',
      join(project, 'node_modules/billing-client'),
    ]);
    t.ok(Number.parseInt(used) < 200_000, used);
    await npm(project, 'install', '--omit=dev', '--omit=optional', '--ignore-scripts', archive);
    const names = { 'billing-client': 'billing-client', billing: 'billing/client' };
    for (const [name, client] of Object.entries(names))
      await writeFile(
        join(project, `${name}.ts`),
        user.replace('CLIENT', client).replace('PACKAGE', name),
      );
    for (const [moduleResolution, module] of [
      ['node16', 'node16'],
      ['bundler', 'esnext'],
    ] as const) {
      const flags = {
        target: 'es2022',
        lib: 'es2023,dom,dom.asynciterable',
        moduleResolution,
        module,
        outDir: moduleResolution,
      };
      await execute(
        process.execPath,
        [
          join(root, 'node_modules/typescript/bin/tsc'),
          '--strict',
          ...Object.entries(flags).flatMap(([flag, value]) => [`--${flag}`, value]),
          '--types',
          'node',
          '--typeRoots',
          join(root, 'node_modules/@types'),
          ...Object.keys(names).map((name) => `${name}.ts`),
        ],
        { cwd: project },
      ).catch((error: unknown) =>
        t.fail(`${moduleResolution}: ${(error as { stdout: string }).stdout}`),
      );
      for (const name of Object.keys(names))
        for (const version of versions) {
          const { stdout } = await execute(nodeOf(version), [
            join(project, moduleResolution, `${name}.js`),
          ]);
          t.match(
            stdout,
            /^missing_signature BillingConnectionError: GET http:\/\/127\.0\.0\.1:1\/merchant\/profile got no answer/,
            `${name}, ${moduleResolution}, Node ${version}`,
          );
        }
    }
  },
);

for (const version of versions) {
  void t.test(`a missing --env-file is exit code 2 on Node ${version}`, async (t) => {
    const env = { PATH: `${dirname(nodeOf(version))}:${process.env.PATH ?? ''}` };
    const ended = await execute(asDependency, ['status', '--env-file', '/missing.env'], {
      env,
    }).catch((error: unknown) => error as { code: number; stderr: string });
    t.match(ended, {
      code: 2,
      stderr: /^billing: The environment file \/missing\.env cannot be read/,
    });
  });
}

void t.test('npx billing --help works after the installation', async (t) => {
  const { stdout } = await npm(empty, 'exec', '--', 'billing', '--help');
  t.match(stdout, /Usage: billing/);
});

for (const version of versions) {
  void t.test(
    `--help works, and serve, keeper and dispatch become ready and stop on Node ${version}`,
    (t) => runsDaemons(t, { node: nodeOf(version), program: asDependency }),
  );
}

void t.test(
  'npm ci in the unpacked archive installs exactly the packages of package-lock.json, and the daemons run',
  async (t) => {
    // As docs/operators.md has it.
    const blocks = shellBlocks(await readFile(join(root, 'docs', 'operators.md'), 'utf8')).filter(
      ({ needs }) => needs.includes('registry'),
    );
    t.equal(blocks.length, 1);
    for (const { script } of blocks)
      await execute('bash', ['-euo', 'pipefail', '-c', script.replaceAll('/opt/billing', opt)], {
        cwd: work,
        maxBuffer: 1 << 26,
      });
    const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, Locked | undefined>;
    };
    const installed = await packagesIn(opt);
    t.ok(installed.length > 100);
    for (const [path, entry] of installed) {
      const locked = lock.packages[path];
      t.same([entry.version, entry.integrity], [locked?.version, locked?.integrity], path);
      t.not(locked?.dev, true, path);
      t.not(locked?.optional, true, path);
    }
    await runsDaemons(t, { program: unpacked });
  },
);

void t.test('localnet and sandbox name the packages that the archive leaves out', async (t) => {
  for (const command of ['localnet', 'sandbox']) {
    const { code, stderr } = await run(t, [command], {}, { program: unpacked });
    t.equal(code, 1);
    t.match(
      stderr,
      /^billing: .*(litesvm|websocket|Postgres).* without --omit=optional.*\.\n$/,
      `${command}: in a line`,
    );
  }
});
