// Merges the answers of URLs that share host and port. They lead to one provider, so together they
// are one witness.

/** The answer of one URL. `host` is its host and port. */
export interface Answer<T> {
  readonly host: string;
  readonly value: T;
}

/** Returns one value per host. `merge` joins the values of two URLs of one host. */
export function perHost<T>(
  answers: readonly Answer<T>[],
  merge: (value: T, other: T) => T,
): readonly T[] {
  const byHost = new Map<string, T>();
  for (const { host, value } of answers) {
    const known = byHost.get(host);
    byHost.set(host, known === undefined ? value : merge(known, value));
  }
  return [...byHost.values()];
}
