// What `npm ci` checks: the hash of each package, and the registry as its only source.
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import t from 'tap';

interface Entry {
  integrity?: string;
  resolved?: string;
  link?: boolean;
  optional?: boolean;
  os?: string[];
  cpu?: string[];
  libc?: string[];
}

/** The stand-in for tap's runner, whose 137 packages the suite does not use. */
const TAP_COMMAND = 'test/tap-command';

/** The project's, and those of packages that one test or benchmark installs. */
const FILES = [
  'package-lock.json',
  'test/generators/package-lock.json',
  'bench/dispatch/peers/package-lock.json',
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
        if (['', TAP_COMMAND].includes(path) || entry.integrity !== undefined || entry.link)
          continue;
        t.ok(entry.optional === true && ofAnotherPlatform(entry), path);
      }
    },
  );

  void t.test(`${file}: all packages come from the registry`, async (t) => {
    for (const [path, { resolved, link }] of await readPackages(file))
      if (link === true) t.equal(resolved, TAP_COMMAND, path);
      else
        t.match(
          resolved ?? 'https://registry.npmjs.org/',
          /^https:\/\/registry\.npmjs\.org\//,
          path,
        );
  });
}

void t.test('the tap command names the one that runs the tests', (t) => {
  const { status, stderr } = spawnSync(process.execPath, ['node_modules/tap/dist/esm/run.mjs'], {
    cwd: new URL('..', import.meta.url),
    encoding: 'utf8',
  });
  t.equal(status, 1);
  t.match(stderr, 'npm test');
  t.end();
});
