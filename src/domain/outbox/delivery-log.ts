// Reads the log of webhook deliveries from the newest to the oldest. Each step reads a limited
// number of rows.
import type {
  LogFilters,
  LoggedDelivery,
  DeliveryScope,
  Walk,
  Walked,
} from '../../db/delivering/deliveries.ts';
import { idsBetween, LAST_ID, timeOfId } from '../../db/postgres/ids.ts';

export interface LogQuery extends LogFilters {
  /** Only deliveries that were created at this time or later. */
  since: Date | null;
  /** Only deliveries that were created before this time. */
  until: Date | null;
}

export interface LogStep {
  rows: LoggedDelivery[];
  /** The time back to which the log has been read. Null when the whole log has been read. */
  lookedBackTo: Date | null;
  /** Position in the log at which the next step starts. Null at the end of the log. */
  next: string | null;
}

/**
 * Maximum number of rows that one statement reads. Postgres reads this many rows from memory in
 * about 20 ms.
 */
const WALK_ROWS = 10_000;
/** Maximum number of rows that one statement returns. */
const PAGE_ROWS = 500;

/**
 * Yields the deliveries that match the filters, newest first, until `limit` deliveries are found or
 * the whole log has been read. Each step runs one statement through `walk`; a step may find no
 * match.
 */
export async function* readLog(
  walk: (filters: LogFilters, walk: Walk) => Promise<Walked>,
  { since, until, ...filters }: LogQuery,
  { before = LAST_ID, limit }: { before?: string | undefined; limit: number },
): AsyncGenerator<LogStep, void, undefined> {
  const { first: from, end: bound } = idsBetween(since, until);
  let at = before < bound ? before : bound;
  const scope = scopeOf(filters);
  for (let left = limit; left > 0;) {
    const page = Math.min(left, PAGE_ROWS);
    const walkedRows = filters.status === null && filters.type === null ? page : WALK_ROWS;
    const { rows, walked, walkedTo } = await walk(filters, {
      scope,
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

function scopeOf(filters: LogFilters): DeliveryScope {
  if (filters.status === 'failed' || filters.status === 'cancelled') return 'undelivered';
  return filters.status === 'pending' ? 'waiting' : placeOf(filters);
}

function placeOf({ appId, endpointId }: LogFilters): DeliveryScope {
  return appId === null && endpointId === null ? 'all' : 'endpoints';
}
