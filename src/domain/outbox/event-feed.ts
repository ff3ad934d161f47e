// Long polling for an app's next events (db/event-feed.ts explains why no event is missed). A
// NOTIFY that names the app wakes its waiting requests. The process opens one LISTEN connection
// when the first request waits.
import { setTimeout as pause } from 'node:timers/promises';
import { readFeed, readFeedBound, readFeedStart, type FeedRow } from '../../db/event-feed.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { DELIVERIES_QUEUED, namedIn } from '../../db/postgres/notify.ts';

/** A position in the event feed of an app. */
export interface FeedPage {
  /** Events with higher ids come after this position. */
  after: string;
}

/**
 * First delay (ms) before a woken reader reads again, after it found no event because an older
 * transaction is still open. The delay quadruples with each retry.
 */
const FIRST_RETRY_MS = 50;

/** The position from which the feed starts: all events from now on come after it. */
export async function startFeed(sql: Sql): Promise<FeedPage> {
  return { after: await readFeedStart(sql) };
}

/** Reads the events of apps, and waits for new events. */
export class EventFeed {
  readonly #sql: Sql;
  readonly #followers = new Set<FeedFollower>();
  #listening: Promise<unknown> | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /**
   * The events after `page` and the position after them. Waits for the first event up to `waitMs`
   * or until `signal` aborts.
   */
  async next(
    appId: string,
    { after }: FeedPage,
    { limit, waitMs, signal }: { limit: number; waitMs: number; signal: AbortSignal },
  ): Promise<{ rows: FeedRow[]; next: FeedPage }> {
    const deadline = performance.now() + waitMs;
    // Listen before the first read, so that events written after this read wake the request.
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
   * Opens the LISTEN connection once. Throws when Postgres cannot be reached; the next request then
   * tries again.
   */
  async #listen(): Promise<void> {
    const wake = (apps: readonly string[] | undefined) => {
      for (const follower of this.#followers)
        if (apps === undefined || apps.includes(follower.appId)) follower.wake();
    };
    this.#listening ??= this.#sql.listen(
      DELIVERIES_QUEUED,
      (payload) => wake(namedIn(payload).apps),
      // Also called after each reconnect, because notifications may have been missed meanwhile.
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

/** Represents one request that waits for an app's events. */
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
   * Waits until a notification wakes the follower, for up to `ms` or until `signal` aborts.
   * Resolves with true when the follower was woken at any time since its creation.
   */
  async woken(ms: number, signal: AbortSignal): Promise<boolean> {
    const either = AbortSignal.any([this.#notified.signal, signal]);
    await pause(ms, undefined, { signal: either }).catch(() => undefined);
    return this.#notified.signal.aborted;
  }
}
