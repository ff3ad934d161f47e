import t from 'tap';
import { each } from '../src/each.ts';

/** Work that the test completes. */
function gates() {
  const begun: number[] = [];
  const ends = new Map<number, { resolve: () => void; reject: (error: Error) => void }>();
  const work = (item: number) => {
    begun.push(item);
    return new Promise<void>((resolve, reject) => ends.set(item, { resolve, reject }));
  };
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  return { begun, ends, work, settled };
}

void t.test(
  'each() starts items in order, at most the limit at a time, and starts the next when an item ends',
  async (t) => {
    const { begun, ends, work, settled } = gates();
    const all = each([1, 2, 3, 4, 5], 2, work);
    t.same(begun, [1, 2]);
    ends.get(2)!.resolve();
    await settled();
    t.same(begun, [1, 2, 3]);
    for (const item of [1, 3]) ends.get(item)!.resolve();
    await settled();
    t.same(begun, [1, 2, 3, 4, 5]);
    for (const item of [4, 5]) ends.get(item)!.resolve();
    await all;
  },
);

void t.test('each() processes falsy items and resolves for an empty list', async (t) => {
  const seen: unknown[] = [];
  await each([0, '', null, false], 3, async (item) => void seen.push(item));
  t.same(seen, [0, '', null, false]);
  await each([], 3, async () => {
    t.fail('there is nothing');
  });
});

void t.test(
  'each() throws the first error at once, and handles errors of work that already started',
  async (t) => {
    const { begun, ends, work, settled } = gates();
    const all = each([1, 2, 3], 2, work);
    ends.get(1)!.reject(new Error('first'));
    await t.rejects(all, { message: 'first' });
    ends.get(2)!.resolve();
    await settled();
    t.same(begun, [1, 2, 3], 'the other lane goes on');
    ends.get(3)!.reject(new Error('later'));
    await settled();
  },
);
