// billing doctor before a first start: it reports what is right, and what to do about the rest.
import { chmodSync } from 'node:fs';
import t from 'tap';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { runShared } from '../../fixtures/command.ts';
import { asDaemon, daemonEnv } from '../../fixtures/daemons.ts';
import { testDatabase } from '../../fixtures/postgres.ts';

interface Report {
  ok: boolean;
  checks: { name: string; state: string; detail: string }[];
}

/** Runs it; resolves with the exit code and the checks, each as one line. */
async function examine(env: Record<string, string>, ...flags: string[]) {
  const { code, stdout } = await runShared(['doctor', '--json', ...flags], env);
  const { ok, checks } = JSON.parse(stdout) as Report;
  const all = (state: string) =>
    checks.flatMap((check) => (check.state === state ? `${check.name}: ${check.detail}` : []));
  const names = checks.map(({ name }) => name);
  return { code, ok, todo: all('todo'), unchecked: all('unchecked'), names };
}

const { sql, url } = await testDatabase(t);
const env = await daemonEnv(t, url);

void t.test('doctor prints one line per check, exits with code 0 and writes nothing', async (t) => {
  const shown = await runShared(['doctor'], env);
  t.equal(shown.code, 0, shown.stdout + shown.stderr);
  for (const line of [
    /^ok +Configuration +has every variable of serve, keeper, dispatch \(development, localnet\)$/m,
    /^ok +Postgres +127\.0\.0\.1:\d+, database "\w+", version \d+/m,
    /^ok +Schema +version \d+$/m,
    /^ok +Roles +\w+ owns the schema; \w+_serve, \w+_keeper, \w+_dispatch, \w+_reconcile have their rights$/m,
    /^ok +Installation +none yet: the first daemon records this configuration$/m,
    /^ok +Secrets +ENCRYPTION_KEY opens every webhook secret$/m,
    /^ok +RPC http:\/\/127\.0\.0\.1:\d+ +localnet, slot \d+/m,
    /^ok +WebSocket ws:\/\/127\.0\.0\.1:\d+ +takes the subscriptions of a keeper$/m,
    /^ok +Program /m,
    /^ok +Mint /m,
    new RegExp(`^ok +Treasury +${env.PLATFORM_TREASURY ?? ''} has an account`, 'm'),
    new RegExp(`^ok +Keypair +${env.KEEPER_ADDRESS ?? ''}$`, 'm'),
    /^ok +Keeper +\w+ has 10 SOL$/m,
    /^ok +Clocks +this host agrees with Postgres$/m,
  ])
    t.match(shown.stdout, line);
  t.equal(shown.stdout.split('\n').length, 15);
  t.same(await sql`select from installation`, []);
  t.same(await sql`select from daemons`, []);
  const own = await examine(asDaemon(env, 'keeper'), '--for', 'keeper');
  t.match(own, { code: 0, ok: true, todo: [] }, 'with the role of a daemon');
});

