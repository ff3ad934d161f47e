// Polls data for a screen and reports its freshness.
import { messageOf } from '../../errors.ts';
import { startLoop } from '../../loop.ts';
import type { Part } from './line.tsx';
import { safeText } from './safe-text.ts';
import { moment, span } from './time.ts';

export interface Polling {
  /** Polls now. */
  look(): void;
  stop(): void;
  stopped(): boolean;
}

/**
 * Polls until stopped and reports the freshness when a poll begins, publishes, ends or fails. When
 * `read` returns true, the next poll starts at once. The pause between polls is at least ten times
 * the duration of the last one.
 */
export function startPolling(
  read: (publish: () => void) => Promise<boolean>,
  tell: (freshness: Freshness) => void,
  idleMs = 1000,
): Polling {
  let stopped = false;
  let took = 0;
  let fresh: Freshness = { asOf: null, askedAt: null, trouble: null };
  const say = (change: Partial<Freshness>) => {
    fresh = { ...fresh, ...change };
    if (!stopped) tell(fresh);
  };
  const loop = startLoop({
    idleMs: () => Math.max(idleMs, 10 * took),
    async turn() {
      const began = Date.now();
      say({ askedAt: new Date(began) });
      const again = await read(() => say({}));
      took = Date.now() - began;
      say({ asOf: new Date(), askedAt: null, trouble: null });
      return again;
    },
    onError: (error) => say({ askedAt: null, trouble: messageOf(error) }),
  });
  return {
    look: () => loop.wake(),
    stop() {
      stopped = true;
      void loop.stop();
    },
    stopped: () => stopped,
  };
}

/** Age of the data on the screen. */
export interface Freshness {
  /** When it was read; null before the first answer. */
  asOf: Date | null;
  /** When the poll started that has no result yet. */
  askedAt: Date | null;
  /** The reason why the last poll failed. */
  trouble: string | null;
}

// A poll that takes longer is shown.
const SLOW_MS = 2000;

/** The age of the data on the screen, and the error of the last poll. */
export function freshness({ asOf, askedAt, trouble }: Freshness, now: Date): Part {
  const waiting = askedAt === null ? 0 : now.getTime() - askedAt.getTime();
  const age = asOf === null ? 'nothing read yet' : `as of ${moment(asOf).slice(11)}`;
  const old = asOf === null ? age : `${age}, ${span(now.getTime() - asOf.getTime())} ago`;
  if (trouble !== null) return { text: `${old} · ${safeText(trouble)}`, tone: 'bad' };
  if (waiting > SLOW_MS)
    return { text: `${old} · waiting for Postgres for ${span(waiting)}`, tone: 'warn' };
  return { text: asOf === null ? 'reading' : `live, ${age} UTC`, tone: 'dim' };
}
