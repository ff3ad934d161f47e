// `billing deliveries` without a terminal, and its errors.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { runShared, start, withoutProgress } from '../../fixtures/command.ts';
import { envOf, openDeliveries } from '../../fixtures/deliveries.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { queueDeliveries, seedApp, until, finishDeliveries } from '../../fixtures/webhooks.ts';

const program = fileURLToPath(new URL('../../../bin/billing.js', import.meta.url));
const nobody = '01a1feba-fd7d-7cf9-bf66-f681e9c4356b';

async function withDeliveries(t: Test, count: number) {
  const database = await testDatabase(t);
  const app = await seedApp(database.sql, 'http://127.0.0.1:9/hook');
  const ids = await queueDeliveries(database.sql, app, count);
  return { ...database, app, ids, env: envOf(database) };
}

void t.test(
  'deliveries prints a table of the newest, or JSON lines, without colour, with the filters of the screen',
  async (t) => {
    const { sql, app, ids, env } = await withDeliveries(t, 60);
    await finishDeliveries(sql, 'failed', { ids: ids.slice(0, 3), attempts: 6 });
    const [plain, some, lines, failed, none] = await Promise.all([
      runShared(['deliveries'], env),
      runShared(['deliveries', '--limit', '2', '--app', app.appId], env),
      runShared(['deliveries', '--json', '--limit', '1000'], env),
      runShared(['deliveries', '--json', '--status', 'failed', '--webhook', app.endpointId], env),
      runShared(['deliveries', '--type', 'cancel_forced'], env),
    ]);
    t.match(plain, { code: 0, stderr: /^These are the newest 50: --limit <n> shows more\.\n$/ });
    const rows = plain.stdout.split('\n');
    t.match(rows[0], /DELIVERY +QUEUED +STATUS +TYPE +TRIES +LAST +NEXT ATTEMPT +APP +ENDPOINT/);
    t.equal(rows.filter((line) => line.includes('pending')).length, 50);
    t.notMatch(plain.stdout, /\x1b/);
    t.match(some.stdout, new RegExp(`${ids.at(-1) ?? ''}[^]*${ids.at(-2) ?? ''}`), 'newest first');
    t.same(
      lines.stdout.split('\n').map((line) => (JSON.parse(line) as { id: string }).id),
      ids.toReversed(),
    );
    t.match(JSON.parse(lines.stdout.split('\n')[0] ?? ''), {
      status: 'pending',
      eventType: 'payment_success',
      appName: 'an app',
      lastError: null,
    });
    t.equal(failed.stdout.split('\n').length, 3);
    t.match(none, { code: 0, stdout: '', stderr: 'No delivery matches.\n' });
  },
);

void t.test(
  'wrong usage of deliveries prints one line with the right form and exits with code 2',
  async (t) => {
    const { env } = await withDeliveries(t, 1);
    const cases: [string[], number, RegExp][] = [
      [['--status', 'lost'], 2, /--status must be one of pending, delivered, failed, cancelled\./],
      [['--type', 'payment'], 2, /--type must be one of subscription_created, /],
      [['--app', 'tea'], 2, /"?tea"? is no id|tea/],
      [['--app', nobody], 1, new RegExp(`There is no app ${nobody}\\.`)],
      [['--webhook', nobody], 1, new RegExp(`There is no webhook endpoint ${nobody}\\.`)],
      [['--since', 'yesterday'], 2, /--since/],
      [['--since', '2026-02-01', '--until', '2026-01-01'], 2, /--since must be before --until\./],
      [['--limit', '0'], 2, /--limit/],
    ];
    await Promise.all(
      cases.map(async ([args, code, words]) => {
        const ended = await runShared(['deliveries', ...args], env);
        t.match(ended, { code, stdout: '', stderr: words }, args.join(' '));
        t.notMatch(ended.stderr, /\n\s+at /, args.join(' '));
      }),
    );
    const terminal = openDeliveries(t, { url: env.DATABASE_URL }, ['--app', nobody]);
    t.match(await terminal.ended, { code: 1 });
    t.match(
      terminal.screen(),
      `billing: There is no app ${nobody}.`,
      'on a terminal too, and before the screen is taken',
    );
    t.notMatch(terminal.written(), /\x1b\[\?1049h/);
  },
);

void t.test(
  'deliveries prints the table on a terminal that cannot be drawn on (TERM=dumb)',
  async (t) => {
    const { url, ids } = await withDeliveries(t, 1);
    const terminal = openDeliveries(t, { url }, [], {
      columns: 200,
      rows: 24,
      env: { TERM: 'dumb' },
    });
    t.match(await terminal.ended, { code: 0 });
    t.match(terminal.screen(), ids[0]);
    t.notMatch(terminal.written(), /\x1b\[\?1049h/);
  },
);

void t.test('deliveries into a closed stdout (| head) is not a failure', async (t) => {
  const { env } = await withDeliveries(t, 3000);
  const child = spawn(
    '/bin/sh',
    [
      '-c',
      '{ "$0" "$1" deliveries --json --limit 3000; echo "exit $?" >&2; } | head -n 1',
      process.execPath,
      program,
    ],
    {
      env: { ...env, PATH: process.env.PATH },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (text: Buffer) => (stdout += text.toString()));
  child.stderr.on('data', (text: Buffer) => (stderr += text.toString()));
  await once(child, 'close');
  t.equal(stdout.trimEnd().split('\n').length, 1);
  t.equal(withoutProgress(stderr), 'exit 0\n');
});

void t.test(
  'deliveries prints one line and exits with 130 when interrupted, with 1 when Postgres is lost',
  async (t) => {
    const { sql, env } = await withDeliveries(t, 1);
    const altering = await sql.reserve();
    await altering`begin`;
    await altering`lock table deliveries in access exclusive mode`;
    const waiting = (count: number) =>
      until(async () => {
        const found = await sql`
        select from pg_stat_activity where datname = current_database() and application_name = 'billing admin' and wait_event_type = 'Lock'`;
        return found.length === count;
      });
    const first = start(t, ['deliveries'], env);
    await waiting(1);
    first.child.kill('SIGINT');
    t.match(await first.ended, { code: 130, stdout: '', stderr: /^billing: Interrupted\.\n$/ });

    await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'billing admin'`;
    await waiting(0);
    const second = start(t, ['deliveries', '--json'], env);
    await waiting(1);
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'billing admin'`;
    const ended = await second.ended;
    t.match(ended, { code: 1, stdout: '', stderr: /^billing: Postgres at .* / });
    t.notMatch(ended.stderr, /\n\s+at /);
    await altering`rollback`;
    altering.release();
  },
);