void t.test('doctor names what is missing in Postgres and how to fix it', async (t) => {
  const [role] = await sql<[{ name: string }]>`select current_user || '_serve' as name`;
  await sql.unsafe(`revoke update (name) on plans from "${role.name}"`);
  await sql.unsafe(`revoke delete on app_logos from "${role.name}"`);
  const lacking = await examine(env);
  t.match(lacking, { code: 1, ok: false });
  t.match(lacking.todo, [
    /^Roles: \w+_serve lacks (delete on app_logos, update on plans|update on plans, delete on app_logos)\. Run "billing migrate --roles/,
  ]);
  await sql.unsafe(`grant update (name) on plans to "${role.name}"`);
  await sql.unsafe(`grant delete on app_logos to "${role.name}"`);

  await sql`update pg_database set datcollversion = '0.1' where datname = current_database()`;
  const sorted = await examine(env, '--for', 'dispatch');
  t.match(sorted.todo, [
    /^Collations: .*the database has version 0\.1.*: reindex \(concurrently\) database \w+; alter/,
  ]);
  await sql`update pg_database set datcollversion = null where datname = current_database()`;

  const name = `billing_empty_${process.pid}`;
  await sql.unsafe(`create database ${name} template template0 encoding 'UTF8'`);
  const empty = new URL(url);
  empty.pathname = `/${name}`;
  const first = await examine({ ...env, DATABASE_URL: empty.href });
  t.same(first.todo, ['Schema: The database has no schema yet. Run "billing migrate" first.']);
  t.match(first.unchecked, [/^Roles: the schema comes first/, /^Installation/, /^Secrets/]);
  await sql.unsafe(`drop database ${name}`);

  await sql`
    insert into installation (cluster, mint, program_id, keepers, treasuries, fee_bps, window_seconds)
    values ('localnet', ${env.USDC_MINT ?? ''}, 'De1egAFMkMWZSN5rYXRj9CAdheBamobVNubTsi9avR44',
      ${[env.KEEPER_ADDRESS ?? '']}, ${['another']}, 100, 900)`;
  const differs = await examine(env, '--for', 'dispatch');
  t.match(differs.todo, [
    /^Installation: PLATFORM_TREASURY is \w+ here and another in the database/,
  ]);
  await sql`delete from installation`;

  const gone = await examine({
    ...env,
    DATABASE_URL: 'postgres://billing:hunter2@127.0.0.1:1/ledger',
  });
  t.match(gone.todo, [/^Postgres: Postgres at 127\.0\.0\.1:1, database "ledger" cannot be used/]);
  t.notMatch(JSON.stringify(gone), 'hunter2');
});

void t.test('doctor names what is missing on the chain and in the configuration', async (t) => {
  const stranger = generateKeypair().address;
  const poor = await examine({
    ...env,
    KEEPER_KEYPAIR: '',
    KEEPER_ADDRESS: stranger,
    PLATFORM_TREASURY: stranger,
    SOLANA_RPC_URL: `${env.SOLANA_RPC_URL ?? ''},http://127.0.0.1:1`,
    SOLANA_WS_URL: `${env.SOLANA_WS_URL ?? ''},ws://127.0.0.1:1`,
  });
  t.equal(poor.code, 1);
  t.match(poor.todo, [
    /^Configuration: KEEPER_KEYPAIR is required: .* \(keeper\)$/,
    /^RPC http:\/\/127\.0\.0\.1:1: .*Check SOLANA_RPC_URL and SOLANA_CLUSTER/,
    /^WebSocket ws:\/\/127\.0\.0\.1:1: .*Check SOLANA_WS_URL/,
    /^Treasury: The wallet of PLATFORM_TREASURY \w+ has no account for the mint.*spl-token create-account/,
    /^Keeper: \w+ has 0 SOL, and needs at least 0\.1: send it some$/,
  ]);
  chmodSync(env.KEEPER_KEYPAIR ?? '', 0o644);
  const open = await examine({ ...env, USDC_MINT: stranger, SUBSCRIPTIONS_PROGRAM_ID: stranger });
  chmodSync(env.KEEPER_KEYPAIR ?? '', 0o600);
  for (const line of [
    /^Keypair: KEEPER_KEYPAIR cannot be used/,
    /^Program: There is no Subscriptions program at/,
    /^Mint: There is no SPL Token mint at/,
  ])
    t.ok(
      open.todo.some((text) => line.test(text)),
      String(line),
    );
  const devnet = await examine({ ...env, SOLANA_CLUSTER: 'devnet', USDC_MINT: '' });
  t.match(devnet.todo[0], /^RPC .*: SOLANA_CLUSTER is devnet, but the RPC endpoint serves/);

  const none = await examine({});
  t.equal(none.code, 1);
  t.match(
    none.todo[0],
    /^Configuration: DATABASE_URL is required: .* \(serve, keeper, dispatch\)$/,
  );
  t.ok(none.unchecked.includes('Postgres: DATABASE_URL is not set'));
  const few = await examine({ PORT: 'many' }, '--for', 'dispatch');
  t.same(new Set(few.names), new Set(['Configuration']), 'the rest needs a valid configuration');
});
