// Polls data for a screen and reports its freshness.
import { messageOf } from '../../errors.ts';
import { startLoop } from '../../loop.ts';
import type { Freshness } from './freshness.ts';

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
