// `billing deliveries`: lists webhook deliveries: a live screen on a terminal, else a table or JSON
// lines.
import { required, type Config } from '../../config/config.ts';
import { prepareTerminal } from '../../config/terminal.ts';
import { runCommand, type Resources } from '../../daemon/run.ts';
import { type LoggedDelivery, walkDeliveries } from '../../db/deliveries.ts';
import { eventTypes } from '../../db/events.ts';
import { withDeadline } from '../../db/postgres/deadline.ts';
import { sourcesExist } from '../../db/replays.ts';
import { secretBox } from '../../domain/accounts/secrets.ts';
import { readLog, type LogQuery } from '../../domain/outbox/delivery-log.ts';
import { OperatorError } from '../../errors.ts';
import { parseId, parseTime } from '../lookups.ts';
import { answer, answerJson, note } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { table } from '../terminal/table.ts';
import { parseStatus, parseType } from './delivery-filters.ts';

export interface DeliveriesFlags {
  envFile?: string;
  status?: string;
  app?: string;
  webhook?: string;
  type?: string;
  since?: string;
  until?: string;
  limit?: number;
  json?: boolean;
}

const DEFAULT_LIMIT = 50;
// Time limit of a query of the screen, which then retries.
const LIMIT_MS = 5000;

/**
 * Shows the screen when stdin and stdout are terminals and neither --json nor --limit is given;
 * else prints. Returns the exit code.
 */
export function deliveries(flags: DeliveriesFlags): Promise<number> {
  const query = parseQuery(flags);
  const interactive =
    flags.json !== true &&
    flags.limit === undefined &&
    process.stdin.isTTY &&
    process.stdout.isTTY &&
    prepareTerminal();
  return runCommand(
    flags.envFile,
    (resources) => (interactive ? show(resources, query) : print(resources, query, flags)),
    {
      drains: interactive,
    },
  );
}

/** Parses the filters. Throws an OperatorError (exit code 2) that states the expected form. */
export function parseQuery({
  status,
  app,
  webhook,
  type,
  since,
  until,
}: DeliveriesFlags): LogQuery {
  const query = {
    status: status === undefined ? null : parseStatus(status),
    appId: app === undefined ? null : parseId(app),
    endpointId: webhook === undefined ? null : parseId(webhook),
    type: type === undefined ? null : parseType(type),
    since: parseTime('--since', since),
    until: parseTime('--until', until),
  };
  if (query.since !== null && query.until !== null && query.since >= query.until)
    throw new OperatorError('--since must be before --until.', 2);
  return query;
}

/** Throws an OperatorError when the given app or webhook endpoint does not exist. */
async function assertExist(sql: Resources['sql'], { appId, endpointId }: LogQuery): Promise<void> {
  const exists = await sourcesExist(sql, { appId, endpointId });
  if (!exists.app) throw new OperatorError(`There is no app ${appId ?? ''}.`);
  if (!exists.endpoint)
    throw new OperatorError(`There is no webhook endpoint ${endpointId ?? ''}.`);
}

async function print(
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
      if (json) step.rows.forEach(answerJson);
      else rows.push(...step.rows);
      next = step.next;
      if (step.lookedBackTo !== null) progress.update(`back to ${step.lookedBackTo.toISOString()}`);
    }
    return next !== null;
  });
  if (json) return 0;
  if (rows.length === 0) note('No delivery matches.');
  else answer(asTable(rows));
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

async function show({ config, sql }: Resources, query: LogQuery): Promise<number> {
  await assertExist(sql, query);
  // Replaced by a connection with a deadline: on this one the screen could not close at once after
  // an outage of Postgres.
  await sql.end({ timeout: 1 });
  const { databaseUrl } = required(config, 'databaseUrl');
  const [{ showScreen }, { DeliveriesScreen }, { createElement }, { openSource }] =
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
    await showScreen(createElement(DeliveriesScreen, { source, filter: query, types: eventTypes }));
    return 0;
  } finally {
    source.close();
    database.close();
  }
}

function secretsOf({ encryptionKeys }: Config) {
  return encryptionKeys === undefined ? undefined : secretBox(encryptionKeys);
}
