// The short form of `npm run failover`. LAST_RELEASE is the archive of the last release, from which
// "rolling upgrade" then starts; without it this tree is the old release, and the new one is a copy
// with a migration more.
import t from 'tap';
import { startArchived } from './archived.ts';
import { breachesOf, play, table } from './failover.ts';
import { findPrograms } from './packages.ts';
import { startPair } from './pair.ts';
import { startPatroni } from './patroni.ts';
import { archiveScenarios, pairScenarios, patroniScenarios } from './scenarios.ts';

const settings = {
  ...{ subscribers: 12, rate: 6, blockMs: 50 },
  archive: process.env.LAST_RELEASE,
};

for (const name of ['loss of 2 s of commits', 'rolling upgrade'])
  void t.test(name, async (t) => {
    const scenario = pairScenarios.find((one) => one.name === name);
    if (scenario === undefined) throw new Error(`no scenario "${name}"`);
    const { isSynchronous } = scenario;
    const row = await play(
      scenario,
      'pair',
      (directory, onStop) => startPair(directory, onStop, { isSynchronous }),
      settings,
    );
    t.comment(table([row]));
    t.same(breachesOf(row, isSynchronous), []);
    t.ok(row.paid > settings.subscribers * 2);
    if (name === 'rolling upgrade') t.equal(row.refused, 0, 'no API request was refused');
  });

void t.test(
  'payments continue after a crash of the primary under Patroni behind HAProxy',
  async (t) => {
    const programs = await findPrograms();
    if ('missing' in programs) throw new Error(programs.missing);
    const [crash] = patroniScenarios;
    if (crash === undefined) throw new Error('no scenario');
    const row = await play(
      crash,
      'Patroni',
      (directory, onStop) => startPatroni(directory, onStop, programs),
      settings,
    );
    t.comment(table([row]));
    t.same(breachesOf(row, crash.isSynchronous), []);
  },
);

void t.test('keepers detect a restore with pgBackRest and hold collection', async (t) => {
  const [restore] = archiveScenarios;
  if (restore === undefined) throw new Error('no scenario');
  const row = await play(restore, 'one server', startArchived, settings);
  t.comment(table([row]));
  t.same(breachesOf(row, restore.isSynchronous), []);
  t.ok(row.lostWrites > 0, 'what was written after the target is gone');
});
