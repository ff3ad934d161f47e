import t from 'tap';
import { keeperRetryAt } from '../../../src/domain/collecting/keeper-backoff.ts';

void t.test(
  'a keeper failure is retried after 10 s, 20 s, 40 s and so on, at most 15 minutes',
  async (t) => {
    const seconds = (setbacks: number) => keeperRetryAt(1_000n, setbacks).getTime() / 1000 - 1_000;
    t.same([1, 2, 3, 4, 7, 8, 100, 1_000_000].map(seconds), [10, 20, 40, 80, 640, 900, 900, 900]);
  },
);
