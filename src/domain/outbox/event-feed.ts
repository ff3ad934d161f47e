// Long polling for the next events of an app. A NOTIFY with the name of the app wakes the requests
// that wait for the app's events. When the first request waits, the process opens its only LISTEN
// connection. db/delivering/event-feed.ts explains why no event is missed.
import { setTimeout as pause } from 'node:timers/promises';
import {
  readFeed,
  readFeedBound,
  readFeedStart,
  type FeedRow,
} from '../../db/delivering/event-feed.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { DELIVERIES_QUEUED, namedIn } from '../../db/postgres/notify.ts';

/** A position in the event feed of an app. */
export interface FeedPage {
  /** An event id. The events after this position have higher ids. */
  after: string;
}

/**
 * If a woken request finds no event, the request looks again after this delay (ms), because an
 * event stays hidden while an older transaction is open. Each further delay is four times as long.
 */
const FIRST_RETRY_MS = 50;

/** Returns the current end of the feed. All events from now on come after this position. */
export async function startFeed(sql: Sql): Promise<FeedPage> {
  return { after: await readFeedStart(sql) };
}

/** Reads the events of apps, and waits for new events if there are none. */
export class EventFeed {
  readonly #sql: Sql;
  readonly #followers = new Set<FeedFollower>();
  #listening: Promise<unknown> | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /**
   * Returns the events after `page`, and the position after these events. If there are no events
   * yet, waits for the first event for up to `waitMs` milliseconds, or until `signal` aborts.
   */
  async next(
    appId: string,
    { after }: FeedPage,
    { limit, waitMs, signal }: { limit: number; waitMs: number; signal: AbortSignal },
  ): Promise<{ rows: FeedRow[]; next: FeedPage }> {
    const deadline = performance.now() + waitMs;
    // LISTEN starts before the first read, so that every event written after this read wakes the
    // request.
    if (waitMs > 0) await this.#listen();
    const follower = new FeedFollower(appId);
    if (waitMs > 0) this.#followers.add(follower);
    try {
      let retryMs: number | undefined;
      for (;;) {
        const bound = await readFeedBound(this.#sql);
        const rows = await readFeed(this.#sql, appId, { after, bound, limit });
        const last = rows.at(-1);
        if (last !== undefined) return { rows, next: { after: last.id } };
        const leftMs = deadline - performance.now();
        if (leftMs <= 0 || signal.aborted) return { rows, next: { after } };
        if (retryMs === undefined) {
          if (await follower.woken(leftMs, signal)) retryMs = FIRST_RETRY_MS;
        } else {
          await pause(Math.min(retryMs, leftMs), undefined, { signal }).catch(() => undefined);
          retryMs *= 4;
        }
      }
    } finally {
      this.#followers.delete(follower);
    }
  }

  /**
   * Opens the LISTEN connection if it is not open yet. Throws when Postgres cannot be reached; the
   * next request then tries again.
   */
  async #listen(): Promise<void> {
    const wake = (apps: readonly string[] | undefined) => {
      for (const follower of this.#followers)
        if (apps === undefined || apps.includes(follower.appId)) follower.wake();
    };
    this.#listening ??= this.#sql.listen(
      DELIVERIES_QUEUED,
      (payload) => wake(namedIn(payload).apps),
      // This callback also runs after each reconnect. Notifications may have been missed before the
      // reconnect, so all waiting requests are woken.
      () => wake(undefined),
    );
    try {
      await this.#listening;
    } catch (error) {
      this.#listening = undefined;
      throw error;
    }
  }
}

/** A request that waits for new events of an app. */
class FeedFollower {
  readonly appId: string;
  readonly #notified = new AbortController();

  constructor(appId: string) {
    this.appId = appId;
  }

  wake(): void {
    this.#notified.abort();
  }

  /**
   * Waits until a notification wakes the request, for up to `ms` milliseconds or until `signal`
   * aborts. Resolves with true if a notification has woken the request at any time since its
   * creation.
   */
  async woken(ms: number, signal: AbortSignal): Promise<boolean> {
    const either = AbortSignal.any([this.#notified.signal, signal]);
    await pause(ms, undefined, { signal: either }).catch(() => undefined);
    return this.#notified.signal.aborted;
  }
}
