// A short random walk (test/walk); random-walk.walk.ts has the long ones.
import t from 'tap';
import { walk } from '../walk/walk.ts';

void t.test('books, chain and rules agree after a short random walk', async (t) => {
  const { breaches, story, payments } = await walk(t, { seed: 28, steps: 20 });
  t.same(breaches, [], `${payments} payments`, { story });
  t.ok(payments > 0, 'keepers have collected');
});
