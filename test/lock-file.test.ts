// The checks of `npm ci`: the hash of each package, and the registry as its only source.
import { readFile } from 'node:fs/promises';
import t from 'tap';

interface Entry {
  integrity?: string;
  resolved?: string;
  optional?: boolean;
  os?: string[];
  cpu?: string[];
  libc?: string[];
}

const { packages } = JSON.parse(
  await readFile(new URL('../package-lock.json', import.meta.url), 'utf8'),
) as { packages: Record<string, Entry> };

/**
 * A binary that neither development nor CI nor the image installs: they are Linux on x64 with
 * glibc.
 */
const ofAnotherPlatform = ({ os = ['linux'], cpu = ['x64'], libc = ['glibc'] }: Entry) =>
  !os.includes('linux') || !cpu.includes('x64') || !libc.includes('glibc');

void t.test('every package has a hash, but optional binaries of other platforms', (t) => {
  for (const [path, entry] of Object.entries(packages)) {
    if (path === '' || entry.integrity !== undefined) continue;
    t.ok(entry.optional === true && ofAnotherPlatform(entry), path);
  }
  t.end();
});

void t.test('all packages come from the registry', (t) => {
  for (const [path, { resolved }] of Object.entries(packages))
    t.match(resolved ?? 'https://registry.npmjs.org/', /^https:\/\/registry\.npmjs\.org\//, path);
  t.end();
});
