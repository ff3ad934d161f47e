// Waking other processes. A NOTIFY serialises commits (measured.md: one on each insert cuts the producer to a quarter), so each process sends
// at most one per channel and interval, after its commit; listeners poll behind it.
import type { Sql } from './connect.ts';
import { isId } from './ids.ts';

/** Deliveries were queued: dispatchers listen. */
export const deliveriesQueued = 'billing_deliveries';
/** Subscriptions became due before their time: keepers listen. */
export const subscriptionsDue = 'billing_due';

/** More are not named in one notification, whose payload may have 8,000 bytes: it is then about anything. */
const namedAtMost = 200;

export interface Notifier {
  /** Asks for one notification soon, about the rows with these ids, or about anything where they are not known; never throws, never waits. */
  notify(ids?: ReadonlySet<string>): void;
  /** Sends what is still owed. */
  flush(): Promise<void>;
}

/**
 * At most one NOTIFY per `intervalMs`; the first goes out at once and the last is never dropped, only late. 10 ms: at 50 events a second none waits,
 * where one in 50 ms would make half of them wait for 20, and a flood of events makes 100 a second.
 */
export function createNotifier(sql: Sql, channel: string, intervalMs = 10): Notifier {
  let timer: NodeJS.Timeout | undefined;
  /** What the next notification is about; undefined when there is none to send. */
  let owed: Set<string> | 'anything' | undefined;
  let sending: Promise<unknown> = Promise.resolve();
  const send = () => {
    const payload = owed instanceof Set ? [...owed].join(' ') : '';
    owed = undefined;
    // A lost notification only costs the listeners one poll interval.
    sending = sql.notify(channel, payload).catch(() => undefined);
    timer = setTimeout(() => {
      timer = undefined;
      if (owed !== undefined) send();
    }, intervalMs).unref();
  };
  return {
    notify(ids) {
      if (ids?.size === 0) return;
      owed = ids === undefined || owed === 'anything' ? 'anything' : new Set([...(owed ?? []), ...ids]);
      if (owed !== 'anything' && owed.size > namedAtMost) owed = 'anything';
      if (timer === undefined) send();
    },
    async flush() {
      clearTimeout(timer);
      timer = undefined;
      if (owed !== undefined) send();
      clearTimeout(timer);
      await sending;
    },
  };
}

/** The ids that a notification is about; undefined when it may be about anything. */
export function idsIn(payload: string): string[] | undefined {
  const ids = payload.split(' ');
  return ids.every(isId) ? ids : undefined;
}
