// The scenarios: what fails, and what the operator does about it.
import { setTimeout as pause } from 'node:timers/promises';
import type { Archived } from './archived.ts';
import type { Cluster, Database } from './cluster.ts';
import { type Ground, KINDS } from './ground.ts';
import { stubborn } from './load.ts';
import type { Pair } from './pair.ts';

const LOST_MS = 2000;
const LOOK_MS = 200;
/** After so long on the chain a pull that the books lack is a sign of a restore. */
const OLD_SECONDS = 1200n;

export interface Scenario<C extends Database> {
  name: string;
  /** Commits wait for the standby. */
  isSynchronous: boolean;
  begin(ground: Ground<C>): Promise<void>;
  /** The operator's part, while the load goes on. */
  mend?(ground: Ground<C>): Promise<void>;
}

/** One daemon after the other, so that another of its kind is there. */
async function restartDaemons(
  { machines }: Ground<Database>,
  change?: { program: string },
): Promise<void> {
  for (const machine of machines) for (const kind of KINDS) await machine.restart(kind, change);
}

/** Resolves when the keepers sign again after a promotion. */
async function signsAgain({ cluster }: Ground<Database>): Promise<void> {
  const open = () => cluster.sql()`
    select from installation where collects_after_height is null
      and timeline = substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)`;
  while ((await stubborn(open)).length === 0) await pause(LOOK_MS);
}

/** `billing reconcile --repair` over the time of the scenario, and the end of a hold. */
async function repair({ command, chain, cluster }: Ground<Database>): Promise<void> {
  const days = async (count: number) =>
    new Date(Number(await chain.now()) * 1000 + count * 86_400_000).toISOString();
  await command(['reconcile', '--repair', '--since', await days(-3650), '--until', await days(60)]);
  const held = await stubborn(() => cluster.sql()`select from collection_holds`);
  if (held.length > 0) await command(['collection', 'resume', '--reason', 'reconciled']);
}

/** Scenarios that any two servers can play. */
const common: readonly Scenario<Cluster>[] = [
  {
    name: 'crash of the primary',
    isSynchronous: true,
    begin: ({ cluster }) => cluster.crash(),
  },
  {
    name: 'primary frozen',
    isSynchronous: true,
    begin: ({ cluster }) => cluster.freeze(),
  },
  {
    name: 'standby lost, synchronous',
    isSynchronous: true,
    begin: ({ cluster }) => cluster.loseStandby(),
  },
  {
    name: 'rolling restart',
    isSynchronous: true,
    async begin(ground) {
      await ground.cluster.restart();
      await restartDaemons(ground);
    },
  },
];

export const patroniScenarios = common;

export const pairScenarios: readonly Scenario<Pair>[] = [
  ...common,
  {
    name: 'loss of 2 s of commits',
    isSynchronous: false,
    begin: ({ cluster }) => cluster.loseCommits(LOST_MS),
    async mend(ground) {
      await signsAgain(ground);
      await repair(ground);
    },
  },
  {
    name: 'two primaries',
    isSynchronous: false,
    async begin(ground) {
      // The second machine sees the new primary alone, the first one stays at the old one.
      const url = new URL(await ground.cluster.split());
      for (const kind of KINDS) {
        url.username = `postgres_${kind}`;
        await ground.machines[1].restart(kind, { databaseUrl: url.href });
      }
    },
    async mend(ground) {
      await signsAgain(ground);
      // The old primary is shut down with its daemons, which start again at the new one.
      const [machine] = ground.machines;
      await Promise.all(KINDS.map((kind) => machine.stop(kind)));
      await ground.cluster.fence();
      for (const kind of KINDS) await machine.restart(kind);
      await repair(ground);
    },
  },
  {
    name: 'rolling upgrade',
    isSynchronous: true,
    async begin(ground) {
      const { command, releases } = ground;
      await command(['migrate'], releases.new);
      await restartDaemons(ground, { program: releases.new });
    },
  },
];

export const archiveScenarios: readonly Scenario<Archived>[] = [
  {
    name: 'restore to a point in time',
    isSynchronous: false,
    async begin({ cluster, machines, chain }) {
      const target = await cluster.now();
      await pause(LOST_MS);
      await cluster.archive();
      await cluster.lose();
      const all = machines.flatMap((machine) => KINDS.map((kind) => ({ machine, kind })));
      await Promise.all(all.map(({ machine, kind }) => machine.stop(kind)));
      await cluster.restore(target);
      await chain.travelTo((await chain.now()) + OLD_SECONDS);
      for (const { machine, kind } of all) await machine.restart(kind);
    },
    async mend(ground) {
      // The keepers find out by themselves: they wait for the chain, and hold collection.
      await signsAgain(ground);
      const held = () => ground.cluster.sql()`
        select from collection_holds where missing_until is not null`;
      while ((await stubborn(held)).length === 0) await pause(LOOK_MS);
      await repair(ground);
    },
  },
];
