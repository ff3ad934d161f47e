// A short random walk (test/walk); random-walk.walk.ts has the long ones.
import t from 'tap';
import { walk } from '../walk/walk.ts';

void t.test(
  'after a short sequence of random actions the books match the chain and the rules',
  async (t) => {
    const { breaches, story, payments } = await walk(t, { seed: 28, steps: 20 });
    t.same(breaches, [], `${payments} payments`, { story });
    t.ok(payments > 0, 'keepers have collected');
  },
);
