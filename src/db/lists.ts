// What lists have in common: pages by id, newest first. Ids are made in order of time, so that times are bounds on the id.
import type { PendingQuery, Row } from 'postgres';
import type { Queryable } from './connect.ts';
import { idsBetween } from './ids.ts';

export interface Page {
  /** Id of the last row of the page before; null for the first page. */
  after: string | null;
  limit: number;
}

/** Creation times: since inclusive, until exclusive. */
export interface Span {
  since: Date | null;
  until: Date | null;
}

export type Fragment = PendingQuery<Row[]>;

/** The first column of an index on (column, id), and the value to read by it (a fragment with its type). */
export interface Key {
  column: string;
  value: Fragment;
}

/**
 * The end of a list statement, from its condition on: rows whose `column` has `value`, by an index on (column, id).
 * The array and the column in the order keep the planner off the primary key (docs/postgres-notes.md).
 */
export function pageOf(
  sql: Queryable,
  { column, value }: Key,
  { after, limit, since = null, until = null }: Page & Partial<Span>,
  filters: readonly Fragment[] = [],
): Fragment {
  const { first, end } = idsBetween(since, until);
  return sql`
    ${sql(column)} = any(array[${value}]) and id >= ${first}::uuid and id < ${after === null || after > end ? end : after}::uuid
    ${filters.length === 0 ? sql`` : [...filters]}
    order by ${sql(column)} desc, id desc limit ${limit}`;
}

/** A filter on a column that may have one of these words; none for null. */
export function among(sql: Queryable, column: string, words: readonly string[] | null): Fragment[] {
  return words === null ? [] : [sql`and ${sql(column)} = any(${words}::text[])`];
}
