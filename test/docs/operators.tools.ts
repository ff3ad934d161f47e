// Every shell block of the operators' pages, run in order with bash -euo pipefail, as an operator
// would: the three daemons run on a database and a local chain of their own, a merchant has a
// webhook that was given up. Paths of the machine (/etc, /usr/local/bin, /opt/billing) become
// folders of the test, and the documented ports those that the daemons have. systemd and Docker are
// stood in for (test/fixtures/stand-ins): neither is to be booted here. Blocks marked "registry"
// are run by test/package/pack.package.ts.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { loadConfig } from '../../src/config/config.ts';
import { connect } from '../../src/db/postgres/connect.ts';
import { daemonEnv, daemons, startReady } from '../fixtures/daemons.ts';
import { shellBlocks } from '../fixtures/shell-blocks.ts';
import { needTools } from '../fixtures/tools.ts';
import { encryptionKey, queueDeliveries, seedApp, finishDeliveries } from '../fixtures/webhooks.ts';

const execute = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
const standIns = fileURLToPath(new URL('../fixtures/stand-ins', import.meta.url));
const pages = ['operators.md', 'runbook.md'];

interface Place {
  env: Record<string, string>;
  databaseUrl: string;
  /** A script with the paths and ports of this place. */
  here: (text: string) => string;
  path: (name: string) => string;
  /** Starts the dispatcher again with the rotated key, as systemctl would. */
  restartDispatch: () => Promise<void>;
}

async function prepare(t: Test): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), 'billing-docs-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const path = (name: string) => join(folder, name);
  for (const name of ['etc/systemd/system', 'bin', 'logs', 'work', 'front'])
    await mkdir(path(name), { recursive: true });
  const config: Record<string, string> = { ...(await daemonEnv(t)), ENCRYPTION_KEY: encryptionKey };
  const sql = connect(config.DATABASE_URL ?? '', { max: 2, name: 'billing docs test' });
  const restored = `billing_restored_${process.pid}`;
  const roles = `billing_${process.pid}`;
  const server = new URL(config.DATABASE_URL ?? '');
  const database = server.pathname.slice(1);
  t.teardown(async () => {
    await sql.unsafe(`drop database if exists ${restored} with (force)`);
    await sql.unsafe(`alter database ${database} owner to current_user`);
    const made = await sql<{ name: string }[]>`
      select rolname as name from pg_roles where starts_with(rolname, ${`${roles}_`})`;
    for (const { name } of made)
      await sql.unsafe(`drop owned by ${name} cascade; drop role ${name}`);
    await sql.end({ timeout: 1 });
  });
  const app = await seedApp(sql, 'http://127.0.0.1:1/hook');
  await sql`update plans set plan_pda = ${config.KEEPER_ADDRESS ?? ''}`;
  await queueDeliveries(sql, app, 1);
  await finishDeliveries(sql, 'failed');
  const [merchant] = await sql<{ wallet: string }[]>`
    select m.wallet from apps join merchants m on m.id = merchant_id`;
  const [leaving] = await sql<{ id: string }[]>`
    insert into merchants (wallet) values ('leaving') returning id`;
  const ports: Record<string, string> = {};
  let dispatch: Awaited<ReturnType<typeof startReady>> | undefined;
  const restartDispatch = async () => {
    dispatch?.child.kill('SIGTERM');
    await dispatch?.ended;
    const key = (await readFile(path('etc/billing/credentials/encryption_key'), 'utf8')).trim();
    // The page re-encrypts the secrets of the database that it has restored, not of this one.
    const keys = `${key},${encryptionKey}`;
    dispatch = await startReady(t, 'dispatch', { ...config, ENCRYPTION_KEY: keys });
    ports[9466] = new URL(dispatch.metricsUrl).port;
  };
  for (const [index, daemon] of daemons.entries()) {
    const running = await startReady(t, daemon, config);
    if (daemon === 'dispatch') dispatch = running;
    ports[9464 + index] = new URL(running.metricsUrl).port;
    if (daemon === 'serve')
      ports[3000] = new URL(
        (JSON.parse(await running.line(/"address":.*"listening"/)) as { address: string }).address,
      ).port;
    await writeFile(path(`logs/${daemon}.log`), `${await running.line(`${daemon} is running`)}\n`);
  }
  const here = (text: string) =>
    text
      .replaceAll('/opt/billing', root)
      .replaceAll('/etc/', `${path('etc')}/`)
      .replaceAll('/usr/local/bin/', `${path('bin')}/`)
      .replaceAll('/usr/bin/node', process.execPath)
      .replaceAll('billing_restored', restored)
      // The database is there, with tables of the superuser: the owner is one too, and takes it
      // over.
      .replaceAll(
        "create database billing owner billing_owner encoding 'UTF8' template template0",
        `alter database ${database} owner to billing_owner`,
      )
      .replaceAll('login createrole', 'login superuser createrole')
      .replaceAll('\\connect billing', `\\connect ${database}`)
      .replaceAll('127.0.0.1:5432/billing', `${server.host}/${database}`)
      .replaceAll('billing_owner', `${roles}_owner`)
      .replaceAll(/127\.0\.0\.1:(\d{4})\b/g, (whole, port: string) =>
        ports[port] === undefined ? whole : `127.0.0.1:${ports[port]}`,
      );
  // Stand-ins precede the programs in PATH, and so does billing itself, with the paths of the test.
  for (const name of ['systemctl', 'journalctl', 'docker'])
    await symlink(join(standIns, name), path(`front/${name}`));
  await writeFile(
    path('front/billing'),
    here(await readFile(join(root, 'deploy/systemd/billing'), 'utf8')),
    { mode: 0o755 },
  );
  await symlink(process.execPath, path('front/node'));
  const { DATABASE_URL = '', SOLANA_RPC_URL = '', ...plain } = config;
  await writeFile(
    path('billing.env'),
    ['SOLANA_CLUSTER', 'USDC_MINT', 'KEEPER_ADDRESS', 'PLATFORM_TREASURY']
      .map((name) => `${name}=${plain[name] ?? ''}\n`)
      .join('')
      .concat('BILLING_ENV=development\n'),
  );
  return {
    path,
    restartDispatch,
    databaseUrl: DATABASE_URL,
    here,
    env: {
      PATH: [path('front'), process.env.PATH].join(delimiter),
      HOME: folder,
      UNITS: path('etc/systemd/system'),
      LOGS: path('logs'),
      PGHOST: server.hostname,
      PGPORT: server.port,
      PGUSER: decodeURIComponent(server.username),
      PGPASSWORD: decodeURIComponent(server.password),
      SOLANA_RPC_URL,
      APP: app.appId,
      MERCHANT_WALLET: merchant?.wallet ?? '',
      LEAVING: leaving?.id ?? '',
    },
  };
}

