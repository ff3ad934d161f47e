// Notifies systemd of a daemon's state: READY=1 once it can work, WATCHDOG=1, STATUS= as text,
// STOPPING=1.
//
// Node has no Unix datagram sockets, so each message is sent by the systemd-notify program. That
// waits until systemd has processed the message, because systemd cannot assign a sender that has
// already exited to a unit (NotifyAccess=all).
import { execFile } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Supervision } from '../config/supervision.ts';
import { messageOf } from '../errors.ts';
import type { Readiness } from './metrics.ts';

const execute = promisify(execFile);

/** Poll interval (ms) of the readiness before READY=1, and afterwards without a watchdog. */
const STARTING_MS = 200;
const IDLE_MS = 10_000;
/** Timeout of one message in milliseconds. */
const MESSAGE_MS = 5000;
/** Time (ms) that stop() waits for the current check or message. */
const LAST_MS = 1000;

export interface Notifying {
  /** Sends STOPPING=1 and resolves once it is sent; never rejects. */
  stop(): Promise<void>;
}

/**
 * Notifies the supervisor until stop(). The watchdog is fed whenever the readiness check returns,
 * even with a problem, because a restart does not fix an outage of Postgres or the chain. `onError`
 * gets the first of consecutive failures.
 */
export function startNotifying(
  { socket, watchdogMs, path }: Supervision,
  ready: Readiness,
  onError: (reason: string) => void,
): Notifying {
  const stopping = new AbortController();
  let failing = false;

  const notify = async (...assignments: string[]): Promise<boolean> => {
    try {
      await execute('systemd-notify', assignments, {
        env: { NOTIFY_SOCKET: socket, PATH: path },
        timeout: MESSAGE_MS,
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
    let isReadyReported = false;
    let reported: string | undefined;
    for (;;) {
      const reason = await reasonOf(ready);
      if (stopping.signal.aborted) return;
      const assignments: string[] = [];
      const isReady: boolean = isReadyReported || reason === undefined;
      if (isReady && !isReadyReported) assignments.push('READY=1');
      if (isReady && watchdogMs !== undefined) assignments.push('WATCHDOG=1');
      const status = (reason ?? 'ready').replaceAll(/\s+/g, ' ');
      if (status !== reported) assignments.push(`STATUS=${status}`);
      if (assignments.length > 0 && (await notify(...assignments))) {
        reported = status;
        isReadyReported = isReady;
      }
      const pause = isReady ? (watchdogMs ?? 2 * IDLE_MS) / 2 : STARTING_MS;
      await delay(Math.min(pause, IDLE_MS), undefined, { signal: stopping.signal }).catch(
        () => undefined,
      );
    }
  };
  const ended = run();

  return {
    async stop() {
      stopping.abort();
      // Bounded, because the readiness check may hang too.
      await Promise.race([ended, delay(LAST_MS, undefined, { ref: false })]);
      await notify('STOPPING=1', 'STATUS=finishing work in progress');
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
