// The version of this build, read from package.json, and the comparison of two versions.
import { readFileSync } from 'node:fs';
import { ROOT } from '../root.ts';

/** Returns the version of this build, such as "0.1.0". */
export function readRelease(): string {
  const text = readFileSync(new URL('package.json', ROOT), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

/**
 * Compares two versions by their first three numbers. Returns a negative number when `one` is the
 * older version.
 */
export function compareReleases(one: string, other: string): number {
  const [first, second] = [one, other].map((version) =>
    version.split(/[.-]/).slice(0, 3).map(Number),
  );
  const at = (first ?? []).findIndex((number, index) => number !== second?.[index]);
  return at === -1 ? 0 : (first?.[at] ?? 0) - (second?.[at] ?? 0);
}
