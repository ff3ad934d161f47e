/**
 * Random choices that a seed determines. The same seed gives the same choices, so a scenario can be
 * repeated.
 */
export interface Random {
  /** Returns a random whole number from 0 to n - 1. */
  below(n: number): number;
  /** Returns a random item of `items`. Throws a RangeError when `items` is empty. */
  pick<T>(items: readonly T[]): T;
  /** Returns 32 random bytes, the seed of a keypair. */
  seed32(): Buffer;
}

/**
 * Creates a random number generator from a seed (mulberry32 by Tommy Ettinger, public domain). Its
 * 32 bits of state are enough for the few random choices of a scenario.
 */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  const below = (n: number) => Math.floor((next() / 2 ** 32) * n);
  return {
    below,
    pick(items) {
      const item = items[below(items.length)];
      if (item === undefined) throw new RangeError('nothing to pick from');
      return item;
    },
    seed32: () => Buffer.from(Array.from({ length: 32 }, () => below(256))),
  };
}
