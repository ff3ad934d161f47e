import t from 'tap';
import { databaseClock } from '../../src/dispatch/clock.ts';

/**
 * A clock, and a database with the given latencies in both directions. The database is `ahead` of
 * the monotonic clock.
 */
function clocks() {
  let monotonic = 5000;
  const database = { ahead: 1_700_000_000_000 };
  const clock = databaseClock(() => monotonic);
  return {
    clock,
    database,
    pass: (ms: number) => (monotonic += ms),
    answer: (there: number, back: number) => {
      monotonic += there;
      const said = monotonic + database.ahead;
      monotonic += back;
      return Promise.resolve(said);
    },
    /** Offset of the clock from the database. */
    error: () => clock.now() - (monotonic + database.ahead),
  };
}

void t.test(
  'a quick response of Postgres sets the delivery clock, which then advances by itself',
  async (t) => {
    const { clock, answer, pass, error } = clocks();
    t.throws(() => clock.now());
    t.equal(await clock.sync(() => answer(20, 10)), 1_700_000_005_020);
    t.equal(error(), 20);
    pass(60_000);
    t.equal(error(), 20);
    await clock.sync(() => answer(1, 0));
    t.equal(error(), 1);
  },
);

void t.test(
  'a slow response of Postgres does not set the delivery clock into the future',
  async (t) => {
    const { clock, answer, error } = clocks();
    await clock.sync(() => answer(1, 1));
    for (const [there, back, expected] of [
      [20_000, 0, 1],
      [300, 300, 1],
      [0, 20_000, 0],
    ] as const) {
      await clock.sync(() => answer(there, back));
      t.equal(error(), expected, `${there} ms there, ${back} ms back`);
    }
  },
);

void t.test(
  'the delivery clock follows the database clock as far as slow responses prove a change',
  async (t) => {
    const { clock, database, answer, error } = clocks();
    await clock.sync(() => answer(1, 1));
    database.ahead += 60_000;
    await clock.sync(() => answer(150, 50));
    t.equal(error(), -50, 'what the answer took to come back is not proven');
    database.ahead -= 120_000;
    await clock.sync(() => answer(150, 50));
    t.equal(error(), 150);
    await clock.sync(() => answer(1, 1));
    t.equal(error(), 1);
    database.ahead += 60_000;
    await clock.sync(() => answer(1, 1));
    t.equal(error(), 1);
  },
);

void t.test(
  'the first clock sync is repeated after a slow response and uses the fastest of four tries',
  async (t) => {
    const once = clocks();
    const ways = [20_000, 1];
    t.equal(
      await once.clock.sync(() => once.answer(ways.shift() ?? 0, 0)),
      1_700_000_025_000,
      'the time at which the first question was answered',
    );
    t.same(ways, []);
    t.equal(once.error(), 1);

    const always = clocks();
    const slow = [900, 150, 300, 200, 1];
    await always.clock.sync(() => always.answer(slow.shift() ?? 0, 100));
    t.same(slow, [1], 'four questions');
    t.equal(always.error(), 150, 'the best of them');
  },
);
