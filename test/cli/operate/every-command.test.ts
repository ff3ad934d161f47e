// Common behaviour of all admin commands: wrong usage, a Postgres outage, signals, a closed pipe,
// with and without a terminal.
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { ReservedSql } from 'postgres';
import t, { type Test } from 'tap';
import { ENDING_SIGNALS, type EndingSignal } from '../../../src/errors.ts';
import {
  type Outcome,
  run,
  type Running,
  runShared,
  start,
  withoutProgress,
} from '../../fixtures/command.ts';
import { randomAddress } from '../../fixtures/http.ts';
import { isLong } from '../../fixtures/long.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { startProxy } from '../../fixtures/proxy.ts';
import { insertMerchant } from '../../fixtures/rows.ts';
import { startTerminal } from '../../fixtures/terminal.ts';
import { until } from '../../fixtures/webhooks.ts';

const { sql, url } = await testDatabase(t);
const merchant = await insertMerchant(sql, { name: 'Beans \u001b[2J' });
await sql`
  insert into api_keys (merchant_id, prefix, hash)
  select ${merchant.id}, 'sk_test_' || lpad(number::text, 6, '0'), sha256(number::text::bytea) from generate_series(1, 2500) as number`;
const [{ id: keyId }] = await sql<
  [{ id: string }]
>`select id from api_keys order by id desc limit 1`;
const nobody = '01a1fd7a-183d-7a6e-8756-a417420d830b';
const env = { DATABASE_URL: url, ENCRYPTION_KEY: 'an encryption key of 32 bytes ...' };
const chainEnv = { ...env, SOLANA_RPC_URL: 'http://127.0.0.1:1', KEEPER_ADDRESS: randomAddress() };

/** One of each, which all read or write a table at once. */
const everyCommand: string[][] = [
  ['keys', 'list'],
  ['keys', 'create', merchant.id],
  ['keys', 'revoke', keyId],
  ['keys', 'reseal'],
  ['merchants', 'list'],
  ['merchants', 'show', merchant.wallet],
  ['merchants', 'set-tier', merchant.wallet, 'pro'],
  ['merchants', 'set-fee', merchant.wallet, '50'],
  ['status'],
  ['replay', '--app', merchant.appId, '--yes'],
  ['reconcile'],
  ['migrate'],
];

/** Every third command. The short form has one third. */
const thirds = (isLong ? [0, 1, 2] : [0]).map((n) =>
  everyCommand.filter((_, index) => index % 3 === n),
);

/**
 * Takes locks in a transaction of its own; returns what gives them back, at the latest when the
 * test ends.
 */
async function hold(
  t: Test,
  take: (session: ReservedSql) => Promise<unknown>,
): Promise<() => Promise<void>> {
  const session = await sql.reserve();
  await session`begin`;
  await take(session);
  let isHeld = true;
  const release = async () => {
    if (!isHeld) return;
    isHeld = false;
    await session`commit`;
    session.release();
  };
  t.teardown(release);
  return release;
}

/** The sessions of commands, but not of this test. */
const ofCommands = sql`datname = current_database() and application_name like 'billing %' and application_name <> 'billing test'`;

/** Ends the sessions of commands; returns how many there were. */
async function endSessions(): Promise<number> {
  const ended = await sql`
    select pg_terminate_backend(pid) from pg_stat_activity where ${ofCommands}`;
  return ended.length;
}

/**
 * Starts these commands while what each of them needs is locked, and resolves when all of them wait
 * for it.
 */
async function allWaiting(
  t: Test,
  some: string[][],
  databaseUrl: string,
): Promise<{ name: string; running: Running }[]> {
  // Sessions of commands that a test before cut off still wait for locks, and would wait for ours
  // in the middle of taking them.
  await until(async () => (await endSessions()) === 0);
  await hold(t, async (session) => {
    await session`lock table merchants, api_keys, apps, webhook_endpoints, plans, payments, subscriptions, deliveries, events in access exclusive mode`;
    // The advisory lock of "billing migrate" (src/db/postgres/migrate.ts).
    await session`select pg_advisory_xact_lock(2455464)`;
  });
  const commands: { name: string; running: Running }[] = [];
  // "status" starts last: it gives up after five seconds.
  for (const args of some.toSorted((one) => (one[0] === 'status' ? 1 : 0))) {
    const given = { ...(args[0] === 'reconcile' ? chainEnv : env), DATABASE_URL: databaseUrl };
    commands.push({ name: args.join(' '), running: start(t, args, given) });
    await until(async () => {
      const [{ waiting }] = await sql<[{ waiting: number }]>`
        select count(*)::int as waiting from pg_stat_activity
        where (wait_event_type = 'Lock' or query ~ 'pg_try_advisory_lock') and ${ofCommands}`;
      return waiting === commands.length;
    });
  }
  return commands;
}

