import fc from 'fast-check';
import t from 'tap';
import { testDatabase } from '../../fixtures/postgres.ts';

void t.test('arrays of the schema’s types come back from Postgres as they were sent', async (t) => {
  const { sql } = await testDatabase(t);
  // Postgres stores no NUL.
  const text = fc.string({ unit: 'binary' }).map((value) => value.replaceAll('\0', ''));
  const special = fc.constantFrom(
    '',
    'NULL',
    'null',
    '{}',
    '"',
    '\\',
    ',',
    ' a ',
    "'",
    '{"a","b"}',
  );
  const whole = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.oneof(text, special)),
      fc.array(fc.uuid()),
      fc.array(whole),
      async (texts, uuids, ints) => {
        const [row] = await sql`
          select ${texts}::text[] as texts, ${uuids}::uuid[] as uuids, ${ints}::int[] as ints, null::text[] as none,
            array(select unnest(${texts}::text[])) as rebuilt, cardinality(${texts}::text[]) as length`;
        t.same(row, { texts, uuids, ints, none: null, rebuilt: texts, length: texts.length });
      },
    ),
    { numRuns: 200 },
  );
});
