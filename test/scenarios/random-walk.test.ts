// Short random walks (test/walk); random-walk.long.ts has the long ones.
import t from 'tap';
import { walk } from '../walk/walk.ts';

void t.test('books, chain and rules agree after short random walks', { jobs: 2 }, (t) => {
  for (const seed of [16, 28])
    void t.test(`seed ${seed}`, async (t) => {
      const { breaches, story, payments } = await walk(t, { seed, steps: 20 });
      t.same(breaches, [], `WALK_SEED=${seed}, ${payments} payments`, { story });
      t.ok(payments > 0, 'keepers have collected');
    });
  t.end();
});
