// An upgrade under load: from this tree to this tree with a further migration, with many rows in
// the tables that daemons write. The load is that of `npm run failover`.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePorts } from '../../src/local/sandbox/ports.ts';
import type { Database, OnStop } from '../failover/cluster.ts';
import { breachesOf, play, type Row } from '../failover/failover.ts';
import { KINDS, type Ground } from '../failover/ground.ts';
import { initialize, killServer, ownDirectory, startServer } from '../fixtures/debian-postgres.ts';
import { addRows } from './rows.ts';
import { countChanged, LockWaits, Reads } from './watch.ts';

/** No statement of a daemon may wait for longer. */
const MOST_WAIT_MS = 5000;

export interface UpgradeSettings {
  rows: number;
  /** Payments a second, and subscribers that pay. */
  rate: number;
  subscribers: number;
}

export interface Upgraded extends Row {
  /** Seconds that `billing migrate` took, and that the restarts took. */
  migrated: number;
  rolled: number;
  /** The longest wait of a daemon's statement for a lock, ms. */
  waitMs: number;
  waited: string;
  /** Number of answers to reads. `failed` lists the answers with status 500 and above. */
  answered: number;
  failed: string[];
  /** Rows that the batches changed, in each table. */
  changed: number[];
}

async function startOne(root: string, onStop: OnStop): Promise<Database> {
  await ownDirectory(root);
  const [port = 0] = await freePorts(1);
  const place = { directory: join(root, 'data'), port };
  await initialize(place);
  const server = await startServer(place, { max_wal_size: '4GB', shared_buffers: '512MB' });
  onStop(() => killServer(server));
  return { url: `postgres://postgres@127.0.0.1:${port}/postgres`, sql: () => server.sql };
}

async function upgrade(ground: Ground<Database>) {
  const { command, machines, releases } = ground;
  const [waits, reads] = [new LockWaits(ground), new Reads(ground)];
  waits.start();
  reads.start();
  await reads.warm();
  const beganAt = performance.now();
  await command(['migrate'], releases.new);
  const migratedAt = performance.now();
  for (const machine of machines)
    for (const kind of KINDS) await machine.restart(kind, { program: releases.new });
  const rolledAt = performance.now();
  await reads.stop();
  await waits.stop();
  return {
    migrated: (migratedAt - beganAt) / 1000,
    rolled: (rolledAt - migratedAt) / 1000,
    waitMs: waits.longestMs,
    waited: waits.statement,
    answered: reads.answered,
    failed: reads.failed,
    changed: await countChanged(ground),
  };
}

/** Upgrades an installation of its own. */
export async function playUpgrade(settings: UpgradeSettings): Promise<Upgraded> {
  const { rows, rate, subscribers } = settings;
  const further = await readFile(new URL('./next.sql', import.meta.url), 'utf8');
  let upgraded: Awaited<ReturnType<typeof upgrade>> | undefined;
  const scenario = {
    name: 'upgrade',
    isSynchronous: true,
    begin: async (ground: Ground<Database>) => {
      upgraded = await upgrade(ground);
    },
  };
  const row = await play(scenario, 'one server', startOne, {
    ...{ rate, subscribers, blockMs: 50, further },
    fill: (sql) => addRows(sql, rows),
  });
  if (upgraded === undefined) throw new Error('the upgrade did not begin');
  return { ...row, ...upgraded };
}

/** Faults that must not occur; empty if there are none. */
export function upgradeBreaches(row: Upgraded, rows: number): string[] {
  const { waitMs, waited, failed, changed, refused, refusal, serverErrors } = row;
  return [
    ...breachesOf(row, true),
    ...(waitMs > MOST_WAIT_MS ? [`a statement waited for ${waitMs} ms: ${waited}`] : []),
    ...(failed.length > 0 ? [`${failed.length} reads failed, the first: ${failed[0]}`] : []),
    ...(serverErrors > 0 ? [`${serverErrors} writes were answered with 500 or above`] : []),
    ...(refused > 0 ? [`${refused} writes were refused by both machines: ${refusal}`] : []),
    ...(changed.some((count) => count < Math.floor(rows / 4))
      ? [`the batches changed ${changed.join(', ')} rows`]
      : []),
  ];
}
