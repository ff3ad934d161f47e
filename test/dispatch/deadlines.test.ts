import t from 'tap';
import { createDeadlines, type Deadline } from '../../src/dispatch/deadlines.ts';

void t.test('deadlines pass in the order in which they were started; what was stopped, wherever it stood, does not', async (t) => {
  const deadlines = createDeadlines(20);
  const passed: number[] = [];
  const started: Deadline[] = [];
  const ended = new Promise<void>((resolve) => {
    for (let number = 0; number < 8; number += 1) {
      const deadline = deadlines.start(() => {
        passed.push(number);
        // One that is stopped while the others pass, and one that has passed already.
        if (number === 2) for (const other of [1, 2, 4]) deadlines.stop(started[other]);
        if (number === 6) resolve();
      });
      started.push(deadline);
    }
  });
  for (const number of [0, 3, 7, 3]) deadlines.stop(started[number]);
  deadlines.stop(undefined);
  // The timer does not keep the process alive.
  const alive = setTimeout(() => undefined, 60_000);
  await ended;
  t.same(passed, [1, 2, 5, 6]);
  await new Promise<void>((resolve) => deadlines.start(resolve));
  clearTimeout(alive);
  t.same(passed, [1, 2, 5, 6], 'and it begins anew');
});
