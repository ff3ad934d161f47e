// `npm run failover`: every scenario, and a table of Markdown for docs/operators.md. Exits with 1
// when a payment, a delivery or, with a synchronous standby, an API write was lost or doubled, or a
// scenario took longer than three minutes or had fewer payments a second than asked for.
import { parseArgs } from 'node:util';
import { BINARIES, hasDebianPostgres } from '../fixtures/debian-postgres.ts';
import { tool } from '../fixtures/tools.ts';
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
// Exits through process.exit(), so that the servers end too.
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => process.exit(1));
const { only, postgres } = values;
const rows: Row[] = [];
const breaches: string[] = [];

function isChosen({ name }: { name: string }, database: string): boolean {
  return name.includes(only ?? '') && database.includes(postgres ?? '');
}

async function playAll<C extends Database>(
  scenarios: readonly Scenario<C>[],
  database: string,
  openFor: (scenario: Scenario<C>) => OpenCluster<C>,
): Promise<void> {
  for (const scenario of scenarios) {
    if (!isChosen(scenario, database)) continue;
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

/** What the chosen scenarios need and this machine lacks, a line each. */
async function findMissing(programs: Awaited<ReturnType<typeof findPrograms>>): Promise<string[]> {
  const needs = (scenarios: readonly { name: string }[], database: string) =>
    scenarios.some((scenario) => isChosen(scenario, database));
  const lines: string[] = [];
  if (!(await hasDebianPostgres()))
    lines.push(
      `There is no pg_basebackup in ${BINARIES}. Install Debian's package postgresql, or set POSTGRES_BIN to the folder of Postgres's programs.`,
    );
  if (needs(archiveScenarios, ARCHIVE))
    await tool('pgbackrest').catch((error: unknown) => lines.push((error as Error).message));
  if (needs(patroniScenarios, PATRONI) && 'missing' in programs) lines.push(programs.missing);
  return lines;
}

const programs = await findPrograms();
const missing = await findMissing(programs);
if (missing.length > 0) {
  console.error(`Not started, because programs are missing:\n${missing.join('\n')}`);
  console.error('--postgres and --only leave out the scenarios that need them.');
  process.exit(2);
}
try {
  await playAll(
    pairScenarios,
    BY_HAND,
    ({ isSynchronous }) =>
      (directory, onStop) =>
        startPair(directory, onStop, { isSynchronous }),
  );
  await playAll(archiveScenarios, ARCHIVE, () => startArchived);
  if (!('missing' in programs))
    await playAll(
      patroniScenarios,
      PATRONI,
      () => (directory, onStop) => startPatroni(directory, onStop, programs),
    );
} finally {
  console.log(table(rows));
}
for (const breach of breaches) console.error(breach);
process.exit(breaches.length > 0 ? 1 : 0);
