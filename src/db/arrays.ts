// Columns for unnest. postgres.js takes the type of an array's first element for the array's own, so times and int8 go as text; and it serializes
// an array's elements by the server's type, so that text for bool[] or bytea[] would be mangled: these go as int and as hex.

/** For `::timestamptz[]`. */
export const times = (values: readonly (Date | null)[]): (string | null)[] => values.map((value) => value?.toISOString() ?? null);

/** For `::int8[]`. */
export const integers = (values: readonly bigint[]): string[] => values.map(String);

/** Booleans for `::int[]`. */
export const flags = (values: readonly boolean[]): number[] => values.map(Number);

/** Bytes as an array in Postgres's own notation, for `::text[]`, to be read with decode(..., 'hex'). */
export const blobs = (values: readonly Buffer[]): string => `{${values.map((value) => value.toString('hex')).join(',')}}`;

const SPECIAL = /["\\{},\s]|^null$/i;

const element = (value: string | number | null | undefined): string | number => {
  if (value === null || value === undefined) return 'null';
  if (typeof value === 'number') return value;
  if (value === '') return '""';
  return SPECIAL.test(value) ? `"${value.replace(/["\\]/g, '\\$&')}"` : value;
};

/**
 * An array in Postgres's own notation. postgres.js would build it element by element through serializers, times even by way of a Date, and quote what
 * needs no quotes: a fifth of the time of a large batch.
 */
export function literal(values: readonly (string | number | null | undefined)[]): string {
  return `{${values.map(element).join(',')}}`;
}

/** The same of JSON documents as JSON.stringify writes them: no control characters, so that JSON's way of quoting a text is Postgres's own. */
export function documents(values: readonly string[]): string {
  return `{${values.map((value) => JSON.stringify(value)).join(',')}}`;
}
