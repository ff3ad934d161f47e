// `billing deliveries` and `billing replay` over the API. Merchants use the API, because they have
// an API key and no access to the database.
import { setTimeout as pause } from 'node:timers/promises';
import type { Command } from 'commander';
import { loadConfig } from '../../config/config.ts';
import { interruptible } from '../../daemon/run.ts';
import type { LogQuery } from '../../domain/outbox/delivery-log.ts';
import { Interrupted, OperatorError } from '../../errors.ts';
import {
  type ApiClient,
  ApiRefusal,
  appOf,
  type DeveloperFlags,
  openApi,
} from '../develop/api-client.ts';
import { print, printJson, note } from '../terminal/print.ts';
import { type Progress, withProgress } from '../terminal/progress.ts';
import { table } from '../terminal/table.ts';
import {
  type DeliveriesFlags,
  parseQuery,
  parseSelection,
  type ReplayFlags,
} from './delivery-filters.ts';
import { confirmed, matchingInWords } from './replay-plan.ts';

/**
 * Adds --api-url and --api-key-file. Merchants use the API because they have no access to the
 * database.
 */
export function withApi(command: Command): Command {
  return command
    .option(
      '--api-url <url>',
      'use the API instead of the database, as merchants do; default: BILLING_API_URL',
    )
    .option(
      '--api-key-file <path>',
      'file with the API key; default: BILLING_API_KEY, which alone selects the API when DATABASE_URL is not set',
    );
}

/**
 * Returns whether a command uses the API: --api-url or --api-key-file is given, or BILLING_API_KEY
 * is set and DATABASE_URL is not. Throws the errors of loadConfig.
 */
export function asksApi({ envFile, apiUrl, apiKeyFile }: DeveloperFlags): boolean {
  if (apiUrl !== undefined || apiKeyFile !== undefined) return true;
  const { apiKey, databaseUrl } = loadConfig('developer', { envFile });
  return apiKey !== undefined && databaseUrl === undefined;
}

interface Delivery {
  id: string;
  webhookId: string;
  eventType: string;
  status: string;
  attempts: number;
  nextAttemptAt: string | null;
  createdAt: string;
}

const MAX_ROWS = 100;
const DEFAULT_LIMIT = 50;

/** Prints the newest deliveries of an app as a table or as JSON lines. Returns the exit code. */
export function deliveriesOverApi(flags: DeliveriesFlags): Promise<number> {
  const query = parseQuery(flags);
  const { limit = DEFAULT_LIMIT, json = false } = flags;
  return withApp(flags, async (client, appId, signal) => {
    const path = `/merchant/apps/${appId}/${query.endpointId === null ? '' : `webhooks/${query.endpointId}/`}deliveries`;
    const rows: Delivery[] = [];
    let cursor: string | undefined;
    await withProgress('looking', async ({ update }) => {
      do {
        const parameters = new URLSearchParams({
          limit: String(Math.min(MAX_ROWS, limit - rows.length)),
          ...filtersOf(query),
          ...(cursor !== undefined && { cursor }),
        });
        const page = await client.call<Delivery[]>('GET', `${path}?${parameters.toString()}`, {
          signal,
        });
        rows.push(...page.data);
        if (json) page.data.forEach(printJson);
        update(`${rows.length} so far`);
        const next = page.headers['x-next-cursor'];
        cursor = typeof next === 'string' ? next : undefined;
      } while (cursor !== undefined && rows.length < limit);
    });
    if (json) return 0;
    if (rows.length === 0) note('No delivery matches.');
    else print(asTable(rows));
    if (cursor !== undefined) note(`These are the newest ${rows.length}: --limit <n> shows more.`);
    return 0;
  });
}

function asTable(rows: readonly Delivery[]): string {
  const head = ['DELIVERY', 'QUEUED', 'STATUS', 'TYPE', 'TRIES', 'NEXT ATTEMPT', 'ENDPOINT'];
  return table(
    head,
    rows.map((row) => [
      row.id,
      row.createdAt,
      row.status,
      row.eventType,
      row.attempts,
      row.nextAttemptAt,
      row.webhookId,
    ]),
  );
}

interface Replay {
  id: string | null;
  status: 'counted' | 'running' | 'finished';
  total: number;
  queued: number;
  matching: { status: string; count: number; deliverable: number }[];
}

/**
 * First interval between polls of a replay, in milliseconds. The interval doubles after each poll,
 * because the API allows merchants of the tier Free 100 requests a minute.
 */
const FIRST_POLL_MS = 250;
const MAX_POLL_MS = 2000;

/**
 * Counts the matching deliveries, asks for confirmation and replays them, as `billing replay` does.
 * Returns the exit code: 1 when the user did not confirm. Throws Interrupted.
 */
