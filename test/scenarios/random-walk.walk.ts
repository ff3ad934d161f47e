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

void t.test(
  'after sequences of random actions the books match the chain and the rules',
  { jobs: AT_ONCE },
  (t) => {
    for (const seed of seeds)
      void t.test(
        `after random actions with seed ${seed} the books match the chain and the rules`,
        async (t) => {
          const { breaches, story, payments } = await walk(t, { seed, steps: STEPS });
          t.same(breaches, [], `WALK_SEED=${seed}, ${payments} payments`, { story });
        },
      );
    t.end();
  },
);
