// Polls data for a screen and reports how old the data is.
import { messageOf } from '../../errors.ts';
import { startLoop } from '../../loop.ts';
import type { Part } from './line.tsx';
import { safeText } from './safe-text.ts';
import { moment, span } from './time.ts';

export interface Polling {
  /** Starts a poll now. */
  readNow(): void;
  stop(): void;
  stopped(): boolean;
}

/**
 * Polls until stopped, and reports the age of the data whenever it changes. If `read` returns true,
 * the next poll starts at once. Otherwise the pause before the next poll is `idleMs` or ten times
 * the duration of the last poll, whichever is longer.
 */
export function startPolling(
  read: (publish: () => void) => Promise<boolean>,
  report: (freshness: Freshness) => void,
  idleMs = 1000,
): Polling {
  let stopped = false;
  let took = 0;
  let fresh: Freshness = { asOf: null, waitingSince: null, failure: null };
  const update = (change: Partial<Freshness>) => {
    fresh = { ...fresh, ...change };
    if (!stopped) report(fresh);
  };
  const loop = startLoop({
    idleMs: () => Math.max(idleMs, 10 * took),
    async turn() {
      const began = Date.now();
      update({ waitingSince: new Date(began) });
      const again = await read(() => update({}));
      took = Date.now() - began;
      update({ asOf: new Date(), waitingSince: null, failure: null });
      return again;
    },
    onError: (error) => update({ waitingSince: null, failure: messageOf(error) }),
  });
  return {
    readNow: () => loop.wake(),
    stop() {
      stopped = true;
      void loop.stop();
    },
    stopped: () => stopped,
  };
}

/** How old the data on the screen is. */
export interface Freshness {
  /** End of the last successful poll; null before the first successful poll. */
  asOf: Date | null;
  /** Start of the current poll; null between polls. */
  waitingSince: Date | null;
  /** Why the last poll failed; null if it succeeded. */
  failure: string | null;
}

// If a poll takes longer than SLOW_MS, the screen shows how long the poll has been waiting.
const SLOW_MS = 2000;

/** Describes the age of the data on the screen, and the error of the last poll. */
export function freshness({ asOf, waitingSince, failure }: Freshness, now: Date): Part {
  const waiting = waitingSince === null ? 0 : now.getTime() - waitingSince.getTime();
  const age = asOf === null ? 'nothing read yet' : `as of ${moment(asOf).slice(11)}`;
  const old = asOf === null ? age : `${age}, ${span(now.getTime() - asOf.getTime())} ago`;
  if (failure !== null) return { text: `${old} · ${safeText(failure)}`, tone: 'bad' };
  if (waiting > SLOW_MS)
    return { text: `${old} · waiting for an answer for ${span(waiting)}`, tone: 'warn' };
  return { text: asOf === null ? 'reading' : `live, ${age} UTC`, tone: 'dim' };
}
