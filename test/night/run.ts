// `npm run night`: every fault, with a table at its end. Exits with 1 where one was not seen or not
// healed in time, or something was lost or doubled.
import { parseArgs } from 'node:util';
import { faults } from './faults.ts';
import { night, table } from './night.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '30' },
    subscribers: { type: 'string', default: '150' },
    only: { type: 'string' },
    from: { type: 'string' },
  },
});
const { only, from } = values;
const first = from === undefined ? 0 : faults.findIndex(({ name }) => name.includes(from));
const chosen = faults.slice(first).filter(({ name }) => only === undefined || name.includes(only));
const rows = await night({
  faults: chosen,
  seconds: Number(values.seconds),
  subscribers: Number(values.subscribers),
  tell: (row) => console.error(table([row]).split('\n')[1]),
});
console.log(table(rows));
process.exit(rows.some(({ breaches }) => breaches.length > 0) ? 1 : 0);
