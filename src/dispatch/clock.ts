// The database's clock, read now and then and carried on by this machine's monotonic clock: the worker's own time of day is never used.
//
// When the database said its time is known only to lie between question and answer. A quick answer sets the clock, late rather than early by the
// time that the question took: nothing that is timed by it becomes due before its time. A slow one, after a stall of the wire or of this process,
// says little: the clock is moved no further than it must have been wrong.

export interface DatabaseClock {
  /** Unix milliseconds by the database's clock; throws before the first sync. */
  now(): number;
  /** Reads the database's Unix milliseconds and follows them; repeats the first reading while answers are slow. Returns the first reading. */
  sync(ask: () => Promise<number>): Promise<number>;
}

/** An answer within this is quick: by so much, at the most, a request is signed in the future. */
const quickMs = 100;
/** So often is asked again the first time: nothing was sent yet, and there is nothing to hold a slow answer against. */
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
