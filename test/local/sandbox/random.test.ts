import t from 'tap';
import { seeded } from '../../../src/local/sandbox/random.ts';

void t.test(
  'the same seed gives the same choices, a different seed gives different choices',
  (t) => {
    const choices = (seed: number) => {
      const random = seeded(seed);
      return [
        random.below(1000),
        random.pick(['a', 'b', 'c', 'd']),
        random.seed32().toString('hex'),
      ];
    };
    t.same(choices(1), choices(1));
    t.notSame(choices(1), choices(2));
    t.throws(() => seeded(1).pick([]), RangeError);
    t.end();
  },
);

void t.test('random numbers below n include every value and no other', (t) => {
  const random = seeded(7);
  const seen = new Set(Array.from({ length: 1000 }, () => random.below(6)));
  t.same([...seen].sort(), [0, 1, 2, 3, 4, 5]);
  t.end();
});
