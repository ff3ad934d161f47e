// `npm run night`: every fault, with a table at its end. Exits with 1 where one was not seen or not
// healed in time, or something was lost or doubled.
import { parseArgs } from 'node:util';
import { hasDebianPostgres } from '../fixtures/debian-postgres.ts';
import { faults } from './faults.ts';
import { night, type Row, table } from './night.ts';
import { pairFaults } from './pair-faults.ts';
import { openPair, openPostgres } from './postgres.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '30' },
    subscribers: { type: 'string', default: '150' },
    only: { type: 'string' },
    from: { type: 'string' },
  },
});
const { only, from } = values;
const names = [...faults, ...pairFaults].map(({ name }) => name);
const first = from === undefined ? 0 : names.findIndex((name) => name.includes(from));
const chosen = new Set(
  names.slice(first).filter((name) => only === undefined || name.includes(only)),
);
const how = {
  seconds: Number(values.seconds),
  subscribers: Number(values.subscribers),
  tell: (row: Row) => console.error(table([row]).split('\n')[1]),
};
const isChosen = ({ name }: { name: string }) => chosen.has(name);
const rows = await night({ faults: faults.filter(isChosen), openDatabase: openPostgres, ...how });
if (await hasDebianPostgres())
  rows.push(
    ...(await night({ faults: pairFaults.filter(isChosen), openDatabase: openPair, ...how })),
  );
console.log(table(rows));
process.exit(rows.some(({ breaches }) => breaches.length > 0) ? 1 : 0);
