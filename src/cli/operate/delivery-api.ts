// `billing deliveries` and `billing replay` over the API. Merchants use the API, because they have
// an API key and no access to the database.
import { setTimeout as pause } from 'node:timers/promises';
import type { Command } from 'commander';
import { BillingError, type Client, type components } from '../../client/client.ts';
import { loadConfig } from '../../config/config.ts';
import { DEFAULT_PROFILE, findProfile } from '../../config/profiles.ts';
import { interruptible } from '../../daemon/run.ts';
import { Interrupted, OperatorError } from '../../errors.ts';
import {
  appOf,
  type DeveloperFlags,
  inWords,
  profileOption,
  type Session,
  withSession,
} from '../session.ts';
import { print, printJson, note } from '../terminal/print.ts';
import { type Progress, withProgress } from '../terminal/progress.ts';
import { table } from '../terminal/table.ts';
import {
  type ApiFlags,
  type DeliveriesFlags,
  parseQuery,
  parseSelection,
  type ReplayFlags,
} from './delivery-filters.ts';
import { confirmed, matchingInWords } from './replay-plan.ts';

export function withApi(command: Command): Command {
  return command
    .option(
      '--api-url <url>',
      'use the API instead of the database, as merchants do; default: BILLING_API_URL',
    )
    .option(
      '--api-key-file <path>',
      'file with the API key; default: BILLING_API_KEY, else the key of "billing login"; either selects the API when DATABASE_URL is not set',
    )
    .addOption(profileOption())
    .option('--api', 'use the API also when DATABASE_URL is set');
}

/**
 * Returns whether a command uses the API. The flags --api, --api-url, --api-key-file and --profile
 * select the API. Without these flags, the API is used if DATABASE_URL is not set and there is a
 * key (BILLING_API_KEY or the key of `billing login`). Throws the errors of loadConfig, and an
 * OperatorError (exit code 2) when there is neither a key nor DATABASE_URL.
 */
export function asksApi({ envFile, api, apiUrl, apiKeyFile, profile }: ApiFlags): boolean {
  if (api === true || [apiUrl, apiKeyFile, profile].some((flag) => flag !== undefined)) return true;
  const { apiKey, databaseUrl } = loadConfig('developer', { envFile });
  if (databaseUrl !== undefined) return false;
  if (apiKey !== undefined || findProfile(DEFAULT_PROFILE) !== undefined) return true;
  throw new OperatorError(
    'An API key or a database is needed. For merchants: log in with "billing login", or set BILLING_API_KEY. For operators: DATABASE_URL is required.',
    2,
  );
}

/** Maximum number of rows of a page. */
const MAX_ROWS = 100;
const DEFAULT_LIMIT = 50;

/**
 * Prints the newest deliveries of an app as a table or as JSON lines. Returns the exit code.
 */
export function deliveriesOverApi(flags: DeliveriesFlags): Promise<number> {
  const { endpointId, ...filters } = parseQuery(flags);
  const { limit = DEFAULT_LIMIT, json = false } = flags;
  return withApp(flags, async ({ client }, appId, signal) => {
    // One row beyond the limit shows whether there are more rows.
    const query = { limit: Math.min(MAX_ROWS, limit + 1), ...filtersOf(filters) };
    const found =
      endpointId === null
        ? client.list('/merchant/apps/{appId}/deliveries', { path: { appId }, query, signal })
        : client.list('/merchant/apps/{appId}/webhooks/{webhookId}/deliveries', {
            path: { appId, webhookId: endpointId },
            query,
            signal,
          });
    const rows: components['schemas']['Delivery'][] = [];
    const more = await withProgress('looking', async ({ update }) => {
      for await (const row of found) {
        if (rows.length === limit) return true;
        rows.push(row);
        if (json) printJson(row);
        update(`${rows.length} so far`);
      }
      return false;
    });
    if (json) return 0;
    if (rows.length === 0) note('No delivery matches.');
    else print(asTable(rows));
    if (more) note(`These are the newest ${rows.length}: --limit <n> shows more.`);
    return 0;
  });
}

