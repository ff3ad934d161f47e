// Two servers without a manager: the operator's hand, this script's, promotes the standby. Daemons
// have both hosts in DATABASE_URL.
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePorts } from '../../src/local/sandbox/ports.ts';
import {
  caughtUp,
  detach,
  follow,
  freezeServer,
  initialize,
  killServer,
  ownDirectory,
  type Server,
  startServer,
  stopServer,
} from '../fixtures/debian-postgres.ts';
import type { Cluster, OnStop } from './cluster.ts';

/** Time until the operator, or the program in the operator's place, acts. */
const REACTION_MS = 2000;

export interface Pair extends Cluster {
  /** The standby gets no WAL for so long, then the primary dies and the standby is promoted. */
  loseCommits(ms: number): Promise<void>;
  /** Makes the standby a primary beside the old one; resolves with the URL of the new one alone. */
  split(): Promise<string>;
  /** Kills the old primary after a split. */
  fence(): Promise<void>;
}

/** Starts both below `root`. With `isSynchronous` commits wait for the standby. */
export async function startPair(
  root: string,
  onStop: OnStop,
  { isSynchronous }: { isSynchronous: boolean },
): Promise<Pair> {
  await ownDirectory(root);
  const ports = await freePorts(2);
  const [first, second] = ports.map((port) => ({ port, directory: join(root, String(port)) }));
  if (first === undefined || second === undefined) throw new RangeError('two ports');
  await initialize(first);
  const all = new Set<Server>();
  const keep = (server: Server) => {
    all.add(server);
    return server;
  };
  onStop(() => Promise.all([...all].map(killServer)));
  let primary = keep(await startServer(first));
  let standby = keep(await follow(primary, second));
  let old: Server | undefined;
  const waitFor = async ({ sql }: Server, names: string) => {
    await sql.unsafe(`alter system set synchronous_standby_names = '${names}'`);
    await sql`select pg_reload_conf()`;
  };
  if (isSynchronous) await waitFor(primary, '*');

  const promote = async () => {
    await standby.sql`select pg_promote()`;
    [old, primary] = [primary, standby];
  };
  const restartServer = async (server: Server) => {
    await stopServer(server);
    return keep(await startServer(server));
  };
  const urlOf = (...hosts: number[]) =>
    `postgres://postgres@${hosts.map((port) => `127.0.0.1:${port}`).join()}/postgres`;

  return {
    url: urlOf(...ports),
    sql: () => primary.sql,
    async crash() {
      await killServer(primary);
      await pause(REACTION_MS);
      await promote();
    },
    async freeze() {
      await freezeServer(primary);
      await pause(REACTION_MS);
      // It stays frozen: a server that woke up would be a second primary. What this process has
      // asked it is asked again at the new one.
      await primary.sql.end({ timeout: 0 });
      await promote();
    },
    async loseStandby() {
      await killServer(standby);
      await pause(REACTION_MS);
      await waitFor(primary, '');
    },
    async restart() {
      standby = await restartServer(standby);
      primary = await restartServer(primary);
    },
    async loseCommits(ms) {
      await caughtUp(primary, standby);
      await detach(standby);
      await pause(ms);
      await killServer(primary);
      await promote();
    },
    async split() {
      await caughtUp(primary, standby);
      await promote();
      return urlOf(primary.port);
    },
    async fence() {
      if (old !== undefined) await killServer(old);
    },
  };
}
