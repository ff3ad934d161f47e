// Two servers that Patroni runs, with etcd, behind HAProxy: the files of deploy/patroni with other
// addresses.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parse, stringify } from 'yaml';
import { connect, type Sql } from '../../src/db/postgres/connect.ts';
import { freePorts } from '../../src/local/sandbox/ports.ts';
import { childrenOf } from '../fixtures/children.ts';
import { BINARIES, IDENTITY, ownDirectory, signal } from '../fixtures/debian-postgres.ts';
import type { Cluster, OnStop } from './cluster.ts';
import type { Programs } from './packages.ts';

const FILES = new URL('../../deploy/patroni/', import.meta.url);
const LOOK_MS = 100;
const REQUEST_MS = 2000;
/** Debian's: another one, first on the PATH, would not have Debian's modules. */
const PYTHON = '/usr/bin/python3';

interface Node {
  name: string;
  port: number;
  restPort: number;
  directory: string;
  process: ChildProcess | undefined;
}

interface Configuration {
  name: string;
  restapi: { listen: string; connect_address: string };
  etcd3: { hosts: string[] };
  postgresql: Record<string, unknown>;
  watchdog: { mode: string };
}

/** Starts everything below `root`; resolves when HAProxy leads to a primary with a standby. */
export async function startPatroni(
  root: string,
  onStop: OnStop,
  { paths, env }: Programs,
): Promise<Cluster> {
  await ownDirectory(root);
  const [etcd = 0, peer = 0, proxyPort = 0, ...ports] = await freePorts(7);
  const spawnAs = (name: string, command: string, args: string[]) => {
    const log = createWriteStream(join(root, `${name}.log`), { flags: 'a' });
    const child = spawn(command, args, {
      ...IDENTITY,
      cwd: root,
      env: { PATH: '/usr/bin:/bin', LC_ALL: 'C.UTF-8', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    child.stdout.pipe(log, { end: false });
    child.stderr.pipe(log, { end: false });
    return child;
  };
  const started = (child: ChildProcess) => {
    const kill = () => void child.kill('SIGKILL');
    process.once('exit', kill);
    const ended = once(child, 'exit').then(() => process.off('exit', kill));
    onStop(async () => {
      kill();
      await ended;
    });
    return child;
  };
  const etcdUrl = `http://127.0.0.1:${etcd}`;
  const peerUrl = `http://127.0.0.1:${peer}`;
  const clients = ['--listen-client-urls', etcdUrl, '--advertise-client-urls', etcdUrl];
  const peers = ['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl];
  const cluster = ['--initial-cluster', `default=${peerUrl}`];
  const data = ['--data-dir', join(root, 'etcd'), '--unsafe-no-fsync'];
  started(spawnAs('etcd', paths.etcd, [...clients, ...peers, ...cluster, ...data]));
  await until(async () => (await ask(`${etcdUrl}/health`)) === 200);

  const nodes = [0, 1].map((index) => ({
    name: `db${index + 1}`,
    port: ports[index * 2] ?? 0,
    restPort: ports[index * 2 + 1] ?? 0,
    directory: join(root, `db${index + 1}`),
    process: undefined as ChildProcess | undefined,
  }));
  for (const node of nodes) {
    const file = join(root, `${node.name}.yaml`);
    await writeFile(file, await configurationOf(node, `127.0.0.1:${etcd}`));
    node.process = started(spawnAs(node.name, PYTHON, [paths.patroni, file]));
    onStop(() => killNode(node));
    // The second one is a copy of the first.
    if (node === nodes[0]) await until(async () => (await primaryOf(nodes)) !== undefined);
  }
  const proxyFile = join(root, 'haproxy.cfg');
  await writeFile(proxyFile, await proxyConfiguration(nodes, proxyPort));
  started(spawnAs('haproxy', paths.haproxy, ['-db', '-f', proxyFile]));
  const url = `postgres://postgres@127.0.0.1:${proxyPort}/postgres`;
  const sql = connect(url, { max: 3, name: 'billing failover' });
  onStop(() => sql.end({ timeout: 0 }));
  await until(() => hasStandby(sql));
  return clusterOf(url, sql, nodes);
}

function clusterOf(url: string, sql: Sql, nodes: readonly Node[]): Cluster {
  const primary = async () => {
    const found = await primaryOf(nodes);
    if (found === undefined) throw new Error('Patroni has no primary');
    return found;
  };
  const other = (node: Node) => nodes.find((one) => one !== node) as Node;
  const replaced = async (node: Node) => {
    await until(async () => (await primaryOf([other(node)])) !== undefined);
  };
  return {
    url,
    sql: () => sql,
    async crash() {
      const node = await primary();
      await killNode(node);
      await replaced(node);
    },
    async freeze() {
      const node = await primary();
      for (const pid of await processesOf(node)) signal(pid, 'SIGSTOP');
      await replaced(node);
    },
    async loseStandby() {
      await killNode(other(await primary()));
      await until(
        async () =>
          (
            await sql`select 1 where current_setting('synchronous_standby_names') = ''`.catch(
              () => [],
            )
          ).length > 0,
      );
    },
    async restart() {
      const node = await primary();
      const next = other(node);
      await post(next, '/restart', {});
      await until(() => hasStandby(sql));
      // Patroni takes a moment to accept the restarted server as its synchronous standby.
      const switchover = { leader: node.name, candidate: next.name };
      await until(() => post(node, '/switchover', switchover).then(Boolean, () => false));
      await replaced(node);
      await until(() => hasStandby(sql));
      await post(node, '/restart', {});
    },
  };
}

async function configurationOf({ name, port, restPort, directory }: Node, etcd: string) {
  const given = parse(await readFile(new URL('patroni.yaml', FILES), 'utf8')) as Configuration;
  const [rest, postgres] = [`127.0.0.1:${restPort}`, `127.0.0.1:${port}`];
  return stringify({
    ...given,
    name,
    restapi: { listen: rest, connect_address: rest },
    etcd3: { hosts: [etcd] },
    postgresql: {
      ...given.postgresql,
      ...{ listen: postgres, connect_address: postgres, data_dir: directory, bin_dir: BINARIES },
      pgpass: `${directory}.pgpass`,
      authentication: {
        superuser: { username: 'postgres', password: 'of a test' },
        replication: { username: 'replicator', password: 'of a test' },
      },
      parameters: { unix_socket_directories: '' },
      pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust'],
    },
    watchdog: { mode: 'off' },
  });
}

async function proxyConfiguration(nodes: readonly Node[], port: number): Promise<string> {
  const given = await readFile(new URL('haproxy.cfg', FILES), 'utf8');
  return nodes.reduce(
    (text, node) =>
      text.replace(
        new RegExp(`(server ${node.name}) .*`),
        `$1 127.0.0.1:${node.port} check port ${node.restPort}`,
      ),
    given.replace('bind 127.0.0.1:5000', `bind 127.0.0.1:${port}`),
  );
}

/** Patroni's process, the postmaster, and its children. */
async function processesOf({ process, directory }: Node): Promise<number[]> {
  const file = await readFile(join(directory, 'postmaster.pid'), 'utf8').catch(() => '');
  const postmaster = Number(file.split('\n')[0]);
  const patroni = process?.pid ?? 0;
  if (postmaster === 0) return [patroni];
  return [patroni, postmaster, ...(await childrenOf(postmaster)), ...(await childrenOf(patroni))];
}

async function killNode(node: Node): Promise<void> {
  for (const pid of await processesOf(node)) signal(pid, 'SIGKILL');
}

async function primaryOf(nodes: readonly Node[]): Promise<Node | undefined> {
  for (const node of nodes)
    if ((await ask(`http://127.0.0.1:${node.restPort}/primary`)) === 200) return node;
  return undefined;
}

const hasStandby = (sql: Sql): Promise<boolean> =>
  sql`select from pg_stat_replication where sync_state in ('sync', 'quorum')`.then(
    (rows) => rows.length > 0,
    () => false,
  );

/** The status of the answer; 0 without one. */
async function ask(url: string): Promise<number> {
  return await fetch(url, { signal: AbortSignal.timeout(REQUEST_MS) }).then(
    async (response) => {
      await response.body?.cancel();
      return response.status;
    },
    () => 0,
  );
}

async function post({ restPort }: Node, path: string, body: unknown): Promise<true> {
  const response = await fetch(`http://127.0.0.1:${restPort}${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`Patroni refused ${path}: ${text}`);
  return true;
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await pause(LOOK_MS);
}
