// The sweep behind the stream: every subscription is looked at at least every ten minutes, sooner near its due time and after the stream broke
// off. What needs doing is only noted here, by making the subscription due: it is done under a claim, like everything else (collect.ts).
import { setTimeout as pause } from 'node:timers/promises';
import { readClock } from '../db/clock.ts';
import {
  makeDue,
  readSubscriptions,
  returnUnobserved,
  takeNearlyDue,
  takeRevoked,
  takeUnobserved,
  type HeldSubscription,
} from '../db/subscriptions.ts';
import { decide, type Rules } from '../domain/decide.ts';
import { timeOf } from '../domain/network.ts';
import type { ChainClock } from './clock.ts';
import type { Context } from './context.ts';
import { type View, readViews } from './read.ts';

/** Three requests' worth: each has its subscription, authority and token account, and shares plan and receivers. */
const BATCH = 96;
/** What has not been looked at for this long is looked at when there is nothing else to do; ten minutes is the promise. */
const IDLE_AGE_SECONDS = 15;
const URGENT_AGE_SECONDS = 300;
const NEAR_MS = 15 * 60_000;
const NEAR_AGE_SECONDS = 30;
/** Between batches that are caught up with: collecting comes first. */
const CATCH_UP_PAUSE_MS = 50;
/** An approval is the token program's business, and no notice tells of it. */
const REVOKED_AGE_SECONDS = 3;

/** Whether a look at the chain tells something that the row does not know yet. Pure. */
function isNews(row: HeldSubscription, view: View, rules: Rules): boolean {
  if (view instanceof Error) return false;
  const { draft, needs } = decide(row, view, rules);
  if (needs !== undefined) return true;
  const told = draft.happenings.some(({ type }) => type !== 'payment_failed');
  const repaired = row.delegationRevokedAt !== null && draft.state.delegationRevokedAt === null;
  return told || repaired;
}

export interface Sweep {
  /** Looks at one batch; resolves with true while some are overdue. */
  turn(): Promise<boolean>;
  /** The stream was off: everything is to be looked at soon. */
  gap(): void;
  /** Looks at these now, as of `minSlot` or later: an endpoint that is behind what was heard would see nothing new. */
  look(ids: string[], minSlot?: bigint): Promise<void>;
}

/** Sweeps for `context`; `onRead` is told of every subscription that is looked at. */
export function createSweep(context: Context, clock: ChainClock, onRead?: (rows: readonly HeldSubscription[]) => void): Sweep {
  const { sql, rules, log } = context;
  let isGap = false;
  /** By the database's clock: everything is to be looked at that was not since. */
  let since: Date | undefined;

  async function look(ids: string[], minSlot?: bigint): Promise<void> {
    const rows = await readSubscriptions(sql, ids);
    if (rows.length === 0) return;
    onRead?.(rows);
    const reading = await readViews(context, rows, { minSlot });
    clock.heard(reading.now);
    const news = rows.filter((row) => isNews(row, reading.of(row), rules)).map(({ id }) => id);
    if (news.length === 0) return;
    log.debug({ subscriptions: news.length }, 'the chain has news');
    await makeDue(sql, news, timeOf(reading.now));
  }

  async function take(): Promise<string[]> {
    const now = await clock.now();
    const near = { from: now, to: new Date(now.getTime() + NEAR_MS), maxAgeSeconds: NEAR_AGE_SECONDS, limit: BATCH };
    const nearly = await takeNearlyDue(sql, near);
    if (nearly.length > 0) return nearly;
    const revoked = await takeRevoked(sql, { maxAgeSeconds: REVOKED_AGE_SECONDS, limit: BATCH });
    if (revoked.length > 0) return revoked;
    return takeUnobserved(sql, { maxAgeSeconds: IDLE_AGE_SECONDS, since, limit: BATCH });
  }

  return {
    async turn() {
      if (isGap) {
        since = new Date(await readClock(sql));
        isGap = false;
      }
      const ids = await take();
      if (ids.length === 0) {
        since = undefined;
        return false;
      }
      try {
        await look(ids);
      } catch (error) {
        await returnUnobserved(sql, ids);
        throw error;
      }
      if (since !== undefined) {
        await pause(CATCH_UP_PAUSE_MS);
        return true;
      }
      // Idle looks are taken slowly, one batch a turn; what is late is caught up with at once.
      const late = await takeUnobserved(sql, { maxAgeSeconds: URGENT_AGE_SECONDS, limit: BATCH });
      if (late.length === 0) return false;
      await look(late).catch(async (error: unknown) => {
        await returnUnobserved(sql, late);
        throw error;
      });
      await pause(CATCH_UP_PAUSE_MS);
      return true;
    },
    gap() {
      isGap = true;
    },
    look,
  };
}
