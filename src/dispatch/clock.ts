// The database's clock, read regularly and advanced by this machine's monotonic clock. The machine's time of day is never used.
//
// A reading was taken at some time between question and answer. A quick answer sets the clock as of the answer, so it is late rather than early, and
// nothing becomes due before its time. After a slow answer the clock moves only as far as it must have been wrong.

export interface DatabaseClock {
  /** Unix milliseconds by the database's clock; throws before the first sync. */
  now(): number;
  /** Reads the database's Unix milliseconds and follows them; repeats the first reading while answers are slow. Returns the first reading. */
  sync(ask: () => Promise<number>): Promise<number>;
}

/** An answer within this is quick. */
const quickMs = 100;
/** How often the first reading is repeated while answers are slow: there is no earlier one to compare with. */
const firstAgain = 3;

/** `monotonic`: milliseconds. */
export function databaseClock(monotonic: () => number = () => performance.now()): DatabaseClock {
  /** Milliseconds between the database's clock and the monotonic clock. */
  let offset: number | undefined;

  const question = async (ask: () => Promise<number>, known: number | undefined) => {
    const askedAt = monotonic();
    const unixMs = await ask();
    const answeredAt = monotonic();
    const isQuick = answeredAt - askedAt <= quickMs;
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
        let again = offset === undefined ? firstAgain : 0;
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
