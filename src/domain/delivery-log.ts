// The log of all deliveries, read from its newest end, a bounded step at a time.
import type { LogFilters, LoggedDelivery, Source, Walk, Walked } from '../db/deliveries.ts';
import { idsBetween, lastId, timeOfId } from '../db/ids.ts';

export interface LogQuery extends LogFilters {
  /** Queued at this time or later, by the time in the delivery's id. */
  since: Date | null;
  /** Queued before this time. */
  until: Date | null;
}

export interface LogStep {
  rows: LoggedDelivery[];
  /** Everything newer than this has been looked at; null when there is nothing older. */
  lookedBackTo: Date | null;
  /** Where the next step goes on; null at the end. */
  next: string | null;
}

/** Rows that one statement may look at: some 20 ms of Postgres's time when they are in memory. */
const walkRows = 10_000;
/** Rows that one statement may return. */
const pageRows = 500;

/**
 * Steps through the deliveries that match, newest first, until `limit` of them are found or there are no more. Each step is one statement by way of
 * `walk`, and yields what it found, which may be nothing.
 */
export async function* readLog(
  walk: (filters: LogFilters, walk: Walk) => Promise<Walked>,
  { since, until, ...filters }: LogQuery,
  { before = lastId, limit }: { before?: string | undefined; limit: number },
): AsyncGenerator<LogStep, void, undefined> {
  const { first: from, end: bound } = idsBetween(since, until);
  let at = before < bound ? before : bound;
  const source = sourceOf(filters);
  for (let left = limit; left > 0;) {
    const page = Math.min(left, pageRows);
    const looked = filters.status === null && filters.type === null ? page : walkRows;
    const { rows, walked, walkedTo } = await walk(filters, {
      source,
      before: at,
      from,
      walk: looked,
      limit: page,
    });
    left -= rows.length;
    const exhausted = walked < looked;
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
