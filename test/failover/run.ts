// `npm run failover`: every scenario, and a table of Markdown for docs/operators.md. Exits with 1
// when a payment, a delivery or, with a synchronous standby, an API write was lost or doubled, or a
// scenario took longer than three minutes or had fewer payments a second than asked for.
import { parseArgs } from 'node:util';
import { BINARIES, hasDebianPostgres } from '../fixtures/debian-postgres.ts';
import { startArchived } from './archived.ts';
import type { Database } from './cluster.ts';
import { breachesOf, play, type Row, table } from './failover.ts';
import type { OpenCluster } from './ground.ts';
import { findPrograms } from './packages.ts';
import { startPair } from './pair.ts';
import { startPatroni } from './patroni.ts';
import { archiveScenarios, pairScenarios, patroniScenarios, type Scenario } from './scenarios.ts';

const MAX_SECONDS = 180;
/** Of the payments a second that were asked for, before and after the fault. */
const MIN_SHARE = 0.95;
const BY_HAND = 'two hosts in the URL';
const PATRONI = 'Patroni and HAProxy';
const ARCHIVE = 'one, with pgBackRest';

const { values } = parseArgs({
  options: {
    rate: { type: 'string', default: '100' },
    subscribers: { type: 'string', default: '600' },
    'block-ms': { type: 'string', default: '50' },
    /** Archive of the last release, from which "rolling upgrade" starts. */
    from: { type: 'string' },
    only: { type: 'string' },
    postgres: { type: 'string' },
  },
});
const settings = {
  rate: Number(values.rate),
  subscribers: Number(values.subscribers),
  blockMs: Number(values['block-ms']),
  archive: values.from,
};
// So that the servers end with it.
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => process.exit(1));
const { only, postgres } = values;
const rows: Row[] = [];
const breaches: string[] = [];

async function playAll<C extends Database>(
  scenarios: readonly Scenario<C>[],
  database: string,
  openFor: (scenario: Scenario<C>) => OpenCluster<C>,
): Promise<void> {
  for (const scenario of scenarios) {
    if (only !== undefined && !scenario.name.includes(only)) continue;
    if (postgres !== undefined && !database.includes(postgres)) continue;
    const name = `${scenario.name} (${database})`;
    console.error(name);
    const row = await play(scenario, database, openFor(scenario), settings);
    rows.push(row);
    console.error(row);
    if (row.seconds > MAX_SECONDS)
      breaches.push(`${name}: took ${row.seconds} s, at most ${MAX_SECONDS}`);
    if (row.rate < settings.rate * MIN_SHARE)
      breaches.push(`${name}: ${row.rate.toFixed(1)} payments a second, not ${settings.rate}`);
    if (row.lostWrites > 0)
      console.error(`${name}: ${row.lostWrites} of ${row.acknowledged} API writes are gone`);
    breaches.push(...breachesOf(row, scenario.isSynchronous).map((breach) => `${name}: ${breach}`));
  }
}

if (!(await hasDebianPostgres())) {
  console.error(
    `There is no pg_basebackup in ${BINARIES}. Install Debian's package postgresql, or set POSTGRES_BIN to the folder of Postgres's programs.`,
  );
  process.exit(2);
}
await playAll(
  pairScenarios,
  BY_HAND,
  ({ isSynchronous }) =>
    (directory, onStop) =>
      startPair(directory, onStop, { isSynchronous }),
);
await playAll(archiveScenarios, ARCHIVE, () => startArchived);
const programs = await findPrograms();
if ('missing' in programs) console.error(`Not run with Patroni and HAProxy: ${programs.missing}`);
else
  await playAll(
    patroniScenarios,
    PATRONI,
    () => (directory, onStop) => startPatroni(directory, onStop, programs),
  );
console.log(table(rows));
for (const breach of breaches) console.error(breach);
process.exit(breaches.length > 0 ? 1 : 0);
