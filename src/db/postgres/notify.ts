// NOTIFY to other processes. NOTIFY serialises commits, so one NOTIFY per insert cuts throughput to
// a quarter (docs/postgres-notes.md). A process therefore sends at most one NOTIFY per channel and
// interval, after its commit. Listeners also poll, so a lost notification only adds delay.
import type { Sql } from './connect.ts';
import { isId } from './ids.ts';

/** Channel for new events. Dispatchers and long-polling requests of the event feed listen. */
export const DELIVERIES_QUEUED = 'billing_deliveries';
/** Channel that wakes keepers, because a subscription may have become due. */
export const SUBSCRIPTIONS_DUE = 'billing_due';

/**
 * Maximum number of endpoints and apps that one payload names, because a payload is limited to
 * 8,000 bytes. For more endpoints and apps, the payload is empty, which means "any".
 */
const MAX_NAMED = 200;

/**
 * Text that means "any endpoint" in a payload. A sender that does not know the endpoints sends this
 * text.
 */
export const ANY_ENDPOINT = '*';

/** Returns the text that names an app in a payload. An endpoint is named by its id. */
export const appName = (appId: string): string => `@${appId}`;

export interface Notifier {
  /**
   * Schedules a notification. `names` are the endpoints and apps to notify; undefined means all of
   * them. Returns at once and never throws.
   */
  notify(names?: ReadonlySet<string>): void;
  /** Sends the pending notification, if there is one, and waits until it is sent. */
  flush(): Promise<void>;
}

/**
 * Creates a notifier that sends at most one NOTIFY per `intervalMs`. Notifications within this time
 * after a NOTIFY are sent together, as one NOTIFY, when the time has passed. The default of 10 ms
 * allows 100 NOTIFYs a second.
 */
export function createNotifier(sql: Sql, channel: string, intervalMs = 10): Notifier {
  let timer: NodeJS.Timeout | undefined;
  /**
   * The names to send with the next NOTIFY, or 'anything' for all; undefined if none is waiting.
   */
  let pending: Set<string> | 'anything' | undefined;
  let sending: Promise<unknown> = Promise.resolve();
  const send = () => {
    const payload = pending instanceof Set ? [...pending].join(' ') : '';
    pending = undefined;
    // A lost notification only delays the listeners by one poll interval.
    sending = sql.notify(channel, payload).catch(() => undefined);
    timer = setTimeout(() => {
      timer = undefined;
      if (pending !== undefined) send();
    }, intervalMs).unref();
  };
  return {
    notify(names) {
      if (names?.size === 0) return;
      pending =
        names === undefined || pending === 'anything'
          ? 'anything'
          : new Set([...(pending ?? []), ...names]);
      if (pending !== 'anything' && pending.size > MAX_NAMED) pending = 'anything';
      if (timer === undefined) send();
    },
    async flush() {
      clearTimeout(timer);
      timer = undefined;
      if (pending !== undefined) send();
      clearTimeout(timer);
      await sending;
    },
  };
}

/** The endpoints and apps named in a DELIVERIES_QUEUED payload. undefined means any. */
export interface Named {
  endpoints: string[] | undefined;
  apps: string[] | undefined;
}

/** Parses a payload. A payload in an unknown format means any endpoint and any app. */
export function namedIn(payload: string): Named {
  const names = payload.split(' ');
  const endpoints = names.filter(isId);
  const apps = names.filter((name) => name.startsWith('@')).map((name) => name.slice(1));
  const any = names.filter((name) => name === ANY_ENDPOINT);
  if (!apps.every(isId) || endpoints.length + apps.length + any.length < names.length)
    return { endpoints: undefined, apps: undefined };
  return { endpoints: any.length > 0 ? undefined : endpoints, apps };
}
