// `npm run upgrade`: prints the figures. Exits with 1 for an answer of 500 or above, a statement of
// a daemon that waited for over 5 s, or a payment, event or write that was lost.
import { parseArgs } from 'node:util';
import { BINARIES, hasDebianPostgres } from '../fixtures/debian-postgres.ts';
import { playUpgrade, upgradeBreaches } from './upgrade.ts';

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '1000000' },
    rate: { type: 'string', default: '20' },
    subscribers: { type: 'string', default: '100' },
  },
});
if (!(await hasDebianPostgres())) {
  console.error(`There is no pg_basebackup in ${BINARIES}: install Debian's package postgresql.`);
  process.exit(1);
}
// Exits through process.exit(), so that the server ends too.
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => process.exit(1));
const rows = Number(values.rows);
const row = await playUpgrade({
  rows,
  rate: Number(values.rate),
  subscribers: Number(values.subscribers),
});
console.log({ ...row, failed: row.failed.length });
const breaches = upgradeBreaches(row, rows);
for (const breach of breaches) console.error(breach);
process.exitCode = breaches.length > 0 ? 1 : 0;
