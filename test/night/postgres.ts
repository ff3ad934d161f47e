// The Postgres of the night: one that can be stopped, frozen, filled up and put back to an earlier
// time, or a primary with a standby.
import { execFile } from 'node:child_process';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { connect, type Sql } from '../../src/db/postgres/connect.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/local/sandbox/postgres.ts';
import { type PostgresPair, startPostgresPair } from '../fixtures/postgres-pair.ts';

const run = promisify(execFile);
const diskMegabytes = 768;
export const maxConnections = 60;

export interface Database {
  /** Straight to Postgres, as its superuser. */
  url: string;
  /** The same, connected; new after each of its restarts. */
  sql: () => Sql;
}

export type OpenDatabase<D extends Database> = (
  dataDir: string,
  onStop: (close: () => unknown) => void,
) => Promise<D>;

export interface Single extends Database {
  postgres: Postgres;
  /** Undefined where the machine lets us mount none of our own. */
  disk: Disk | undefined;
}

export interface Pair extends Database {
  pair: PostgresPair;
}

export interface Postgres {
  stop(): Promise<void>;
  start(): Promise<void>;
  /** Stops each of its processes where it is, or lets all go on. */
  freeze(on: boolean): Promise<void>;
  /** Copies its files, while it is stopped. */
  backUp(): Promise<void>;
  /** Puts the copy in their place, while it is stopped. */
  restore(): Promise<void>;
}

/** The disk that Postgres is on. */
export interface Disk {
  fill(): Promise<void>;
  /** Makes room again, and starts Postgres if it gave up for lack of room. */
  free(): Promise<void>;
}

/** Mounts a small file system if this process has the right to; resolves with whether it did. */
async function mountDisk(at: string, onStop: (close: () => unknown) => void): Promise<boolean> {
  await mkdir(at);
  try {
    await run('mount', ['-t', 'tmpfs', '-o', `size=${diskMegabytes}m`, 'tmpfs', at]);
  } catch {
    return false;
  }
  onStop(() => run('umount', [at]));
  return true;
}

/** Starts a primary and its standby in `dataDir`. */
export const openPair: OpenDatabase<Pair> = async (dataDir, onStop) => {
  const pair = await startPostgresPair(dataDir);
  onStop(() => pair.stop());
  const sql = connect(pair.url, { max: 3, name: 'billing night' });
  onStop(() => sql.end({ timeout: 1 }));
  return { url: pair.url, sql: () => sql, pair };
};

/** Starts it in `dataDir`, on a disk of its own where the machine allows that. */
export const openPostgres: OpenDatabase<Single> = async (dataDir, onStop) => {
  const hasDisk = await mountDisk(dataDir, onStop);
  const settings = { max_connections: String(maxConnections), max_wal_size: '128MB' };
  let server: EmbeddedPostgres = await startEmbeddedPostgres({ dataDir, settings });
  const { url } = server;
  const port = Number(new URL(url).port);
  const open = () => connect(url, { max: 3, name: 'billing night' });
  let sql = open();
  onStop(() => server.stop());
  onStop(() => sql.end({ timeout: 1 }));
  const processes = async () => {
    const postmaster = Number(
      (await readFile(join(dataDir, 'cluster/postmaster.pid'), 'utf8')).split('\n')[0],
    );
    const { stdout } = await run('ps', ['-o', 'pid=', '--ppid', String(postmaster)]);
    return [postmaster, ...stdout.trim().split(/\s+/).map(Number)];
  };
  const [cluster, copy] = [join(dataDir, 'cluster'), `${dataDir}.backup`];
  const copyFiles = async (from: string, to: string) => {
    await rm(to, { recursive: true, force: true });
    await run('cp', ['-a', from, to]);
  };
  let frozen: number[] = [];
  const freeze = async (on: boolean) => {
    if (on) frozen = await processes();
    for (const pid of frozen) signal(pid, on ? 'SIGSTOP' : 'SIGCONT');
    if (!on) frozen = [];
  };
  onStop(() => freeze(false));
  const ballast = join(dataDir, 'ballast');
  const start = async () => {
    server = await startEmbeddedPostgres({ dataDir, port, settings });
    sql = open();
  };
  const disk: Disk = {
    async fill() {
      // Ends with an error: that is when the disk is full.
      await run('dd', ['if=/dev/zero', `of=${ballast}`, 'bs=4k']).catch(() => undefined);
    },
    async free() {
      await rm(ballast, { force: true });
      const isOver = await Promise.race([server.exited.then(() => true), pause(1000, false)]);
      if (!isOver) return;
      await sql.end({ timeout: 0 });
      await start();
    },
  };
  return {
    url,
    sql: () => sql,
    disk: hasDisk ? disk : undefined,
    postgres: {
      async stop() {
        await sql.end({ timeout: 0 });
        await server.stop();
      },
      start,
      freeze,
      backUp: () => copyFiles(cluster, copy),
      restore: () => copyFiles(copy, cluster),
    },
  };
};

/** Nothing where the process has ended: a backend lives as long as its connection. */
function signal(pid: number, name: 'SIGSTOP' | 'SIGCONT'): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
