// Ids are made in order of time (RFC 9562, version 7), so that a span of time is a span of ids.

export const firstId = '00000000-0000-0000-0000-000000000000';
export const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** Whether a text has the form of our ids. */
export function isId(text: string): boolean {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);
}

/** The lowest id that can be made at this time. */
export function firstIdAt(time: Date): string {
  const ms = time.getTime();
  if (ms < 0) return firstId;
  if (ms >= 2 ** 48) return lastId;
  const hex = ms.toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-0000-000000000000`;
}

/** When an id was made, to the millisecond. */
export function timeOfId(id: string): Date {
  return new Date(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16));
}

/** The ids that are made from `since` on and before `until`, null where there is no bound: `first` is the lowest, `end` the lowest that is none. */
export function idsBetween(since: Date | null, until: Date | null): { first: string; end: string } {
  return {
    first: since === null ? firstId : firstIdAt(since),
    end: until === null ? lastId : firstIdAt(until),
  };
}
