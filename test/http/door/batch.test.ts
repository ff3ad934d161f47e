// Lookups of one turn of the event loop go out together, and none of them sees less than it would
// have alone.
import t from 'tap';
import { createBatch } from '../../../src/http/door/batch.ts';

interface Row {
  id: string;
  version: number;
}

void t.test(
  'concurrent lookups are combined into one query with distinct keys; each caller gets its row',
  async (t) => {
    const loaded: string[][] = [];
    const find = createBatch<{ id: string }, Row>(
      async (keys) => {
        loaded.push(keys.map(({ id }) => id));
        return keys.filter(({ id }) => id !== 'none').map(({ id }) => ({ id, version: 1 }));
      },
      ({ id }) => id,
    );
    const found = await Promise.all(['a', 'b', 'a', 'none'].map((id) => find({ id })));
    t.same(
      found.map((row) => row?.id),
      ['a', 'b', 'a', undefined],
    );
    t.same(loaded, [['a', 'b', 'none']]);
    await find({ id: 'a' });
    t.equal(loaded.length, 2, 'nothing is cached');
  },
);

void t.test(
  'a lookup during a running query starts a new one, so that it sees earlier writes',
  async (t) => {
    let version = 1;
    const answers: (() => void)[] = [];
    const find = createBatch<{ id: string }, Row>(
      (keys) => {
        const rows = keys.map(({ id }) => ({ id, version }));
        return new Promise((resolve) => answers.push(() => resolve(rows)));
      },
      ({ id }) => id,
    );
    const first = find({ id: 'a' });
    await new Promise(setImmediate);
    version = 2;
    const second = find({ id: 'a' });
    await new Promise(setImmediate);
    t.equal(answers.length, 2);
    for (const answer of answers) answer();
    t.equal((await first)?.version, 1);
    t.equal((await second)?.version, 2);
  },
);

void t.test(
  'a failed query fails every lookup in it, and the next lookup starts a new query',
  async (t) => {
    let broken = true;
    const find = createBatch<{ id: string }, Row>(
      async (keys) => {
        if (broken) throw new Error('gone');
        return keys.map(({ id }) => ({ id, version: 1 }));
      },
      ({ id }) => id,
    );
    await Promise.all(['a', 'b'].map((id) => t.rejects(find({ id }), { message: 'gone' })));
    broken = false;
    t.match(await find({ id: 'a' }), { id: 'a' });
  },
);
