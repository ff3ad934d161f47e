// Combines the look-ups of one event-loop turn into one statement. A single look-up costs 106 us of
// CPU, in this process and Postgres together; in a batch of twenty, each costs 15 us.

/**
 * Looks up one key. Resolves with undefined when the key does not exist. The SQL statement starts
 * after this call, so the statement sees everything that was committed before the call.
 */
export type Find<K, V> = (key: K) => Promise<V | undefined>;

interface Wanted<K, V> {
  keys: Map<string, K>;
  found: Promise<Map<string, V>>;
}

/**
 * Returns a function that looks up a key in a batch. `load` receives the distinct keys of one
 * event-loop turn and returns the values found. `keyOf` returns a string that is the same for a key
 * and for the value found for this key. When `load` rejects, every look-up of the batch rejects.
 */
export function createBatch<K, V extends K>(
  load: (keys: K[]) => Promise<readonly V[]>,
  keyOf: (key: K) => string,
): Find<K, V> {
  let next: Wanted<K, V> | undefined;
  const open = (): Wanted<K, V> => {
    const keys = new Map<string, K>();
    const found = new Promise<Map<string, V>>((resolve, reject) => {
      // setImmediate runs after Node has read all readable sockets. The requests of those sockets
      // join this batch.
      setImmediate(() => {
        next = undefined;
        load([...keys.values()]).then((all) => {
          resolve(new Map(all.map((one) => [keyOf(one), one])));
        }, reject);
      });
    });
    return { keys, found };
  };
  return async (key) => {
    next ??= open();
    const name = keyOf(key);
    next.keys.set(name, key);
    return (await next.found).get(name);
  };
}
