// Detects mistyped variable names in the environment, so that a mistyped PLATFORM_TREASURY is not
// silently ignored.
import { type Variable, variables } from './variables.ts';

const prefixes = ['BILLING_', 'KEEPER_', 'PLATFORM_', 'SOLANA_', 'SUBSCRIPTIONS_', 'WEBHOOK_'];
/**
 * Names that Kubernetes and Docker set, such as KEEPER_SERVICE_HOST for a service named "keeper".
 * Such a name may begin with one of the `prefixes`, but is not a mistyped name.
 */
const injected = /_SERVICE_(HOST|PORT)(_\w+)?$|_PORT(_\d+_(TCP|UDP)(_\w+)?)?$/;
/**
 * Names with these prefixes that are no variables of the configuration: the default of --env-file,
 * and the secret of a merchant's webhook receiver. A developer may set the secret in the same
 * shell.
 */
const others = new Set(['BILLING_ENV_FILE', 'WEBHOOK_SECRET']);
/** Maximum edit distance between a mistyped name and a known name. */
const CLOSENESS = 2;
/**
 * Minimum length of a name for the distance check, because a shorter name is close to too many
 * other names.
 */
const MIN_LENGTH = 7;

const all = Object.values<Variable<unknown>>(variables);
const knownNames = new Set(
  all.flatMap(({ name, secret }) => (secret ? [name, `${name}_FILE`] : [name])),
);

/**
 * Returns a fault for each unknown name that begins with one of the `prefixes` or resembles a known
 * name. The fault suggests the most similar known name.
 */
export function unknownNames(names: readonly string[]): string[] {
  return names.flatMap((name) => {
    if (knownNames.has(name) || others.has(name) || injected.test(name)) return [];
    const [nearest = '', letters = Infinity] = closest(name, knownNames);
    const isClose = letters <= CLOSENESS && name.length >= MIN_LENGTH;
    if (!isClose && !prefixes.some((prefix) => name.startsWith(prefix))) return [];
    const hint = letters <= 2 * CLOSENESS ? ` Is ${nearest} meant?` : '';
    return [`${name} is not a variable of billing.${hint}`];
  });
}

/**
 * Returns the most similar of `words` and its Levenshtein distance from `name`. Returns an empty
 * array if there are no words.
 */
export function closest(name: string, words: Iterable<string>): [string, number] | [] {
  const distances = [...words].map((other): [string, number] => [other, distance(name, other)]);
  return distances.toSorted(([, a], [, b]) => a - b)[0] ?? [];
}

/** Computes the Levenshtein distance of two strings. */
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
