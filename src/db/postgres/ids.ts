// Ids are UUIDs version 7 (RFC 9562). They sort by creation time, so a time range is an id range.
import type { Queryable } from './connect.ts';

export const FIRST_ID = '00000000-0000-0000-0000-000000000000';
export const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** Tells whether a text is a lower-case UUID, the form of all ids. */
export function isId(text: string): boolean {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);
}

/** Returns the lowest possible id with this creation time. */
export function firstIdAt(time: Date): string {
  const ms = time.getTime();
  if (ms < 0) return FIRST_ID;
  if (ms >= 2 ** 48) return LAST_ID;
  const hex = ms.toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-0000-000000000000`;
}

/** Returns the creation time of an id, to the millisecond. */
export function timeOfId(id: string): Date {
  return new Date(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16));
}

/**
 * Returns the range of ids that were created in [since, until). `first` is inclusive and `end`
 * exclusive. A null time means no bound.
 */
export function idsBetween(since: Date | null, until: Date | null): { first: string; end: string } {
  return {
    first: since === null ? FIRST_ID : firstIdAt(since),
    end: until === null ? LAST_ID : firstIdAt(until),
  };
}

/**
 * Generates the id of a row before the row is inserted, for rows whose content depends on their id.
 */
export async function newId(sql: Queryable): Promise<string> {
  const [row] = await sql<[{ id: string }]>`select uuid_v7() as id`;
  return row.id;
}