function isClear(
  t: Test,
  name: string,
  { stderr, stdout }: Pick<Outcome, 'stderr' | 'stdout'>,
): void {
  t.notMatch(`${stdout}${stderr}`, /\n\s+at |Error:|EPIPE/, `${name}: no stack trace`);
}

void t.test(
  'wrong usage prints one line and exits with code 2, an unknown id exits with code 1',
  async (t) => {
    const cases: [string[], number, RegExp][] = [
      [['keys'], 2, /Usage: billing keys/],
      [['keys', 'list', 'x'], 2, /"x" is neither the id of a merchant \(a UUID\) nor a wallet/],
      [['keys', 'list', nobody], 1, new RegExp(`There is no merchant ${nobody}`)],
      [['keys', 'create'], 2, /missing required argument 'merchant'/],
      [
        ['keys', 'create', randomAddress()],
        1,
        /There is no merchant .*: the wallet's first sign-in creates it/,
      ],
      [['keys', 'revoke', 'sk_test_1'], 2, /"sk_test_1" is not an id: it should be a UUID/],
      [['keys', 'revoke', nobody], 1, /There is no key .*"billing keys list" shows them/],
      [['merchants', 'list', '--tier', 'gold'], 2, /--tier.*must be one of free, pro/],
      [['merchants', 'show', nobody], 1, /There is no merchant/],
      [['merchants', 'set-tier', merchant.id, 'gold'], 2, /must be one of free, pro/],
      [['merchants', 'set-fee', merchant.id, '10001'], 2, /must be a whole number from 0 to 10000/],
      [['merchants', 'set-fee', nobody, '1'], 1, /There is no merchant/],
      [['merchants', 'set-tier', nobody, 'pro'], 1, /There is no merchant/],
      [['status', '--min-sol', 'much'], 2, /--min-sol.*must be an amount of SOL such as 0\.25/],
      [['replay'], 2, /Say what to replay/],
      [['replay', nobody], 1, /There is no delivery/],
      [['replay', '--app', nobody], 1, /There is no app/],
      [['replay', '--webhook', nobody], 1, /There is no webhook endpoint/],
      [
        ['reconcile', '--since', '2026-02-01', '--until', '2026-01-01'],
        2,
        /--since must be before --until/,
      ],
      [['reconcile'], 2, /SOLANA_RPC_URL is required/],
      [['merchants', 'list', '--fast'], 2, /unknown option '--fast'/],
    ];
    const outcomes = await Promise.all(cases.map(([args]) => runShared(args, env)));
    for (const [index, [args, code, message]] of cases.entries()) {
      const outcome = outcomes[index]!;
      t.match(outcome, { code, stderr: message, stdout: '' }, args.join(' '));
      isClear(t, args.join(' '), outcome);
    }
    t.match(await runShared(['reconcile'], chainEnv), { code: 1, stderr: /127\.0\.0\.1:1/ });
  },
);

for (const some of thirds) {
  const names = some.map((args) => args.slice(0, 2).join(' ')).join(', ');
  void t.test(
    `losing Postgres prints progress after a second, then one error line, exit code 1: ${names}`,
    async (t) => {
      const wire = await startProxy(t, Number(new URL(url).port));
      const behind = new URL(url);
      behind.port = String(wire.port);
      const commands = await allWaiting(t, some, behind.href);
      const listing = commands.find(({ name }) => name === 'keys list');
      await listing?.running.says(/^billing: reading keys: [1-9]\d* s$/);
      wire.cut();
      for (const { name, running } of commands) {
        const outcome = await running.ended;
        t.equal(outcome.code, 1, name);
        isClear(t, name, outcome);
        // It shows the results that do not need Postgres.
        if (name === 'status') {
          t.match(outcome.stdout, /Postgres/);
          continue;
        }
        t.match(
          outcome.stderr,
          /billing: Postgres at 127\.0\.0\.1:\d+, database "billing_test_\w+" was lost during the command \([A-Z0-9_]+\)/,
          name,
        );
        t.equal(outcome.stdout, '', name);
      }
    },
  );

  void t.test(`a signal ends each command immediately, with its exit code: ${names}`, async (t) => {
    const signals = Object.entries(ENDING_SIGNALS) as [EndingSignal, number][];
    const commands = (await allWaiting(t, some, url)).map((command, index) => {
      const [signal, code] = signals[index % signals.length]!;
      return { ...command, signal, code };
    });
    for (const { running, signal } of commands) running.child.kill(signal);
    for (const { name, running, signal, code } of commands) {
      const outcome = await running.ended;
      t.match(
        outcome,
        { code, stderr: /billing: Interrupted[^\n]*\.$/m, stdout: '' },
        `${name}, ${signal}`,
      );
      isClear(t, name, outcome);
    }
  });
}

