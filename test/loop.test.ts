import { once, EventEmitter } from 'node:events';
import t from 'tap';
import { startLoop } from '../src/loop.ts';

void t.test('a wake during a turn is not lost: another turn follows immediately', async (t) => {
  const events = new EventEmitter();
  let turns = 0;
  const loop = startLoop({
    idleMs: 3_600_000,
    turn: async () => {
      turns += 1;
      if (turns === 1) loop.wake();
      else events.emit('second');
      return false;
    },
    onError: (error) => t.fail('no turn failed', { error }),
  });
  await once(events, 'second');
  await loop.stop();
  t.equal(turns, 2);
});

void t.test(
  'a failed turn is reported with the number of consecutive failures, and the loop continues',
  async (t) => {
    const failures: number[] = [];
    const events = new EventEmitter();
    let turns = 0;
    const loop = startLoop({
      idleMs: 0,
      turn: async () => {
        turns += 1;
        if (turns < 3) throw new Error('down');
        events.emit('up');
        return false;
      },
      onError: (_error, inARow) => failures.push(inARow),
    });
    await once(events, 'up');
    await loop.stop();
    t.same(failures, [1, 2]);
  },
);

void t.test('a wake does not shorten the backoff after a failed turn', async (t) => {
  const events = new EventEmitter();
  const turns: number[] = [];
  const loop = startLoop({
    idleMs: 0,
    turn: () => {
      turns.push(performance.now());
      if (turns.length === 5) events.emit('fifth');
      return Promise.reject(new Error('down'));
    },
    onError: () => undefined,
  });
  const waking = setInterval(() => loop.wake(), 1);
  await once(events, 'fifth');
  clearInterval(waking);
  await loop.stop();
  for (const [index, least] of [50, 100, 200, 400].entries()) {
    const pause = turns[index + 1]! - turns[index]!;
    t.ok(pause >= least - 1, `${pause} ms`);
  }
});

void t.test('a stop waits for the current turn and starts no other', async (t) => {
  let finish: () => void = () => t.fail('the turn did not start');
  let turns = 0;
  let stopped = false;
  const loop = startLoop({
    idleMs: 0,
    turn: () => {
      turns += 1;
      return new Promise((resolve) => (finish = () => resolve(true)));
    },
    onError: (error) => t.fail('no turn failed', { error }),
  });
  await new Promise(setImmediate);
  const stopping = loop.stop().then(() => (stopped = true));
  await new Promise(setImmediate);
  t.equal(stopped, false);
  finish();
  await stopping;
  t.equal(turns, 1);
});
