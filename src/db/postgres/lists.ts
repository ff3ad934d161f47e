// Keyset pagination by id, newest first, for all lists. Ids sort by creation time, so a time range
// is an id range.
import type { PendingQuery, Row } from 'postgres';
import type { Queryable } from './connect.ts';
import { idsBetween } from './ids.ts';

export interface Page {
  /** Id of the last row of the previous page; null for the first page. */
  after: string | null;
  limit: number;
}

/** A range of creation times: `since` is inclusive, `until` exclusive. */
export interface Span {
  since: Date | null;
  until: Date | null;
}

export type Fragment = PendingQuery<Row[]>;

/**
 * Selects the rows of a list: `column` equals `value`. The table needs an index on (column, id).
 * `value` includes a cast to the type of the column.
 */
export interface Key {
  column: string;
  value: Fragment;
}

/**
 * Returns the WHERE condition, ORDER BY and LIMIT of one page of a list. The condition is written
 * as `= any(array[...])`, and ORDER BY includes `column`, so that the planner does not scan the
 * primary key (docs/postgres-notes.md).
 */
export function pageOf(
  sql: Queryable,
  { column, value }: Key,
  { after, limit, since = null, until = null }: Page & Partial<Span>,
  filters: readonly Fragment[] = [],
): Fragment {
  const { first, end } = idsBetween(since, until);
  return sql`
    ${sql(column)} = any(array[${value}]) and id >= ${first}::uuid
      and id < ${after === null || after > end ? end : after}::uuid
    ${filters.length === 0 ? sql`` : [...filters]}
    order by ${sql(column)} desc, id desc limit ${limit}`;
}

/**
 * Returns a condition for WHERE: the column equals one of `words`. If `words` is null, there is no
 * condition.
 */
export function among(sql: Queryable, column: string, words: readonly string[] | null): Fragment[] {
  return words === null ? [] : [sql`and ${sql(column)} = any(${words}::text[])`];
}
