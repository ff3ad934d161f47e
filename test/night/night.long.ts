// The short form of `npm run night`.
import t from 'tap';
import { faults, shortFaults } from './faults.ts';
import { night, table } from './night.ts';
import { openPostgres } from './postgres.ts';

void t.test(
  'in the short night run, faults are detected and recovered in time without lost or repeated work',
  { timeout: 180_000 },
  async (t) => {
    const rows = await night({
      faults: faults.filter(({ name }) => shortFaults.includes(name)),
      openDatabase: openPostgres,
      seconds: 1,
      subscribers: 8,
      scrapeSeconds: 1,
      tell: () => undefined,
    });
    t.equal(rows.length, shortFaults.length);
    t.comment(table(rows));
    for (const { fault, breaches } of rows) t.same(breaches, [], fault);
  },
);
