// Waiting for an app's next events (db/event-feed.ts says how none is missed).
import { setTimeout as pause } from 'node:timers/promises';
import type { Sql } from '../db/connect.ts';
import { readFeed, readFeedStart, readSnapshot, type FeedPage, type FeedRow } from '../db/event-feed.ts';

export type { FeedPage };

/** Milliseconds between looks while there is nothing new. */
const lookMs = 200;

/** Where a feed begins: at what happens from now on. */
export async function startFeed(sql: Sql): Promise<FeedPage> {
  const since = await readFeedStart(sql);
  return { from: { snapshot: await readSnapshot(sql), since }, to: null, after: null };
}

/** The events after `page`, and the page after them. Waits up to `waitMs` for one, or until `signal`; then there are none. */
export async function nextEvents(
  sql: Sql,
  appId: string,
  page: FeedPage,
  { limit, waitMs, signal }: { limit: number; waitMs: number; signal: AbortSignal },
): Promise<{ rows: FeedRow[]; next: FeedPage }> {
  const deadline = performance.now() + waitMs;
  const since = await readFeedStart(sql);
  for (;;) {
    const { snapshot, rows } = await readFeed(sql, appId, page, limit);
    const seen = page.to ?? { snapshot, since };
    const last = rows.at(-1);
    if (rows.length === limit && last !== undefined) {
      return { rows, next: { from: page.from, to: seen, after: { createdAt: last.place, id: last.id } } };
    }
    const next = { from: seen, to: null, after: null };
    if (rows.length > 0) return { rows, next };
    // A last page may be empty, and more may have come since its end was seen: nobody waits for that, and "none" would not be true.
    if (page.to !== null) {
      page = next;
      continue;
    }
    const left = deadline - performance.now();
    if (left <= 0 || signal.aborted) return { rows, next };
    await pause(Math.min(lookMs, left), undefined, { signal }).catch(() => undefined);
  }
}