/** Throws an Error unless this machine's pg_dump supports the server: it refuses a newer one. */
async function needDump(url: string): Promise<void> {
  await needTools('pg_dump', 'pg_restore', 'psql');
  const { stdout } = await execute('pg_dump', ['--version']);
  const sql = connect(url, { max: 1, name: 'billing docs test' });
  const [server] = await sql<
    { major: number }[]
  >`select current_setting('server_version_num')::int / 10000 as major`;
  await sql.end();
  const ours = Number(/ (\d+)\./.exec(stdout)?.[1]);
  if (server === undefined || server.major > ours)
    throw new Error(
      `pg_dump ${ours} cannot read Postgres ${server?.major ?? '?'}: name a server of its version in DATABASE_URL`,
    );
}

interface Result {
  code: number | null;
  output: string;
}

/** "billing status" ends with 1 here, as its page says: a delivery was given up. */
const STATUS = 'billing() { command billing "$@" || [ "$1 $?" = "status 1" ]; }\n';

async function bash({ here, path, env }: Place, script: string): Promise<Result> {
  const child = spawn('bash', ['-euo', 'pipefail', '-c', STATUS + here(script)], {
    cwd: path('work'),
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output };
}

void t.test("every command of the operators' pages works", async (t) => {
  await needTools('bash', 'curl', 'jq', 'openssl');
  const place = await prepare(t);
  await needDump(place.databaseUrl);
  let restarted = false;
  for (const page of pages) {
    for (const { line, needs, script } of shellBlocks(
      await readFile(join(root, 'docs', page), 'utf8'),
    )) {
      if (needs.includes('registry')) continue;
      if (page === 'runbook.md' && !restarted) {
        restarted = true;
        await place.restartDispatch();
      }
      const result = await bash(place, script);
      t.equal(result.code, 0, `docs/${page}:${line}\n${result.output}`);
      await afterwards(t, place);
    }
  }
  for (const name of ['jwt_secret', 'database_url', 'serve_database_url'])
    t.equal(
      await modeOf(place, `etc/billing/credentials/${name}`),
      0o600,
      `${name} is root's alone`,
    );
  for (const name of ['billing.dump', 'pg_service.conf'])
    t.equal(await modeOf(place, `work/${name}`), 0o600, `${name} is its maker's alone`);
});

async function modeOf({ path }: Place, name: string): Promise<number> {
  return (await stat(path(name))).mode & 0o777;
}

/**
 * The operator's part: sets the variables without a value in billing.env, and creates credentials
 * with which the daemons start.
 */
async function afterwards(t: Test, { path }: Place) {
  const text = await readFile(path('etc/billing/billing.env'), 'utf8').catch(() => undefined);
  if (text === undefined) return;
  const chosen = await readFile(path('billing.env'), 'utf8');
  if (!text.endsWith(chosen)) {
    await chmod(path('etc/billing/billing.env'), 0o644);
    await writeFile(path('etc/billing/billing.env'), text + chosen);
    // The first block made secrets of its own; this installation has had others from before, under
    // which its webhook secret is encrypted.
    await writeFile(path('etc/billing/credentials/encryption_key'), encryptionKey);
  }
  const hasRoles = existsSync(path('etc/billing/credentials/serve_database_url'));
  const credential = (name: string) => path(`etc/billing/credentials/${name}`);
  const env = {
    ...Object.fromEntries(
      chosen
        .trim()
        .split('\n')
        .map((line) => line.split('=') as [string, string]),
    ),
    // The role's own, from the block on that makes the roles.
    DATABASE_URL_FILE: credential(hasRoles ? 'serve_database_url' : 'database_url'),
    SOLANA_RPC_URL_FILE: credential('solana_rpc_url'),
    JWT_SECRET_FILE: credential('jwt_secret'),
    ENCRYPTION_KEY_FILE: credential('encryption_key'),
  };
  t.doesNotThrow(() => loadConfig('serve', { env }));
}
