// The database's clock, read regularly and extrapolated with this machine's monotonic clock. The
// machine's wall clock is never used.
//
// A reading was taken at some time between request and response. After a quick response the clock
// assumes the time of the request, so it is ahead by at most the round trip, and no retry becomes
// due early. After a slow response it moves only as far as it must have been wrong.

export interface DatabaseClock {
  /** Unix milliseconds by the database's clock; throws before the first sync. */
  now(): number;
  /**
   * Reads the database's Unix milliseconds and adjusts the clock; repeats the first sync while
   * responses are slow. Returns the first reading.
   */
  sync(ask: () => Promise<number>): Promise<number>;
}

/** Longest round trip of a quick response. */
const QUICK_MS = 100;
/**
 * Repetitions of the first sync while responses are slow, because there is no earlier reading to
 * compare with.
 */
const FIRST_AGAIN = 3;

/** `monotonic`: a monotonic clock in milliseconds. */
export function databaseClock(monotonic: () => number = () => performance.now()): DatabaseClock {
  /** Milliseconds between the database's clock and the monotonic clock. */
  let offset: number | undefined;

  const question = async (ask: () => Promise<number>, known: number | undefined) => {
    const askedAt = monotonic();
    const unixMs = await ask();
    const answeredAt = monotonic();
    const isQuick = answeredAt - askedAt <= QUICK_MS;
    const [least, most] = [unixMs - answeredAt, unixMs - askedAt];
    return {
      unixMs,
      isQuick,
      offset: isQuick || known === undefined ? most : Math.min(Math.max(known, least), most),
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
