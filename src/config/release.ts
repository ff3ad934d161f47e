// The release of this build, from package.json.
import { readFileSync } from 'node:fs';

/** Returns the version, such as "0.1.0". */
export function readRelease(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

/** Compares two versions by their numbers. Returns a negative number when `one` is older. */
export function compareReleases(one: string, other: string): number {
  const [first, second] = [one, other].map((version) =>
    version.split(/[.-]/).slice(0, 3).map(Number),
  );
  const at = (first ?? []).findIndex((number, place) => number !== second?.[place]);
  return at === -1 ? 0 : (first?.[at] ?? 0) - (second?.[at] ?? 0);
}
