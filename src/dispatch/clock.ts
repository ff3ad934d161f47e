// Estimates the database's clock: reads it regularly and extrapolates the reading with this
// machine's monotonic clock. The machine's wall clock is never used.
//
// Postgres reads its clock at some time between request and response. If the response is quick, the
// estimate assumes that Postgres read the clock at the time of the request. The estimate is then
// ahead of the database's clock by at most the round trip, and never behind it. Retries are
// scheduled with the estimate, so no retry becomes due too early. If the response is slow, the
// estimate changes only if it contradicts the reading.

export interface DatabaseClock {
  /** Current Unix milliseconds by the database's clock. Throws before the first sync. */
  now(): number;
  /**
   * Reads the database's clock (Unix milliseconds) with `ask`, adjusts the estimate and returns the
   * reading. The first sync repeats slow readings, because an estimate from a slow reading is bad.
   * It still returns its first reading.
   */
  sync(ask: () => Promise<number>): Promise<number>;
}

/** Maximum round trip (ms) of a quick response. */
const QUICK_MS = 100;
/**
 * Maximum number of times that the first sync repeats a slow reading. The first sync has no earlier
 * estimate, and an estimate from only a slow reading is bad.
 */
const FIRST_AGAIN = 3;

/** Creates the clock. `monotonic` is a monotonic clock in milliseconds. */
export function databaseClock(monotonic: () => number = () => performance.now()): DatabaseClock {
  /** Database's clock minus monotonic clock, in milliseconds. */
  let offset: number | undefined;

  const question = async (ask: () => Promise<number>, estimate: number | undefined) => {
    const askedAt = monotonic();
    const unixMs = await ask();
    const answeredAt = monotonic();
    const isQuick = answeredAt - askedAt <= QUICK_MS;
    const [least, most] = [unixMs - answeredAt, unixMs - askedAt];
    return {
      unixMs,
      isQuick,
      offset: isQuick || estimate === undefined ? most : Math.min(Math.max(estimate, least), most),
    };
  };

  return {
    now() {
      if (offset === undefined) throw new Error('the database clock was not read yet');
      return monotonic() + offset;
    },
    async sync(ask) {
      let answer = await question(ask, offset);
      const { unixMs } = answer;
      for (
        let again = offset === undefined ? FIRST_AGAIN : 0;
        again > 0 && !answer.isQuick;
        again -= 1
      ) {
        answer = await question(ask, answer.offset);
      }
      offset = answer.offset;
      return unixMs;
    },
  };
}
