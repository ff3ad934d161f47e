// The array types of the schema, for postgres.js. Without them it asks each new connection for
// them, and a connection lost meanwhile ends the process.
import type { PostgresType } from 'postgres';
import { parse } from 'postgres-array';

function arrayOf<T extends string | number>(oid: number, read: (value: string) => T) {
  return {
    to: oid,
    from: [oid],
    serialize: (values: readonly T[]) =>
      `{${values.map((value) => `"${String(value).replaceAll(/["\\]/g, '\\$&')}"`).join()}}`,
    parse: (literal: string) => parse(literal, read),
  } satisfies PostgresType<T[]>;
}

/**
 * The numbers are the ids of the array types in pg_type. An array that is sent has no NULL in it.
 */
export const arrayTypes = {
  names: arrayOf(1003, String),
  int4s: arrayOf(1007, Number),
  texts: arrayOf(1009, String),
  uuids: arrayOf(2951, String),
};
