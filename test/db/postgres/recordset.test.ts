import t from 'tap';
import { recordset } from '../../../src/db/postgres/recordset.ts';
import { testDatabase } from '../../fixtures/postgres.ts';

void t.test('rows arrive with the types that are named, and only these fields', async (t) => {
  const { sql } = await testDatabase(t);
  const first = {
    ...{ anAmount: 2n ** 62n, aTime: new Date('2027-01-02T03:04:05.678Z'), isSo: true },
    ...{ bytes: Buffer.from([0, 255, 92]), names: ['a', `'"\\`] },
  };
  const second = { anAmount: null, isSo: false, bytes: Buffer.alloc(0), names: [] };
  const rows = [
    { ...first, left: 'out' },
    { ...second, aTime: undefined },
  ];
  const types = {
    ...{ anAmount: 'int8', aTime: 'timestamptz', isSo: 'bool', bytes: 'bytea', names: 'text[]' },
  };
  const found = await sql`select * from (${recordset(sql, rows, types)}) as given`;
  t.same([...found], [first, { ...second, aTime: null }]);
  t.same([...(await sql`select * from (${recordset(sql, [], { id: 'uuid' })}) as given`)], []);
});
