import t from 'tap';
import type { Outcome } from '../../src/db/deliveries.ts';
import { createRecorder } from '../../src/dispatch/recorder.ts';

const outcome = (number: number): Outcome => ({
  id: `delivery ${number}`,
  endpointId: 'a',
  claimId: 'b',
  attempts: 0,
  status: 'delivered',
  dueAt: null,
  attempt: null,
});

/** A recorder whose writes end when they are told to. */
function recording() {
  const errors: number[] = [];
  const writes: { ids: string[]; end: (error?: Error) => void }[] = [];
  let onWrite = () => {};
  const recorder = createRecorder({
    write: (outcomes) =>
      new Promise<void>((resolve, reject) => {
        const end = (error?: Error) => {
          if (error === undefined) resolve();
          else reject(error);
        };
        writes.push({ ids: outcomes.map(({ id }) => id), end });
        onWrite();
      }),
    onError: (_error, failures) => errors.push(failures),
  });
  let made = 0;
  return {
    recorder,
    errors,
    add: (count: number) => {
      for (let n = 0; n < count; n += 1) recorder.add(outcome((made += 1)));
    },
    /** The next write that begins, or has begun. */
    begun: async () => {
      while (writes.length === 0) await new Promise<void>((resolve) => (onWrite = resolve));
      return writes.shift()!;
    },
  };
}

void t.test(
  'what ends while a batch is written makes the next; where much waits, a second batch is written beside the first',
  async (t) => {
    const { recorder, add, begun } = recording();
    add(3);
    const first = await begun();
    t.same(first.ids, ['delivery 1', 'delivery 2', 'delivery 3'], 'all of one turn');
    add(1500);
    const second = await begun();
    t.equal(second.ids.length, 1000, 'the first is still being written');
    t.equal(recorder.waiting, 1503);
    first.end();
    const third = await begun();
    t.equal(third.ids.length, 500);
    add(2000);
    await new Promise(setImmediate);
    t.equal(recorder.waiting, 3500, 'and no third one');
    second.end();
    third.end();
    (await begun()).end();
    (await begun()).end();
    await recorder.settled();
    t.equal(recorder.waiting, 0);
  },
);

void t.test('what cannot be written is kept, each once, and settled when it is written', async (t) => {
  const { recorder, errors, add, begun } = recording();
  add(1);
  const first = await begun();
  add(900);
  const second = await begun();
  first.end(new Error('the database is away'));
  second.end(new Error('the database is away'));
  let settled = false;
  const whenSettled = recorder.settled().then(() => (settled = true));
  const written: string[] = [];
  while (written.length < 901) {
    t.equal(settled, false);
    const { ids, end } = await begun();
    written.push(...ids);
    end();
  }
  await whenSettled;
  t.same(errors, [1, 1]);
  t.equal(new Set(written).size, 901);
  add(1);
  (await begun()).end();
  await recorder.settled();
  t.equal(recorder.waiting, 0, 'and on with the next');
});