export function replayOverApi(ids: string[], flags: ReplayFlags): Promise<number> {
  const selection = parseSelection(ids, flags, true);
  const { json = false, yes = false, dryRun = false } = flags;
  return withApp(flags, async (client, appId, signal) => {
    const app = `/merchant/apps/${appId}`;
    const filters = filtersOf(selection);
    const plan =
      selection.ids === null
        ? (await call<Replay>(client, `${app}/replays`, { ...filters, dryRun: true })).matching
        : [];
    const total = selection.ids?.length ?? plan.reduce((sum, each) => sum + each.deliverable, 0);
    if (!json) print(selection.ids === null ? matchingInWords(plan, total) : `${total} named.`);
    const report = (queued: number, finished: boolean) =>
      json && printJson({ matching: plan, deliverable: total, queued, finished });
    if (dryRun || total === 0) {
      report(0, !dryRun);
      return 0;
    }
    if (!yes && !(await confirmed(total, signal))) {
      note('Nothing was queued.');
      return 1;
    }
    const queued = await withProgress('queueing', (progress) =>
      selection.ids === null
        ? runReplay(client, app, filters, { signal, progress })
        : replayEach(client, app, selection.ids, { signal, progress }),
    );
    report(queued, true);
    if (!json) print(`Queued ${queued}.`);
    return 0;
  });
}

interface Work {
  signal: AbortSignal;
  progress: Progress;
}

/**
 * Starts a replay and waits for its end. If the user interrupts the command, the service still
 * finishes the replay.
 */
async function runReplay(
  client: ApiClient,
  app: string,
  filters: object,
  { signal, progress }: Work,
): Promise<number> {
  let run = await call<Replay>(client, `${app}/replays`, filters);
  for (let ms = FIRST_POLL_MS; run.status === 'running'; ms = Math.min(2 * ms, MAX_POLL_MS)) {
    progress.update(`${run.queued} of ${run.total}`);
    await pause(ms, undefined, { signal }).catch(() => undefined);
    if (signal.aborted)
      throw Interrupted.by(signal, 'Interrupted: the service continues this replay.');
    const path = `${app}/replays/${run.id ?? ''}`;
    run = await patiently(signal, async () => (await client.call<Replay>('GET', path)).data);
  }
  return run.queued;
}

async function replayEach(
  client: ApiClient,
  app: string,
  ids: readonly string[],
  { signal, progress }: Work,
): Promise<number> {
  for (const [place, id] of ids.entries()) {
    const left = `${place} are queued; left are: ${ids.slice(place).join(' ')}`;
    try {
      await patiently(signal, () => call(client, `${app}/deliveries/${id}/replay`));
    } catch (error) {
      if (signal.aborted) throw Interrupted.by(signal, `Interrupted: ${left}`);
      if (place === 0 || !(error instanceof OperatorError)) throw error;
      throw new OperatorError(`${error.message} ${left}`, error.exitCode, { cause: error });
    }
    progress.update(`${place + 1} of ${ids.length}`);
  }
  return ids.length;
}

/**
 * Sends a request. While the API responds 429, waits for Retry-After and sends the request again.
 * Throws when `signal` is aborted before the request is sent.
 */
async function patiently<T>(signal: AbortSignal, request: () => Promise<T>): Promise<T> {
  for (;;) {
    signal.throwIfAborted();
    try {
      return await request();
    } catch (error) {
      if (!(error instanceof ApiRefusal) || error.status !== 429) throw error;
      await pause((error.retryAfter ?? 60) * 1000, undefined, { signal });
    }
  }
}

/**
 * Sends a POST that no signal can abort. After an abort it would be unknown whether the request
 * took effect.
 */
async function call<T>(client: ApiClient, path: string, body?: object): Promise<T> {
  return (await client.call<T>('POST', path, { body })).data;
}

/** Returns the filters in the form of the API's query parameters and body fields. */
function filtersOf({
  status,
  type,
  since,
  until,
}: Pick<LogQuery, 'type' | 'since' | 'until'> & { status: string | null }) {
  return {
    ...(status !== null && { status }),
    ...(type !== null && { type }),
    ...(since !== null && { since: since.toISOString() }),
    ...(until !== null && { until: until.toISOString() }),
  };
}

function withApp(
  flags: DeveloperFlags,
  work: (client: ApiClient, appId: string, signal: AbortSignal) => Promise<number>,
): Promise<number> {
  return interruptible(true, async (signal) => {
    const client = await openApi(flags, signal);
    try {
      return await work(client, (await appOf(client, flags.app, signal)).id, signal);
    } catch (error) {
      if (signal.aborted && !(error instanceof OperatorError))
        throw Interrupted.by(signal, 'Interrupted.', { cause: error });
      throw error;
    } finally {
      await client.close();
    }
  });
}