function asTable(rows: readonly components['schemas']['Delivery'][]): string {
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

/**
 * First interval between polls of a replay, in milliseconds. The interval doubles after each poll,
 * because the API allows merchants of the tier Free 100 requests a minute.
 */
const FIRST_POLL_MS = 250;
const MAX_POLL_MS = 2000;

interface Work {
  signal: AbortSignal;
  progress: Progress;
}

/**
 * Runs `billing replay` over the API: counts the matching deliveries, asks for confirmation and
 * replays the deliveries. Returns the exit code: 1 when the user did not confirm. Throws
 * Interrupted when a signal stops the command.
 */
export function replayOverApi(ids: string[], flags: ReplayFlags): Promise<number> {
  const { ids: named, ...selection } = parseSelection(ids, flags, true);
  const { json = false, yes = false, dryRun = false } = flags;
  return withApp(flags, async (session, appId, signal) => {
    const filters = filtersOf(selection);
    // No signal aborts a POST, because it would be unknown whether the request took effect.
    const start = (body: typeof filters & { dryRun?: boolean }) =>
      session.client.post('/merchant/apps/{appId}/replays', { path: { appId }, body });
    const plan = named === null ? (await start({ ...filters, dryRun: true })).matching : [];
    const total = named?.length ?? plan.reduce((sum, each) => sum + each.deliverable, 0);
    if (!json) print(named === null ? matchingInWords(plan, total) : `${total} named.`);
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
    const queued = await withProgress('queueing', async (progress) =>
      named === null
        ? follow(session.client, appId, await start(filters), { signal, progress })
        : replayEach(session, appId, named, { signal, progress }),
    );
    report(queued, true);
    if (!json) print(`Queued ${queued}.`);
    return 0;
  });
}

/**
 * Waits for the end of a replay, and returns how many deliveries it queued. If the user interrupts
 * the command, the service still finishes the replay.
 */
async function follow(
  client: Client,
  appId: string,
  started: components['schemas']['Replay'],
  { signal, progress }: Work,
): Promise<number> {
  let run = started;
  const path = { appId, replayId: run.id ?? '' };
  for (let ms = FIRST_POLL_MS; run.status === 'running'; ms = Math.min(2 * ms, MAX_POLL_MS)) {
    progress.update(`${run.queued} of ${run.total}`);
    await pause(ms, undefined, { signal }).catch(() => undefined);
    if (signal.aborted)
      throw Interrupted.by(signal, 'Interrupted: the service continues this replay.');
    run = await patiently(signal, () =>
      client.get('/merchant/apps/{appId}/replays/{replayId}', { path }),
    );
  }
  return run.queued;
}

/**
 * Replays deliveries one by one and returns how many. If a request fails, the error names the
 * deliveries that were not replayed.
 */
async function replayEach(
  { client, url }: Session,
  appId: string,
  ids: readonly string[],
  { signal, progress }: Work,
): Promise<number> {
  for (const [index, deliveryId] of ids.entries()) {
    try {
      await patiently(signal, () =>
        client.post('/merchant/apps/{appId}/deliveries/{deliveryId}/replay', {
          path: { appId, deliveryId },
        }),
      );
    } catch (error) {
      const left = `${index} are queued; left are: ${ids.slice(index).join(' ')}`;
      if (signal.aborted) throw Interrupted.by(signal, `Interrupted: ${left}`);
      const operatorError = inWords(url, error);
      if (index === 0 || !(operatorError instanceof OperatorError)) throw operatorError;
      throw new OperatorError(`${operatorError.message} ${left}`, operatorError.exitCode, {
        cause: error,
      });
    }
    progress.update(`${index + 1} of ${ids.length}`);
  }
  return ids.length;
}

/**
 * Sends a request. While the API responds 429, waits for Retry-After and sends the request again.
 * The client's own retries could not be interrupted, because these requests have no signal. Throws
 * the reason of `signal` when it is aborted before the request is sent.
 */
async function patiently<T>(signal: AbortSignal, request: () => Promise<T>): Promise<T> {
  for (;;) {
    signal.throwIfAborted();
    try {
      return await request();
    } catch (error) {
      if (!(error instanceof BillingError) || error.status !== 429) throw error;
      const ms = (error.retryAfter ?? 60) * 1000;
      await pause(ms, undefined, { signal }).catch(() => undefined);
    }
  }
}

/** Returns the filters in the form of the API's query parameters and body fields. */
function filtersOf<S, T>({
  status,
  type,
  since,
  until,
}: {
  status: S | null;
  type: T | null;
  since: Date | null;
  until: Date | null;
}) {
  return {
    ...(status !== null && { status }),
    ...(type !== null && { type }),
    ...(since !== null && { since: since.toISOString() }),
    ...(until !== null && { until: until.toISOString() }),
  };
}

function withApp(
  flags: DeveloperFlags,
  work: (session: Session, appId: string, signal: AbortSignal) => Promise<number>,
): Promise<number> {
  return interruptible(true, (signal) =>
    withSession(flags, signal, async (session) =>
      work(session, (await appOf(session, flags.app, signal)).id, signal),
    ),
  );
}
