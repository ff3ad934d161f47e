// Reading something over and over for a screen, and telling how fresh it is.
import { messageOf } from '../errors.ts';
import { startLoop } from '../loop.ts';
import type { Freshness } from '../ui/freshness.ts';

export interface Watching {
  /** Reads again now. */
  look(): void;
  stop(): void;
  stopped(): boolean;
}

/**
 * Reads again and again until stopped, and tells how fresh that is: when a reading begins, whenever it publishes, when it ends or fails. `read` may ask
 * for another reading at once by answering true. At most a tenth of the time goes into reading, however slow it is.
 */
export function startWatching(
  read: (publish: () => void) => Promise<boolean>,
  tell: (freshness: Freshness) => void,
  idleMs = 1000,
): Watching {
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
    onError(error) {
      const message = messageOf(error);
      say({
        askedAt: null,
        trouble: message.startsWith('Postgres') ? message : `Postgres: ${message}`,
      });
    },
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
