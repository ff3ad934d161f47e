// Tells systemd how a daemon is: READY=1 once it can do its work, a sign of life for the watchdog, STATUS= in words, STOPPING=1.
//
// Node has no datagram sockets of the Unix domain, so each message goes through the systemd-notify of the machine. It waits until systemd has
// taken the message in, which is what makes it known as ours (NotifyAccess=all): a sender that is gone by then belongs to no unit any more.
import { execFile } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Supervision } from './config/supervision.ts';
import { messageOf } from './errors.ts';
import type { Readiness } from './metrics.ts';

const execute = promisify(execFile);

/** Milliseconds between looks at a daemon that is not ready yet, and at one whose supervisor wants no signs of life. */
const startingMs = 200;
const idleMs = 10_000;
/** Milliseconds that one message may take. */
const messageMs = 5000;
/** Milliseconds that the message in hand may take once the daemon stops. */
const lastMs = 1000;

export interface Notifying {
  /** Says that the daemon stops. Resolves when that is said; never rejects. */
  stop(): Promise<void>;
}

/**
 * Notifies the supervisor until stop(). The watchdog is fed while the event loop runs and the readiness check returns, whatever it returns: a restart
 * does not mend an outage of Postgres or the chain. `onError` gets the first failure of a series.
 */
export function startNotifying(
  { socket, watchdogMs, path }: Supervision,
  ready: Readiness,
  onError: (reason: string) => void,
): Notifying {
  const stopping = new AbortController();
  let failing = false;

  const tell = async (...assignments: string[]): Promise<boolean> => {
    try {
      await execute('systemd-notify', assignments, {
        env: { NOTIFY_SOCKET: socket, PATH: path },
        timeout: messageMs,
      });
      failing = false;
      return true;
    } catch (error) {
      if (!failing) onError(messageOf(error));
      failing = true;
      return false;
    }
  };

  const run = async () => {
    let toldReady = false;
    let told: string | undefined;
    for (;;) {
      const reason = await reasonOf(ready);
      if (stopping.signal.aborted) return;
      const assignments: string[] = [];
      const isReady: boolean = toldReady || reason === undefined;
      if (isReady && !toldReady) assignments.push('READY=1');
      if (isReady && watchdogMs !== undefined) assignments.push('WATCHDOG=1');
      const status = (reason ?? 'ready').replaceAll(/\s+/g, ' ');
      if (status !== told) assignments.push(`STATUS=${status}`);
      if (assignments.length > 0 && (await tell(...assignments))) {
        told = status;
        toldReady = isReady;
      }
      const pause = isReady ? (watchdogMs ?? 2 * idleMs) / 2 : startingMs;
      await delay(Math.min(pause, idleMs), undefined, { signal: stopping.signal }).catch(
        () => undefined,
      );
    }
  };
  const ended = run();

  return {
    async stop() {
      stopping.abort();
      // The check may wait for the very part that hangs.
      await Promise.race([ended, delay(lastMs, undefined, { ref: false })]);
      await tell('STOPPING=1', 'STATUS=finishing work in progress');
    },
  };
}

async function reasonOf(ready: Readiness): Promise<string | undefined> {
  try {
    return await ready();
  } catch (error) {
    return messageOf(error);
  }
}
