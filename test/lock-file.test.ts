// What `npm ci` checks: the hash of each package, and the configured registry as its only source.
import { readFile } from 'node:fs/promises';
import t from 'tap';

interface Entry {
  name?: string;
  version?: string;
  dependencies?: Record<string, string>;
  integrity?: string;
  resolved?: string;
}

/**
 * The project's lock file, and the lock files of packages that one test, benchmark or example
 * installs.
 */
const FILES = [
  'package-lock.json',
  'test/generators/package-lock.json',
  'bench/dispatch/peers/package-lock.json',
  'test/deploy/kubernetes/package-lock.json',
  'examples/saas/package-lock.json',
];

/**
 * Packages whose hash is not known: the registry that the file was made with has their older
 * versions only. The version is named, so that the next one of litesvm asks again.
 */
const WITHOUT_HASH = [
  'darwin-arm64',
  'darwin-x64',
  'linux-arm64-gnu',
  'linux-arm64-musl',
  'linux-x64-musl',
].map((platform) => `node_modules/litesvm-${platform} 1.5.0`);

async function readPackages(file: string): Promise<[string, Entry][]> {
  const { packages } = JSON.parse(
    await readFile(new URL(`../${file}`, import.meta.url), 'utf8'),
  ) as { packages: Record<string, Entry> };
  return Object.entries(packages);
}

for (const file of FILES) {
  void t.test(`${file}: every package has a hash`, async (t) => {
    const missing = (await readPackages(file))
      .filter(([path, { integrity }]) => path !== '' && integrity === undefined)
      .map(([path, { version }]) => `${path} ${version}`);
    t.same(missing, file === 'package-lock.json' ? WITHOUT_HASH : []);
  });

  void t.test(`${file}: no package names another source than the registry`, async (t) => {
    for (const [path, { resolved }] of await readPackages(file)) t.equal(resolved, undefined, path);
  });
}

void t.test('the lock file has ajv itself, not the fork of a development tool', async (t) => {
  const { '': root, 'node_modules/ajv': ajv } = Object.fromEntries(
    await readPackages('package-lock.json'),
  );
  t.match(root?.dependencies?.ajv, /^\^8\./);
  t.equal(ajv?.name, undefined, 'the entry of an alias has a name');
});

void t.test(
  'the postgres package has an exact version, because src works around its bugs',
  async (t) => {
    const { dependencies } = JSON.parse(
      await readFile(new URL('../package.json', import.meta.url), 'utf8'),
    ) as { dependencies: Record<string, string> };
    t.match(dependencies.postgres, /^\d+\.\d+\.\d+$/);
  },
);
