// Random walks (test/walk): each names its seed. WALK_SEED=7 (or 7,8,9) walks these alone,
// WALK_STEPS sets the steps.
import t from 'tap';
import { walk } from '../walk/walk.ts';

const STEPS = Number(process.env.WALK_STEPS ?? 40);
const WALKS = 12;
const AT_ONCE = 4;
const first = Math.floor(Math.random() * 1_000_000);
const seeds =
  process.env.WALK_SEED?.split(',').map(Number) ??
  Array.from({ length: WALKS }, (_, index) => first + index);

void t.test('books, chain and rules agree after random walks', { jobs: AT_ONCE }, (t) => {
  for (const seed of seeds)
    void t.test(
      `books, chain and rules agree after the random walk with seed ${seed}`,
      async (t) => {
        const { breaches, story, payments } = await walk(t, { seed, steps: STEPS });
        t.same(breaches, [], `WALK_SEED=${seed}, ${payments} payments`, { story });
      },
    );
  t.end();
});
