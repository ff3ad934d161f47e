import fc from 'fast-check';
import t from 'tap';
import { backoff } from '../src/backoff.ts';

void t.test(
  'a wait is never longer than the cap, never shorter than half its ceiling, and doubles until the cap',
  (t) => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10_000 }),
        fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
        (attempt, random) => {
          const ceiling = Math.min(10_000, 100 * 2 ** (attempt - 1));
          const wait = backoff(attempt, { base: 100, cap: 10_000, random: () => random });
          return wait >= ceiling / 2 && wait <= ceiling;
        },
      ),
    );
    t.end();
  },
);