void t.test(
  'keys list into a closed pipe (| head) is no error, and no further rows are read',
  async (t) => {
    const program = fileURLToPath(new URL('../../../bin/billing.js', import.meta.url));
    for (const json of ['', ' --json']) {
      const child = spawn(
        'bash',
        ['-c', `"$NODE" "$PROGRAM" keys list${json} | head -n 1; echo "\${PIPESTATUS[0]}"`],
        {
          env: { ...env, PATH: process.env.PATH ?? '', NODE: process.execPath, PROGRAM: program },
          stdio: ['ignore', 'pipe', 'pipe'],
        },
      );
      const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
      t.match(stdout, json === '' ? /^ID .*REVOKED\n0\n$/ : /^\{"id":.*\}\n0\n$/);
      t.equal(withoutProgress(stderr), '');
    }
  },
);

void t.test(
  'lists printed to a pipe are plain tables or one JSON value per line, without colour',
  async (t) => {
    const table = await run(t, ['keys', 'list', merchant.wallet], { ...env, FORCE_COLOR: '1' });
    t.equal(table.code, 0);
    const lines = table.stdout.split('\n');
    t.equal(lines.length, 2501);
    t.match(lines[0], /^ID\s+PREFIX\s+MERCHANT\s+CREATED\s+LAST USED\s+REVOKED$/);
    for (const line of lines.slice(1))
      if (!/^[0-9a-f-]{36} {2}sk_test_\d{6} {2}\S+ {2}\S+Z {2}- {10}-$/.test(line)) t.fail(line);
    t.notMatch(table.stdout, '\u001b');

    const json = await runShared(['keys', 'list', '--json'], env);
    const ids = json.stdout.split('\n').map((line) => (JSON.parse(line) as { id: string }).id);
    t.equal(new Set(ids).size, 2500);
    t.match(
      await runShared(['merchants', 'list'], env),
      { code: 0, stdout: /Beans \\x1b\[2J/ },
      'what merchants wrote moves no cursor',
    );
  },
);

void t.test(
  'lists on a terminal have colour unless NO_COLOR is set; the progress line is removed at the end',
  async (t) => {
    const shown = async (more: Record<string, string>) => {
      const terminal = startTerminal(t, ['merchants', 'list'], {
        columns: 200,
        env: { ...env, ...more },
      });
      t.match(await terminal.ended, { code: 0 });
      t.match(terminal.screen(), /^ID .*CREATED$/m);
      return terminal.written();
    };
    t.match(await shown({}), '\u001b[1mID');
    t.notMatch(await shown({ NO_COLOR: '1' }), '\u001b[1m');

    const release = await hold(
      t,
      (session) => session`lock table merchants in access exclusive mode`,
    );
    const slow = startTerminal(t, ['merchants', 'list'], { columns: 200, env });
    await slow.waitFor(/reading merchants: [1-9]\d* s/);
    await release();
    t.match(await slow.ended, { code: 0 });
    t.notMatch(slow.screen(), 'reading merchants');
  },
);

void t.test(
  'if its output pipe is closed early, a command still does its work and exits with the same code',
  async (t) => {
    const program = fileURLToPath(new URL('../../../bin/billing.js', import.meta.url));
    const { wallet, id } = await insertMerchant(sql);
    const commands = [
      'keys create W',
      'merchants list',
      'merchants show W',
      'merchants set-tier W pro',
      'merchants set-fee W 7',
    ];
    const others = ['status', `replay --app ${merchant.appId} --dry-run`, 'migrate', 'keys reseal'];
    if (isLong) commands.push(...others);
    await Promise.all(
      commands.map(async (command) => {
        const child = spawn(
          'bash',
          [
            '-c',
            `"$NODE" "$PROGRAM" ${command.replace('W', wallet)} | true; echo "\${PIPESTATUS[0]}"`,
          ],
          {
            env: { ...env, PATH: process.env.PATH ?? '', NODE: process.execPath, PROGRAM: program },
            stdio: ['ignore', 'pipe', 'pipe'],
          },
        );
        const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
        // No daemon has run here, and there is work for them.
        t.equal(stdout, command === 'status' ? '1\n' : '0\n', `${command}\n${stderr}`);
        isClear(t, command, { stdout, stderr });
      }),
    );
    t.match(await sql`select tier, fee_bps from merchants where id = ${id}`, [
      { tier: 'pro', feeBps: 7 },
    ]);
    t.equal((await sql`select from api_keys where merchant_id = ${id}`).length, 1);
  },
);
