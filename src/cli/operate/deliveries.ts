// `billing deliveries`: lists webhook deliveries, from the database or over the API. Prints a table
// or JSON lines. With the database, a terminal gets a live screen instead.
import type { Command } from 'commander';
import { required, type Config } from '../../config/config.ts';
import { prepareTerminal } from '../../config/terminal.ts';
import { runCommand, type Resources } from '../../daemon/run.ts';
import { type LoggedDelivery, walkDeliveries } from '../../db/delivering/deliveries.ts';
import { eventTypes } from '../../db/delivering/events.ts';
import { sourcesExist } from '../../db/delivering/replays.ts';
import { withDeadline } from '../../db/postgres/deadline.ts';
import { secretBox } from '../../domain/accounts/secrets.ts';
import { readLog, type LogQuery } from '../../domain/outbox/delivery-log.ts';
import { OperatorError } from '../../errors.ts';
import { type SetExitCode, wholeNumber, withEnv } from '../arguments.ts';
import { print, printJson, note } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { table } from '../terminal/table.ts';
import { addCancel } from './cancel-deliveries.ts';
import { asksApi, deliveriesOverApi, withApi } from './delivery-api.ts';
import { type DeliveriesFlags, parseQuery } from './delivery-filters.ts';

const DEFAULT_LIMIT = 50;
// Time limit in milliseconds of each query of the screen. The screen retries after a timeout.
const LIMIT_MS = 5000;

export function addDeliveries(command: Command, setExitCode: SetExitCode): void {
  withEnv(command)
    .option('--status <status>', 'pending, delivered, failed or cancelled')
    .option('--app <id>', 'of this app')
    .option('--webhook <id>', 'to this webhook endpoint')
    .option('--type <type>', 'of events of this type')
    .option('--since <time>', 'queued from this time on (ISO 8601, or 30m, 6h, 7d ago)')
    .option('--until <time>', 'queued before this time (likewise)')
    .option(
      '--limit <n>',
      'print the newest n as a table and exit (default without a terminal: 50)',
      wholeNumber(1, 1_000_000),
    )
    .option('--json', 'print one line of JSON per delivery');
  withApi(command).action(async (flags: DeliveriesFlags) => setExitCode(await deliveries(flags)));
  // `deliveries` and `deliveries cancel` have the same filter flags. With
  // enablePositionalOptions(), a flag after `cancel` belongs to `cancel`.
  addCancel(command.enablePositionalOptions(), setExitCode);
}

/**
 * Shows the screen when the database is used, stdin and stdout are terminals, and neither --json
 * nor --limit is given. Otherwise prints the deliveries. Returns the exit code.
 */
function deliveries(flags: DeliveriesFlags): Promise<number> {
  if (asksApi(flags)) return deliveriesOverApi(flags);
  const interactive =
    flags.json !== true &&
    flags.limit === undefined &&
    process.stdin.isTTY &&
    process.stdout.isTTY &&
    prepareTerminal();
  const query = parseQuery(flags);
  return runCommand(
    flags.envFile,
    (resources) =>
      interactive ? showDeliveries(resources, query) : printDeliveries(resources, query, flags),
    {
      drains: interactive,
    },
  );
}

/** Throws an OperatorError when the given app or webhook endpoint does not exist. */
async function assertExist(sql: Resources['sql'], { appId, endpointId }: LogQuery): Promise<void> {
  const exists = await sourcesExist(sql, { appId, endpointId });
  if (!exists.app) throw new OperatorError(`There is no app ${appId ?? ''}.`);
  if (!exists.endpoint)
    throw new OperatorError(`There is no webhook endpoint ${endpointId ?? ''}.`);
}

async function printDeliveries(
  { sql }: Resources,
  query: LogQuery,
  { limit = DEFAULT_LIMIT, json = false }: DeliveriesFlags,
): Promise<number> {
  await assertExist(sql, query);
  const rows: LoggedDelivery[] = [];
  const more = await withProgress('looking', async (progress) => {
    let next: string | null = null;
    for await (const step of readLog((filters, walk) => walkDeliveries(sql, filters, walk), query, {
      limit,
    })) {
      if (json) step.rows.forEach(printJson);
      else rows.push(...step.rows);
      next = step.next;
      if (step.lookedBackTo !== null) progress.update(`back to ${step.lookedBackTo.toISOString()}`);
    }
    return next !== null;
  });
  if (json) return 0;
  if (rows.length === 0) note('No delivery matches.');
  else print(asTable(rows));
  if (more) note(`These are the newest ${rows.length}: --limit <n> shows more.`);
  return 0;
}

function asTable(rows: readonly LoggedDelivery[]): string {
  const head = [
    'DELIVERY',
    'QUEUED',
    'STATUS',
    'TYPE',
    'TRIES',
    'LAST',
    'NEXT ATTEMPT',
    'APP',
    'ENDPOINT',
  ];
  return table(
    head,
    rows.map((row) => [
      row.id,
      row.createdAt,
      row.status,
      row.eventType,
      row.attempts,
      row.lastError ?? row.lastStatus,
      row.nextAttemptAt,
      row.appName,
      row.url,
    ]),
  );
}

async function showDeliveries({ config, sql }: Resources, query: LogQuery): Promise<number> {
  await assertExist(sql, query);
  // The screen replaces this connection with connections that have a deadline. Without a deadline
  // the screen could not close during an outage of Postgres.
  await sql.end({ timeout: 1 });
  const { databaseUrl } = required(config, 'databaseUrl');
  const [{ showScreen }, { DeliveriesScreen }, { default: react }, { openSource }] =
    await Promise.all([
      import('../terminal/screen.tsx'),
      import('../terminal/deliveries-screen.tsx'),
      import('react'),
      import('./deliveries-source.ts'),
    ]);
  const database = withDeadline(databaseUrl, {
    max: 3,
    name: 'billing deliveries',
    limitMs: LIMIT_MS,
  });
  const source = openSource(database, secretsOf(config));
  try {
    await showScreen(
      react.createElement(DeliveriesScreen, { source, filter: query, types: eventTypes }),
    );
    return 0;
  } finally {
    source.close();
    database.close();
  }
}

function secretsOf({ encryptionKeys }: Config) {
  return encryptionKeys === undefined ? undefined : secretBox(encryptionKeys);
}
