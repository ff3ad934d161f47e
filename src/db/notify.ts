// Waking other processes. A NOTIFY serialises commits (docs/postgres-notes.md: one on each insert cuts the producer to a quarter), so each process sends
// at most one per channel and interval, after its commit; listeners poll behind it.
import type { Sql } from './connect.ts';
import { isId } from './ids.ts';

/** Events were written: dispatchers and requests that wait for an app's events listen. */
export const deliveriesQueued = 'billing_deliveries';
/** Subscriptions became due before their time: keepers listen. */
export const subscriptionsDue = 'billing_due';

/** More are not named in one notification, whose payload may have 8,000 bytes: it is then about anything. */
const namedAtMost = 200;

/** Names any endpoint, where the caller does not know which. */
export const anyEndpoint = '*';

/** The name of an app whose events were written; an endpoint's name is its id. */
export const appName = (appId: string): string => `@${appId}`;

export interface Notifier {
  /** Asks for one notification soon, about what has these names, or about anything where they are not known; never throws, never waits. */
  notify(names?: ReadonlySet<string>): void;
  /** Sends what is still owed. */
  flush(): Promise<void>;
}

/**
 * At most one NOTIFY per `intervalMs`; the first goes out at once and the last is never dropped, only late. 10 ms: at 50 events a second none waits,
 * where one in 50 ms would make half of them wait for 20, and a flood of events makes 100 a second.
 */
export function createNotifier(sql: Sql, channel: string, intervalMs = 10): Notifier {
  let timer: NodeJS.Timeout | undefined;
  /** The names of the next notification; undefined when none is to be sent. */
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
    notify(names) {
      if (names?.size === 0) return;
      owed =
        names === undefined || owed === 'anything'
          ? 'anything'
          : new Set([...(owed ?? []), ...names]);
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

/** What a notification of deliveriesQueued is about; undefined stands for any. */
export interface Named {
  endpoints: string[] | undefined;
  apps: string[] | undefined;
}

/** Reads a payload. One that is not of a notifier may be about anything. */
export function namedIn(payload: string): Named {
  const names = payload.split(' ');
  const endpoints = names.filter(isId);
  const apps = names.filter((name) => name.startsWith('@')).map((name) => name.slice(1));
  const any = names.filter((name) => name === anyEndpoint);
  if (!apps.every(isId) || endpoints.length + apps.length + any.length < names.length)
    return { endpoints: undefined, apps: undefined };
  return { endpoints: any.length > 0 ? undefined : endpoints, apps };
}
