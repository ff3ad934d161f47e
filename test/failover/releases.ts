// Two releases for an upgrade: the last one's archive and this tree, or, while there is no archive,
// this tree and a copy of this tree with one migration more.
import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SHIPPED = ['bin', 'dist', 'sql', 'program', 'package.json'];

/** Each is the path of a `bin/billing.js`. */
export interface Releases {
  old: string;
  new: string;
}

const programOf = (folder: string) => join(folder, 'bin/billing.js');

export interface ReleaseSettings {
  /** Archive of the release to upgrade from. */
  archive?: string | undefined;
  /** Without an archive: the text of the further migration. */
  further?: string;
}

const ONE_COLUMN =
  '-- min_release: 0.1.0\nalter table subscriptions add column of_next_release int;\n';

/** Makes them below `folder`. Throws an Error when the old one cannot be installed. */
export async function makeReleases(
  folder: string,
  { archive, further = ONE_COLUMN }: ReleaseSettings = {},
): Promise<Releases> {
  await mkdir(folder, { recursive: true });
  if (archive === undefined)
    return { old: programOf(ROOT), new: programOf(await makeNext(join(folder, 'next'), further)) };
  const old = join(folder, 'old');
  await mkdir(old);
  await run('tar', ['-xzf', archive, '-C', old, '--strip-components=1']);
  await run('npm', ['ci', '--omit=dev', '--omit=optional', '--ignore-scripts'], { cwd: old });
  return { old: programOf(old), new: programOf(ROOT) };
}

/** A copy of this tree as the next release: one that only adds to the schema. */
async function makeNext(folder: string, further: string): Promise<string> {
  for (const name of SHIPPED) await cp(join(ROOT, name), join(folder, name), { recursive: true });
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const path = join(folder, 'package.json');
  const description = JSON.parse(await readFile(path, 'utf8')) as { version: string };
  const [major, minor] = description.version.split('.').map(Number);
  const version = `${major}.${(minor ?? 0) + 1}.0`;
  await writeFile(path, JSON.stringify({ ...description, version }));
  const numbers = (await readdir(join(folder, 'sql'))).map((name) => parseInt(name, 10) || 0);
  const name = `${String(Math.max(...numbers) + 1).padStart(4, '0')}_next_release.sql`;
  await writeFile(join(folder, 'sql', name), further);
  return folder;
}
