// Waking other processes. A NOTIFY serialises commits (measured.md: one on each insert cuts the producer to a quarter), so each process sends
// at most one per channel and interval, after its commit; listeners poll behind it.
import type { Sql } from './connect.ts';

/** Deliveries were queued: dispatchers listen. */
export const deliveriesQueued = 'billing_deliveries';
/** Subscriptions became due before their time: keepers listen. */
export const subscriptionsDue = 'billing_due';

export interface Notifier {
  /** Asks for one notification soon; never throws, never waits. */
  notify(): void;
  /** Sends what is still owed. */
  flush(): Promise<void>;
}

/**
 * At most one NOTIFY per `intervalMs`; the first goes out at once and the last is never dropped, only late. 10 ms: at 50 events a second none waits,
 * where one in 50 ms would make half of them wait for 20, and a flood of events makes 100 a second.
 */
export function createNotifier(sql: Sql, channel: string, intervalMs = 10): Notifier {
  let timer: NodeJS.Timeout | undefined;
  let owed = false;
  let sending: Promise<unknown> = Promise.resolve();
  const send = () => {
    owed = false;
    // A lost notification only costs the listeners one poll interval.
    sending = sql.notify(channel, '').catch(() => undefined);
    timer = setTimeout(() => {
      timer = undefined;
      if (owed) send();
    }, intervalMs).unref();
  };
  return {
    notify() {
      if (timer === undefined) send();
      else owed = true;
    },
    async flush() {
      clearTimeout(timer);
      timer = undefined;
      if (owed) send();
      clearTimeout(timer);
      await sending;
    },
  };
}
