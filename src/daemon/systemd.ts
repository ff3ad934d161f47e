// Notifies systemd of a daemon's state: READY=1 when the daemon is ready, WATCHDOG=1 regularly,
// STATUS= with a text, and STOPPING=1. Node has no Unix datagram sockets, so the program
// systemd-notify sends each message. systemd accepts messages from all processes of the unit
// (NotifyAccess=all). To find the unit of a message, systemd needs a running sender, so
// systemd-notify waits until systemd has processed the message.
import { execFile } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Supervision } from '../config/supervision.ts';
import { messageOf } from '../errors.ts';
import type { Readiness } from './metrics.ts';

const execute = promisify(execFile);

/**
 * Milliseconds between readiness checks: STARTING_MS until the daemon is ready for the first time,
 * and at most IDLE_MS afterwards.
 */
const STARTING_MS = 200;
const IDLE_MS = 10_000;
/** Milliseconds that systemd-notify may take to send one message. */
const MESSAGE_MS = 5000;
/** Maximum milliseconds for which stop() waits for the current readiness check or message. */
const LAST_MS = 1000;

export interface Notifying {
  /** Sends STOPPING=1 and resolves when systemd-notify has sent this message. Never rejects. */
  stop(): Promise<void>;
}

/**
 * Notifies systemd until stop() is called. Once the daemon has been ready, WATCHDOG=1 follows every
 * readiness check that returns, even a check that returns a problem. Without WATCHDOG=1 systemd
 * would restart the daemon, and a restart would not fix an outage of Postgres or the chain. When
 * several messages in a row fail, `onError` is called only for the first failure.
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
      // The wait for the current check is limited to LAST_MS, because the readiness check may hang.
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
