// Detects mistyped variable names in the environment: a mistyped PLATFORM_TREASURY must not be
// ignored.
import { type Variable, variables } from './variables.ts';

const prefixes = ['BILLING_', 'KEEPER_', 'PLATFORM_', 'SOLANA_', 'SUBSCRIPTIONS_', 'WEBHOOK_'];
/**
 * Kubernetes and Docker set such names for a service whose name begins with one of the prefixes.
 */
const injected = /_SERVICE_(HOST|PORT)(_\w+)?$|_PORT(_\d+_(TCP|UDP)(_\w+)?)?$/;
/** Maximum edit distance at which a name counts as a mistyped known name. */
const CLOSENESS = 2;
/** Minimum length for that check, because shorter names are close to too many others. */
const MIN_LENGTH = 7;

const all = Object.values<Variable<unknown>>(variables);
const known = new Set(
  all.flatMap(({ name, secret }) => (secret ? [name, `${name}_FILE`] : [name])),
);

/**
 * A fault for each unknown name that has one of the prefixes or resembles a known name; it suggests
 * the probable name.
 */
export function unknownNames(names: readonly string[]): string[] {
  return names.flatMap((name) => {
    if (known.has(name) || injected.test(name)) return [];
    const [nearest = '', letters = Infinity] = closest(name);
    const isClose = letters <= CLOSENESS && name.length >= MIN_LENGTH;
    if (!isClose && !prefixes.some((prefix) => name.startsWith(prefix))) return [];
    const hint = letters <= 2 * CLOSENESS ? ` Is ${nearest} meant?` : '';
    return [`${name} is not a variable of billing.${hint}`];
  });
}

function closest(name: string): [string, number] | [] {
  const distances = [...known].map((other): [string, number] => [other, distance(name, other)]);
  return distances.toSorted(([, a], [, b]) => a - b)[0] ?? [];
}

/** Levenshtein distance. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
