import t from 'tap';
import {
  AMOUNT,
  cancel,
  errorOf,
  eventsOf,
  must,
  PERIOD,
  pullOf,
  readSubscription,
  send,
  setScene,
  setTime,
  START,
  subscribe,
  initAuthority,
  newHolder,
  subscriptionOf,
  type Scene,
} from '../fixtures/program.ts';

/**
 * Pulls at a time given in seconds after START; answers the error, or the period the event names
 * and the count.
 */
function pullAt(scene: Scene, seconds: bigint, amount = AMOUNT) {
  setTime(scene, START + seconds);
  const result = send(scene, [scene.keeper], pullOf(scene, { amount }));
  if ('error' in result) return result.error;
  const [event] = eventsOf(result);
  if (event === undefined) throw new Error('no event');
  return {
    start: event.readBigInt64LE(145) - START,
    end: event.readBigInt64LE(153) - START,
    pulled: event.readBigUInt64LE(161),
  };
}

const period = (number: bigint) => ({
  start: number * PERIOD,
  end: (number + 1n) * PERIOD,
  pulled: AMOUNT,
});

void t.test(
  'a pull a second before a boundary counts for the old period, at the boundary for the new period',
  async (t) => {
    for (const [offset, number] of [
      [-1n, 0n],
      [0n, 1n],
      [1n, 1n],
    ] as const) {
      const fresh = setScene();
      t.same(pullAt(fresh, PERIOD + offset), period(number), `unpaid, ${offset} s`);
      const paid = setScene();
      t.same(pullAt(paid, 0n), period(0n));
      t.same(pullAt(paid, PERIOD + offset), number === 0n ? 400 : period(1n), `paid, ${offset} s`);
    }
  },
);

void t.test(
  'missed periods cannot be pulled: after three of them one amount is due, and the boundaries do not move',
  async (t) => {
    const scene = setScene();
    t.same(pullAt(scene, 5n), period(0n));
    t.same(pullAt(scene, 4n * PERIOD + 7n), period(4n));
    t.same(pullAt(scene, 4n * PERIOD + 8n, 1n), 400);
    t.same(pullAt(scene, 5n * PERIOD - 1n, 1n), 400);
    t.same(pullAt(scene, 5n * PERIOD), period(5n));
  },
);

void t.test('the rest of an old period is not added to the next', async (t) => {
  const scene = setScene();
  t.same(pullAt(scene, 0n, 1n), { ...period(0n), pulled: 1n });
  t.same(pullAt(scene, PERIOD, AMOUNT + 1n), 400);
  t.same(pullAt(scene, PERIOD), period(1n));
});

void t.test('a refused pull does not move the period', async (t) => {
  const scene = setScene();
  t.equal(pullAt(scene, 3n * PERIOD, AMOUNT + 1n), 400);
  t.equal(readSubscription(scene, scene.subscription)?.periodStart, START);
});

void t.test(
  'a pull at end_ts counts for the last period; a second later it is refused (501)',
  async (t) => {
    const end = 3n * PERIOD;
    const last = { start: 2n * PERIOD, end, pulled: AMOUNT };
    const scene = setScene({ endTs: START + end });
    t.same(pullAt(scene, end), last);
    t.equal(pullAt(scene, end, 1n), 400, 'no period begins at the end');
    t.equal(pullAt(scene, end + 1n, 1n), 501);
    const paid = setScene({ endTs: START + end });
    t.same(pullAt(paid, end - 1n), last);
    t.equal(pullAt(paid, end, 1n), 400);
  },
);

void t.test(
  "a plan's end within a period cuts the period short, and the event has the plan's end",
  async (t) => {
    const end = 2n * PERIOD + 100n;
    const scene = setScene({ endTs: START + end });
    t.same(pullAt(scene, end), { start: 2n * PERIOD, end, pulled: AMOUNT });
    t.equal(pullAt(scene, end + 1n, 1n), 501);
  },
);

void t.test(
  'a subscription opened in the last second of a plan can be pulled in that second',
  async (t) => {
    const scene = setScene({ endTs: START + PERIOD });
    setTime(scene, START + PERIOD);
    const late = newHolder(scene, AMOUNT);
    must(
      scene,
      [late],
      initAuthority(scene, late.publicKey),
      subscribe(scene, late.publicKey, scene.consent),
    );
    t.equal(
      errorOf(scene, [scene.keeper], pullOf(scene, { subscriber: late.publicKey })),
      undefined,
    );
    t.equal(
      errorOf(scene, [scene.keeper], pullOf(scene, { subscriber: late.publicKey, amount: 1n })),
      400,
    );
    t.equal(
      readSubscription(scene, subscriptionOf(scene.plan, late.publicKey))?.periodStart,
      START + PERIOD,
    );
  },
);

void t.test(
  "a pull while the clock shows a time before the period's start is refused (407)",
  async (t) => {
    const scene = setScene();
    t.equal(pullAt(scene, -1n), 407);
    t.same(pullAt(scene, 2n * PERIOD), period(2n));
    t.equal(pullAt(scene, 2n * PERIOD - 1n, 1n), 407);
  },
);

void t.test(
  'period boundaries are right for periods of an hour and a year, even after thousands of periods',
  async (t) => {
    for (const hours of [1n, 8760n]) {
      const scene = setScene({ periodHours: hours });
      const length = hours * 3600n;
      const result = pullAt(scene, 5000n * length + length - 1n);
      t.same(result, { start: 5000n * length, end: 5001n * length, pulled: AMOUNT });
    }
  },
);

void t.test(
  'a cancellation takes effect at the end of the running period, even if nothing was pulled in it',
  async (t) => {
    for (const [at, end] of [
      [0n, PERIOD],
      [PERIOD - 1n, PERIOD],
      [PERIOD, 2n * PERIOD],
      [4n * PERIOD + 9n, 5n * PERIOD],
    ] as const) {
      for (const paid of [true, false]) {
        const scene = setScene();
        if (paid) t.same(pullAt(scene, 0n), period(0n));
        setTime(scene, START + at);
        must(scene, [scene.subscriber], cancel(scene.subscriber.publicKey, scene.plan));
        t.equal(
          (readSubscription(scene, scene.subscription)?.expiresAt ?? 0n) - START,
          end,
          `cancelled after ${at} s`,
        );
      }
    }
  },
);

void t.test("a cancellation takes effect at most one second after the plan's end", async (t) => {
  const end = PERIOD + 100n;
  for (const [at, expected] of [
    [PERIOD - 1n, PERIOD],
    [PERIOD, end + 1n],
    [end, end + 1n],
    [end + 50n, end + 1n],
  ] as const) {
    const scene = setScene({ endTs: START + end });
    setTime(scene, START + at);
    must(scene, [scene.subscriber], cancel(scene.subscriber.publicKey, scene.plan));
    t.equal(
      (readSubscription(scene, scene.subscription)?.expiresAt ?? 0n) - START,
      expected,
      `cancelled after ${at} s`,
    );
    if (at > end) continue;
    t.not(typeof pullAt(scene, expected - 1n), 'number', 'the last second before it');
    t.equal(pullAt(scene, expected), expected > end ? 501 : 508);
  }
});

void t.test(
  "a cancellation while the clock shows a time before the period's start takes effect at its end",
  async (t) => {
    const scene = setScene();
    setTime(scene, START - 10n);
    must(scene, [scene.subscriber], cancel(scene.subscriber.publicKey, scene.plan));
    t.equal(readSubscription(scene, scene.subscription)?.expiresAt, START + PERIOD);
  },
);
