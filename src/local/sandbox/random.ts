/** Random choices from a seed, so that a scenario can be repeated. */
export interface Random {
  /** A whole number from 0 to n - 1. */
  below(n: number): number;
  /** One of `items`. Throws a RangeError when there are none. */
  pick<T>(items: readonly T[]): T;
  /** 32 bytes, for a key. */
  seed32(): Buffer;
}

/** mulberry32 (Tommy Ettinger, public domain): 32 bits of state are enough for a scenario. */
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
