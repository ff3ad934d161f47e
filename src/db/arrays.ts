// The array types of the schema, for postgres.js. It would read them from each new connection, and a connection that is lost meanwhile would end the process.
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

/** By the type ids of pg_type. Strings pass as they are; arrays without NULL. */
export const arrayTypes = {
  names: arrayOf(1003, String),
  int4s: arrayOf(1007, Number),
  texts: arrayOf(1009, String),
  uuids: arrayOf(2951, String),
};
