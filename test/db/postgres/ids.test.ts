import fc from 'fast-check';
import t from 'tap';
import { FIRST_ID, firstIdAt, isId, LAST_ID, timeOfId } from '../../../src/db/postgres/ids.ts';
import { testDatabase } from '../../fixtures/postgres.ts';

void t.test(
  'the first id for a time contains that time and is greater than all ids of earlier times',
  (t) => {
    fc.assert(
      fc.property(
        fc.date({ min: new Date(1), max: new Date('9999-12-31'), noInvalidDate: true }),
        (time) => {
          t.equal(timeOfId(firstIdAt(time)).getTime(), time.getTime());
          const before = firstIdAt(new Date(time.getTime() - 1)).replace(
            '7000-0000-000000000000',
            '7fff-bfff-ffffffffffff',
          );
          t.ok(before < firstIdAt(time));
        },
      ),
    );
    t.equal(firstIdAt(new Date('1969-12-31')), FIRST_ID);
    t.equal(firstIdAt(new Date(8.64e15)), LAST_ID);
    t.end();
  },
);

void t.test('Postgres and TypeScript read the same time from an id', async (t) => {
  const { sql } = await testDatabase(t);
  const ids = [
    '018cc251-f400-7fff-8000-000000000000',
    firstIdAt(new Date(0)),
    firstIdAt(new Date('9999-12-31')),
    '01999999-0000-7000-8000-000000000000',
  ];
  const rows = await sql<
    { id: string; at: Date }[]
  >`select id, made_at(id) as at from unnest(${ids}::uuid[]) as given (id)`;
  for (const { id, at } of rows) t.equal(at.getTime(), timeOfId(id).getTime(), id);
  const firsts = await sql<{ at: Date; id: string }[]>`
    select at, first_id_at(at) as id from unnest(${ids}::uuid[]) as given (id) cross join lateral (select made_at(given.id) as at) as made`;
  for (const { at, id } of firsts)
    t.equal(id, firstIdAt(at), 'and the first id of a time is the same for both');
  const [own] = await sql<{ within: boolean }[]>`
    with times as materialized (select clock_timestamp() as before, uuid_v7() as id)
    select made_at(id) between before - interval '2 us' and clock_timestamp() as within from times`;
  t.ok(own?.within);
});

void t.test('only a lower-case UUID without extra characters is an id', (t) => {
  t.ok([FIRST_ID, LAST_ID, firstIdAt(new Date())].every(isId));
  for (const text of [
    '',
    LAST_ID.toUpperCase(),
    ` ${LAST_ID}`,
    `${LAST_ID}\n`,
    LAST_ID.replaceAll('-', ''),
    `${LAST_ID}0`,
  ])
    t.notOk(isId(text), text);
  t.end();
});
