// Long polling for an app's next events (db/event-feed.ts explains why none is missed). A NOTIFY
// that names the app wakes waiting requests; the process opens one LISTEN connection when the first
// request waits.
import { setTimeout as pause } from 'node:timers/promises';
import { readFeed, readFeedBound, readFeedStart, type FeedRow } from '../../db/event-feed.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { DELIVERIES_QUEUED, namedIn } from '../../db/postgres/notify.ts';

/** A position in the feed. */
export interface FeedPage {
  /** Events with higher ids are new. */
  after: string;
}

/**
 * First retry delay of a woken reader that found nothing, because an older transaction is still
 * open; the delay quadruples each time.
 */
const FIRST_RETRY_MS = 50;

/** The position before every event from now on. */
export async function startFeed(sql: Sql): Promise<FeedPage> {
  return { after: await readFeedStart(sql) };
}

/** Reads apps' events and waits for them. */
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
    // Listens before the first read, so that events written after that read wake this request.
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
   * Opens the LISTEN connection once. Throws when Postgres cannot be reached; the next reader tries
   * again.
   */
  async #listen(): Promise<void> {
    const wake = (apps: readonly string[] | undefined) => {
      for (const follower of this.#followers)
        if (apps === undefined || apps.includes(follower.appId)) follower.wake();
    };
    this.#listening ??= this.#sql.listen(
      DELIVERIES_QUEUED,
      (payload) => wake(namedIn(payload).apps),
      // Called after each reconnect too: notifications may have been missed.
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

/** A request that waits for an app's events. */
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
   * Waits up to `ms` or until `signal` aborts; true when the follower was woken at any time since
   * its creation.
   */
  async woken(ms: number, signal: AbortSignal): Promise<boolean> {
    const either = AbortSignal.any([this.#notified.signal, signal]);
    await pause(ms, undefined, { signal: either }).catch(() => undefined);
    return this.#notified.signal.aborted;
  }
}
