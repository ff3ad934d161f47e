// The Dockerfile, step by step without an engine: each stage is a folder, COPY copies (from the
// context only what .dockerignore lets in), RUN runs. Needs the npm registry, so it is no part of
// `npm test`: `npm run test:package`.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, lstat, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { run } from '../fixtures/command.ts';
import { daemonEnv, daemons, startReady } from '../fixtures/daemons.ts';
import { readDockerfile } from '../fixtures/dockerfile.ts';

const execute = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const { stages, allowed } = await readDockerfile(root);
const work = await mkdtemp(join(tmpdir(), 'billing-image-'));
t.teardown(() => rm(work, { recursive: true, force: true }));

const final = stages.at(-1);
const rootOf = (name: string) => join(work, name);
const app = join(rootOf('final'), 'app');

async function bytesIn(path: string): Promise<number> {
  const stat = await lstat(path);
  if (!stat.isDirectory()) return stat.size;
  const sizes = await Promise.all((await readdir(path)).map((name) => bytesIn(join(path, name))));
  return sizes.reduce((total, size) => total + size, 0);
}

void t.test('every step of the Dockerfile succeeds', async (t) => {
  const context = join(work, 'context');
  for (const path of allowed) await cp(join(root, path), join(context, path), { recursive: true });
  for (const stage of stages) {
    const here = rootOf(stage.name ?? 'final');
    let directory = here;
    for (const { instruction, words, text } of stage.steps) {
      if (instruction === 'WORKDIR')
        await mkdir((directory = join(here, words[0] ?? '')), { recursive: true });
      if (instruction === 'COPY') {
        const from = /^--from=(.+)$/.exec(words[0] ?? '')?.[1];
        const paths = from === undefined ? words : words.slice(1);
        const target = paths.at(-1) ?? '';
        for (const path of paths.slice(0, -1)) {
          const source = join(from === undefined ? context : rootOf(from), path);
          await cp(
            source,
            join(directory, target.endsWith('/') ? join(target, basename(path)) : target),
            {
              recursive: true,
              verbatimSymlinks: true,
            },
          );
        }
      }
      if (instruction === 'RUN') {
        await execute('sh', ['-c', text], { cwd: directory, maxBuffer: 1 << 26 });
        t.pass(text);
      }
    }
  }
});

void t.test("the image's content is under 250 MB, without dev dependencies", async (t) => {
  const bytes = await bytesIn(app);
  t.ok(bytes < 250_000_000, `${(bytes / 1e6).toFixed(0)} MB`);
  t.comment(`${(bytes / 1e6).toFixed(1)} MB`);
  const { devDependencies, optionalDependencies, dependencies } = JSON.parse(
    await readFile(join(root, 'package.json'), 'utf8'),
  ) as Record<'devDependencies' | 'optionalDependencies' | 'dependencies', Record<string, string>>;
  const there = new Set(
    (await readdir(join(app, 'node_modules'), { recursive: true })).map((path) =>
      path.replaceAll('\\', '/'),
    ),
  );
  for (const name of ['typescript', 'tap', 'eslint', 'tsx', 'prettier']) {
    t.ok(name in devDependencies);
    t.notOk(there.has(name), name);
  }
  for (const name of Object.keys(optionalDependencies)) t.notOk(there.has(name), name);
  for (const name of Object.keys(dependencies)) t.ok(there.has(name), name);
});

void t.test(
  'the image runs as a non-root user who can read but not change its files',
  async (t) => {
    const user = final?.steps.findLast(({ instruction }) => instruction === 'USER')?.text;
    t.ok(user !== undefined && user !== 'root' && user !== '0');
    const entry =
      final?.steps.findLast(({ instruction }) => instruction === 'ENTRYPOINT')?.text ?? '';
    t.same(
      JSON.parse(entry),
      ['node', '--', '/app/bin/billing.js'],
      'an exec form: signals reach the daemon',
    );
    for (const path of await readdir(app, { recursive: true })) {
      const stat = await lstat(join(app, path));
      if (stat.isSymbolicLink()) continue;
      const { mode } = stat;
      if ((mode & 0o004) === 0 || (mode & 0o002) !== 0)
        t.equal(mode.toString(8), 'readable by all, writable by none', path);
    }
  },
);

void t.test(
  'billing --help and each daemon run from the image, and each daemon is healthy',
  async (t) => {
    const build = { program: join(app, 'bin', 'billing.js') };
    t.match(await run(t, ['--help'], {}, build), { code: 0, stdout: /Usage: billing/ });
    const env = await daemonEnv(t);
    const health = final?.steps.find(({ instruction }) => instruction === 'HEALTHCHECK');
    const [command = '', ...args] = JSON.parse(
      health?.text.slice(health.text.indexOf('[')) ?? '[]',
    ) as string[];
    const check = async (port: string) => {
      const child = spawn(command, args, { env: { PATH: process.env.PATH, METRICS_PORT: port } });
      const [code] = (await once(child, 'close')) as [number];
      return code;
    };
    for (const daemon of daemons) {
      const running = await startReady(t, daemon, env, build);
      const { port } = new URL(running.metricsUrl);
      t.equal(await check(port), 0, `${daemon} is healthy`);
      running.child.kill('SIGTERM');
      t.match(await running.ended, { code: 0, stderr: '' }, daemon);
      t.equal(await check(port), 1, `${daemon} that is gone is not`);
    }
  },
);
