import fc from 'fast-check';
import t from 'tap';
import { blobs, documents, flags, integers, literal, times } from '../../src/db/arrays.ts';
import { testDatabase } from '../fixtures/postgres.ts';

const text = fc.oneof(
  fc.string({ unit: 'binary' }).map((one) => one.replaceAll('\0', '')),
  fc.constantFrom('', 'null', 'NULL', '{}', '"', '\\', ',', ' ', '\\"', 'a b', '\n', '{a,"b"}'),
);

void t.test('whatever is in an array arrives in Postgres', async (t) => {
  const { sql } = await testDatabase(t);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.option(text)), async (values) => {
      // What is no whole character (a lone surrogate) becomes a replacement character on any way to Postgres.
      const whole = values.map((value) => value && Buffer.from(value).toString());
      // As JSON: postgres.js reads the text "NULL" in an array as a null.
      const [row] = await sql<{ found: (string | null)[] }[]>`select to_json(${literal(values)}::text[]) as found`;
      t.same(row?.found, whole);
    }),
    { numRuns: 200 },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(fc.jsonValue().map((value) => JSON.stringify({ value }))), async (values) => {
      const [row] = await sql<{ found: string[] }[]>`select to_json(${documents(values)}::text[]) as found`;
      t.same(row?.found, values);
    }),
    { numRuns: 200 },
  );
});

void t.test('times, numbers, flags and bytes keep their values', async (t) => {
  const { sql } = await testDatabase(t);
  const at = new Date('2026-05-01T00:00:00.123Z');
  const [row] = await sql`
    select to_json(${literal(times([at, null]))}::timestamptz[]) as times, ${literal(integers([-1n, 2n ** 63n - 1n]))}::int8[]::text as integers,
      ${literal(flags([true, false]))}::int[] as flags, decode((${blobs([Buffer.from([0, 255])])}::text[])[1], 'hex') as bytes,
      ${literal([])}::uuid[] as nothing, to_json(${literal([1, undefined, 3])}::int[]) as gaps`;
  t.same(row, {
    times: ['2026-05-01T00:00:00.123+00:00', null],
    integers: '{-1,9223372036854775807}',
    flags: [1, 0],
    bytes: Buffer.from([0, 255]),
    nothing: [],
    gaps: [1, null, 3],
  });
});

void t.test('ids sort by the time that they were made at, to the microsecond or so', async (t) => {
  const { sql } = await testDatabase(t);
  const ids = await sql<{ id: string; at: number; before: number; after: number }[]>`
    select id::text, ('x' || lpad(translate(left(id::text, 13), '-', ''), 16, '0'))::bit(64)::int8::float8 as at,
      floor(before) as before, floor(after) as after
    from (
      select date_part('epoch', clock_timestamp()) * 1000 as before, uuid_v7() as id, date_part('epoch', clock_timestamp()) * 1000 as after
      from generate_series(1, 1000)
    ) as made`;
  t.equal(ids.length, 1000);
  t.equal(new Set(ids.map(({ id }) => id)).size, 1000);
  for (const { id, at, before, after } of ids) {
    t.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    // Binary fractions of a second: a microsecond may be missing.
    t.ok(at >= before - 1 && at <= after, `${before} ${at} ${after}`);
  }
  const made = ids.map(({ id }) => id);
  const [first, last] = [made[0] ?? '', made.at(-1) ?? ''];
  t.ok(first < last);
});
