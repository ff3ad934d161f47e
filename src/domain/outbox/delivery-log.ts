// Reads the log of all deliveries backwards from the newest, in steps of bounded size.
import type { LogFilters, LoggedDelivery, Source, Walk, Walked } from '../../db/deliveries.ts';
import { idsBetween, LAST_ID, timeOfId } from '../../db/postgres/ids.ts';

export interface LogQuery extends LogFilters {
  /** Lower bound of the creation time, inclusive. */
  since: Date | null;
  /** Upper bound of the creation time, exclusive. */
  until: Date | null;
}

export interface LogStep {
  rows: LoggedDelivery[];
  /** All deliveries newer than this have been read; null when the log is exhausted. */
  lookedBackTo: Date | null;
  /** Start of the next step; null at the end. */
  next: string | null;
}

/** Rows read per statement: some 20 ms of Postgres's time when they are in memory. */
const WALK_ROWS = 10_000;
/** Rows returned per statement. */
const PAGE_ROWS = 500;

/**
 * Yields matching deliveries, newest first, until `limit` are found or the log is exhausted. Each
 * step runs one statement through `walk` and may find nothing.
 */
export async function* readLog(
  walk: (filters: LogFilters, walk: Walk) => Promise<Walked>,
  { since, until, ...filters }: LogQuery,
  { before = LAST_ID, limit }: { before?: string | undefined; limit: number },
): AsyncGenerator<LogStep, void, undefined> {
  const { first: from, end: bound } = idsBetween(since, until);
  let at = before < bound ? before : bound;
  const source = sourceOf(filters);
  for (let left = limit; left > 0;) {
    const page = Math.min(left, PAGE_ROWS);
    const walkedRows = filters.status === null && filters.type === null ? page : WALK_ROWS;
    const { rows, walked, walkedTo } = await walk(filters, {
      source,
      before: at,
      from,
      walk: walkedRows,
      limit: page,
    });
    left -= rows.length;
    const exhausted = walked < walkedRows;
    const next = rows.length === page ? (rows.at(-1)?.id ?? null) : exhausted ? null : walkedTo;
    yield { rows, lookedBackTo: next === null ? null : timeOfId(next), next };
    if (next === null) return;
    at = next;
  }
}

function sourceOf(filters: LogFilters): Source {
  if (filters.status === 'failed' || filters.status === 'cancelled') return 'undelivered';
  return filters.status === 'pending' ? 'waiting' : placeOf(filters);
}

function placeOf({ appId, endpointId }: LogFilters): Source {
  return appId === null && endpointId === null ? 'all' : 'endpoints';
}
