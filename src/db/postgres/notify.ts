// NOTIFY to other processes. NOTIFY serialises commits (docs/postgres-notes.md: one per insert cuts
// throughput to a quarter), so each process sends at most one per channel and interval, after its
// commit. Listeners also poll, so a lost notification only adds delay.
import type { Sql } from './connect.ts';
import { isId } from './ids.ts';

/**
 * Sent when events were written. Dispatchers and long-polling requests of the event feed listen.
 */
export const DELIVERIES_QUEUED = 'billing_deliveries';
/** Sent when subscriptions became due early. Keepers listen. */
export const SUBSCRIPTIONS_DUE = 'billing_due';

/**
 * Maximum number of names per notification, whose payload is limited to 8,000 bytes. With more
 * names the payload is empty, which means "any".
 */
const MAX_NAMED = 200;

/** Payload name for "any endpoint", for callers that do not know which. */
export const ANY_ENDPOINT = '*';

/** Payload name of an app. An endpoint's name is its id. */
export const appName = (appId: string): string => `@${appId}`;

export interface Notifier {
  /**
   * Schedules a notification with these names, or for "any" without names; never throws, never
   * waits.
   */
  notify(names?: ReadonlySet<string>): void;
  /** Sends the pending notification, if any, and waits for it. */
  flush(): Promise<void>;
}

/**
 * Sends at most one NOTIFY per `intervalMs`: the first immediately, later ones coalesced. 10 ms
 * bounds a flood to 100 a second and adds no delay at 50 events a second.
 */
export function createNotifier(sql: Sql, channel: string, intervalMs = 10): Notifier {
  let timer: NodeJS.Timeout | undefined;
  /** The names of the next notification; undefined without one. */
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

/** The endpoints and apps in a payload of deliveriesQueued; undefined means any. */
export interface Named {
  endpoints: string[] | undefined;
  apps: string[] | undefined;
}

/** Parses a payload. A payload in another format means any endpoint and any app. */
export function namedIn(payload: string): Named {
  const names = payload.split(' ');
  const endpoints = names.filter(isId);
  const apps = names.filter((name) => name.startsWith('@')).map((name) => name.slice(1));
  const any = names.filter((name) => name === ANY_ENDPOINT);
  if (!apps.every(isId) || endpoints.length + apps.length + any.length < names.length)
    return { endpoints: undefined, apps: undefined };
  return { endpoints: any.length > 0 ? undefined : endpoints, apps };
}
