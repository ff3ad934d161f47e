// One server of Debian's Postgres with backups and an archive by pgBackRest: the files of
// deploy/pgbackrest and the commands of docs/postgres-pair.md, with other paths.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, chown, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePorts } from '../../src/local/sandbox/ports.ts';
import {
  IDENTITY,
  initialize,
  killServer,
  ownDirectory,
  startServer,
} from '../fixtures/debian-postgres.ts';
import { shellBlocks } from '../fixtures/shell-blocks.ts';
import { tool } from '../fixtures/tools.ts';
import type { Database, OnStop } from './cluster.ts';

const run = promisify(execFile);
const FILES = new URL('../../deploy/pgbackrest/', import.meta.url);
const PAGE = new URL('../../docs/postgres-pair.md', import.meta.url);
const LOOK_MS = 100;

export interface Archived extends Database {
  /** Postgres's time, for a restore. */
  now(): Promise<string>;
  /** Resolves when everything that was written until now is in the archive. */
  archive(): Promise<void>;
  /** The machine is lost with its disk; another one is there, with an empty data directory. */
  lose(): Promise<void>;
  /** Brings the files to what they were at that time, and starts the server. */
  restore(target: string): Promise<void>;
}

/** Starts it below `root`; resolves after the first full backup. */
export async function startArchived(root: string, onStop: OnStop): Promise<Archived> {
  await tool('pgbackrest');
  await ownDirectory(root);
  const [port = 0] = await freePorts(1);
  const place = { port, directory: join(root, 'data') };
  const file = await configure(root, place);
  const here = (text: string) => text.replaceAll('pgbackrest --', `pgbackrest --config=${file} --`);
  const settings = {
    unix_socket_directories: root,
    ...(await archiveSettings(here)),
  };
  const blocks = await documented();
  const commands = async (name: keyof typeof blocks, env: Record<string, string> = {}) => {
    await run('bash', ['-euo', 'pipefail', '-c', here(blocks[name])], {
      ...IDENTITY,
      cwd: root,
      env: { PATH: '/usr/bin:/bin', ...env },
    });
  };
  await initialize(place);
  let server = await startServer(place, settings);
  onStop(() => killServer(server));
  await commands('setup');
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    sql: () => server.sql,
    async now() {
      const [row] = await server.sql<[{ now: string }]>`select now()::text as now`;
      return row.now;
    },
    async archive() {
      const [row] = await server.sql<[{ file: string }]>`
        select pg_walfile_name(pg_switch_wal()) as file`;
      const isThere = () => server.sql`
        select from pg_stat_archiver where last_archived_wal >= ${row.file}`;
      while ((await isThere()).length === 0) await pause(LOOK_MS);
    },
    async lose() {
      await killServer(server);
      await rm(place.directory, { recursive: true });
      await ownDirectory(place.directory);
      await chmod(place.directory, 0o700);
    },
    async restore(target) {
      await commands('restore', { TARGET: target });
      server = await startServer(place, settings);
      const recovers = () => server.sql`select where pg_is_in_recovery()`;
      while ((await recovers()).length > 0) await pause(LOOK_MS);
    },
  };
}

/** Writes pgBackRest's file of this place; returns its path. */
async function configure(root: string, place: { port: number; directory: string }) {
  const given = await readFile(new URL('pgbackrest.conf', FILES), 'utf8');
  const own = given
    .replaceAll(/^repo1-(type|s3-.*)=.*\n/gm, '')
    .replace(/^repo1-path=.*$/m, `repo1-path=${join(root, 'repository')}`)
    .replace(/^repo1-cipher-pass=$/m, `repo1-cipher-pass=${randomBytes(48).toString('base64')}`)
    .replace(
      '[global]\n',
      `[global]\nlog-path=${root}\nlock-path=${join(root, 'locks')}\nspool-path=${root}\n`,
    )
    .replace(
      /^pg1-path=.*$/m,
      `pg1-path=${place.directory}\npg1-port=${place.port}\npg1-socket-path=${root}\npg1-user=postgres`,
    );
  const file = join(root, 'pgbackrest.conf');
  await writeFile(file, own, { mode: 0o600 });
  if (IDENTITY.uid !== undefined) await chown(file, IDENTITY.uid, IDENTITY.gid);
  return file;
}

async function archiveSettings(here: (text: string) => string): Promise<Record<string, string>> {
  const text = await readFile(new URL('postgresql.conf', FILES), 'utf8');
  return Object.fromEntries(
    [...text.matchAll(/^(\w+) = '?(.*?)'?$/gm)].map(([, name = '', value = '']) => [
      name,
      here(value),
    ]),
  );
}

/** The page's blocks of pgBackRest: how it is set up, and how one restores. */
async function documented(): Promise<{ setup: string; restore: string }> {
  const blocks = shellBlocks(await readFile(PAGE, 'utf8'))
    .filter(({ needs }) => needs.includes('pgbackrest'))
    .map(({ script }) => script);
  const [setup, restore, ...more] = blocks;
  if (setup === undefined || restore === undefined || more.length > 0)
    throw new Error(`docs/postgres-pair.md has ${blocks.length} blocks of pgBackRest, not two`);
  return { setup, restore };
}
