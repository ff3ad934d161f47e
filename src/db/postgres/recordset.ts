// Rows as one JSON parameter, so that a statement has the same text for any number of rows, and is
// prepared once.
import postgres from 'postgres';
import type { Queryable } from './connect.ts';
import type { Fragment } from './lists.ts';

/**
 * SELECT of the rows, with the fields in `types`, each as a column of that Postgres type. The
 * columns have the fields' names in snake case. Bytes are given as Buffers. A field that is
 * undefined is null.
 */
export function recordset<Field extends string>(
  sql: Queryable,
  rows: readonly Readonly<Partial<Record<NoInfer<Field>, unknown>>>[],
  types: Readonly<Record<Field, string>>,
): Fragment {
  const fields = Object.keys(types) as Field[];
  const names = fields.map((field) => [field, postgres.fromCamel(field)] as const);
  const given = rows.map((row) =>
    Object.fromEntries(names.map(([field, name]) => [name, jsonOf(row[field])])),
  );
  const columns = names.map(([field, name]) => `${name} ${types[field]}`).join(', ');
  return sql`select * from json_to_recordset(${JSON.stringify(given)}::text::json)
    as given (${sql.unsafe(columns)})`;
}

function jsonOf(value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString();
  return Buffer.isBuffer(value) ? `\\x${value.toString('hex')}` : value;
}
