// What `npm ci` checks: the hash of each package, and the registry as its only source.
import { readFile } from 'node:fs/promises';
import t from 'tap';

interface Entry {
  name?: string;
  dependencies?: Record<string, string>;
  integrity?: string;
  resolved?: string;
  optional?: boolean;
  os?: string[];
  cpu?: string[];
  libc?: string[];
}

/** The project's, and those of packages that one test, benchmark or script installs. */
const FILES = [
  'package-lock.json',
  'test/generators/package-lock.json',
  'bench/dispatch/peers/package-lock.json',
  'scripts/mobile-wallet/package-lock.json',
];

async function readPackages(file: string): Promise<[string, Entry][]> {
  const { packages } = JSON.parse(
    await readFile(new URL(`../${file}`, import.meta.url), 'utf8'),
  ) as { packages: Record<string, Entry> };
  return Object.entries(packages);
}

/**
 * A binary that neither development nor CI nor the image installs: they are Linux on x64 with
 * glibc.
 */
const ofAnotherPlatform = ({ os = ['linux'], cpu = ['x64'], libc = ['glibc'] }: Entry) =>
  !os.includes('linux') || !cpu.includes('x64') || !libc.includes('glibc');

for (const file of FILES) {
  void t.test(
    `${file}: every package has a hash, but optional binaries of other platforms`,
    async (t) => {
      for (const [path, entry] of await readPackages(file)) {
        if (path === '' || entry.integrity !== undefined) continue;
        t.ok(entry.optional === true && ofAnotherPlatform(entry), path);
      }
    },
  );

  void t.test(`${file}: all packages come from the registry`, async (t) => {
    for (const [path, { resolved }] of await readPackages(file))
      t.match(resolved ?? 'https://registry.npmjs.org/', /^https:\/\/registry\.npmjs\.org\//, path);
  });
}

void t.test('ajv is the package itself, not the fork of a development tool', async (t) => {
  const { '': root, 'node_modules/ajv': ajv } = Object.fromEntries(
    await readPackages('package-lock.json'),
  );
  t.match(root?.dependencies?.ajv, /^\^8\./);
  t.equal(ajv?.name, undefined, 'the entry of an alias has a name');
});

void t.test('postgres has an exact version, because src works around faults of it', async (t) => {
  const { dependencies } = JSON.parse(
    await readFile(new URL('../package.json', import.meta.url), 'utf8'),
  ) as { dependencies: Record<string, string> };
  t.match(dependencies.postgres, /^\d+\.\d+\.\d+$/);
});
