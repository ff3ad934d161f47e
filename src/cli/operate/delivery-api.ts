// `billing deliveries` and `billing replay` over the API. Merchants use the API, because they have
// an API key and no access to the database.
import { setTimeout as pause } from 'node:timers/promises';
import type { Command } from 'commander';
import { loadConfig } from '../../config/config.ts';
import { DEFAULT_PROFILE, findProfile } from '../../config/profiles.ts';
import { interruptible } from '../../daemon/run.ts';
import { eventTypes } from '../../db/delivering/events.ts';
import type { LogQuery } from '../../domain/outbox/delivery-log.ts';
import { Interrupted, OperatorError } from '../../errors.ts';
import {
  type ApiClient,
  appOf,
  type DeveloperApp,
  type DeveloperFlags,
  openApi,
  profileOption,
} from '../develop/api-client.ts';
import { print, printJson, note } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { table } from '../terminal/table.ts';
import {
  type ApiFlags,
  type DeliveriesFlags,
  parseQuery,
  parseSelection,
  type ReplayFlags,
} from './delivery-filters.ts';
import {
  type Delivery,
  filtersOf,
  patiently,
  post,
  replayEach,
  type Work,
} from './delivery-requests.ts';
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

const MAX_ROWS = 100;
const DEFAULT_LIMIT = 50;

/**
 * Shows the deliveries of an app as a live screen. If not `interactive`, prints the newest
 * deliveries as a table or as JSON lines. Returns the exit code.
 */
export function deliveriesOverApi(flags: DeliveriesFlags, interactive: boolean): Promise<number> {
  const query = parseQuery(flags);
  const { limit = DEFAULT_LIMIT, json = false } = flags;
  return withApp(flags, async (client, { id: appId, name }, signal) => {
    if (interactive) return showDeliveries(client, { id: appId, name }, { ...query, appId });
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

async function showDeliveries(
  client: ApiClient,
  app: DeveloperApp,
  filter: LogQuery,
): Promise<number> {
  const [{ showScreen }, { DeliveriesScreen }, { default: react }, { openApiSource }] =
    await Promise.all([
      import('../terminal/screen.tsx'),
      import('../terminal/deliveries-screen.tsx'),
      import('react'),
      import('./delivery-api-source.ts'),
    ]);
  const source = openApiSource(client, app);
  try {
    await showScreen(react.createElement(DeliveriesScreen, { source, filter, types: eventTypes }));
    return 0;
  } finally {
    source.close();
  }
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
 * Runs `billing replay` over the API: counts the matching deliveries, asks for confirmation and
 * replays the deliveries. Returns the exit code: 1 when the user did not confirm. Throws
 * Interrupted when a signal stops the command.
 */
export function replayOverApi(ids: string[], flags: ReplayFlags): Promise<number> {
  const selection = parseSelection(ids, flags, true);
  const { json = false, yes = false, dryRun = false } = flags;
  return withApp(flags, async (client, { id: appId }, signal) => {
    const app = `/merchant/apps/${appId}`;
    const filters = filtersOf(selection);
    const plan =
      selection.ids === null
        ? (await post<Replay>(client, `${app}/replays`, { ...filters, dryRun: true })).matching
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
        : replayEach(client, app, selection.ids, { signal, progress }).then(({ length }) => length),
    );
    report(queued, true);
    if (!json) print(`Queued ${queued}.`);
    return 0;
  });
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
  let run = await post<Replay>(client, `${app}/replays`, filters);
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

function withApp(
  flags: DeveloperFlags,
  work: (client: ApiClient, app: DeveloperApp, signal: AbortSignal) => Promise<number>,
): Promise<number> {
  return interruptible(true, async (signal) => {
    const client = await openApi(flags, signal);
    try {
      return await work(client, await appOf(client, flags.app, signal), signal);
    } catch (error) {
      if (signal.aborted && !(error instanceof OperatorError))
        throw Interrupted.by(signal, 'Interrupted.', { cause: error });
      throw error;
    } finally {
      await client.close();
    }
  });
}
