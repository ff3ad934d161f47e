// `billing listen`: forwards an app's events to a server on the developer's machine. Webhooks from
// outside cannot reach that server.
//
// The command long-polls the API with a cursor (GET .../events/next). The cursor advances only with
// a complete response, so a network failure neither loses nor repeats an event.
import { setTimeout as pause } from 'node:timers/promises';
import type { Command } from 'commander';
import { backoff } from '../../backoff.ts';
import { BillingConnectionError, BillingError, type components } from '../../client/client.ts';
import { interruptible } from '../../daemon/run.ts';
import { listenSecret, urlFault } from '../../domain/outbox/endpoints.ts';
import type { SampleType } from '../../domain/outbox/samples.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import { sendPing, type PingResult } from '../../webhooks/ping.ts';
import type { SetExitCode } from '../arguments.ts';
import {
  appOf,
  type DeveloperApp,
  type DeveloperFlags,
  inWords,
  type Session,
  withApp,
  withSession,
} from '../session.ts';
import { prettyJson } from '../terminal/pretty-json.ts';
import { print, printJson, note, painter } from '../terminal/print.ts';
import { safeLines, safeText } from '../terminal/safe-text.ts';
import { eventTypesOf } from './event-types.ts';

interface ListenFlags extends DeveloperFlags {
  forwardTo: string;
  live?: boolean;
  /** The event types to forward. Undefined means all types. */
  events?: SampleType[];
  bodies?: boolean;
}

export function addListen(command: Command, setExitCode: SetExitCode): void {
  withApp(command)
    .requiredOption(
      '--forward-to <url>',
      'the target, such as http://localhost:3000/hook, or a port of this machine',
    )
    .option('--live', 'accept a live key')
    .option('--events <types>', 'forward only these types, comma-separated', eventTypesOf)
    .option('--bodies', "print each event's body")
    .option('--json', 'print one line of JSON per event')
    .action(async (flags: ListenFlags) => setExitCode(await listen(flags)));
}

type FeedEvent = components['schemas']['FeedEvent'];

/** How long the service may wait for events before it responds to a poll. */
const WAIT_SECONDS = 15;
/**
 * Retry delays in milliseconds while the local server refuses connections, for example during a
 * restart.
 */
const refusedMs = [200, 400, 800, 1600];

/**
 * Forwards events until SIGINT, SIGTERM, SIGHUP or the end of stdout, and returns 0. Throws an
 * OperatorError when the command cannot start or the API refuses a request.
 */
function listen(flags: ListenFlags): Promise<number> {
  const target = targetOf(flags.forwardTo);
  return interruptible(true, async (signal) => {
    const unread = new AbortController();
    process.stdout.once('error', () => unread.abort());
    const ended = AbortSignal.any([signal, unread.signal]);
    try {
      await withSession(flags, ended, async (session) => {
        if (session.key.startsWith('sk_live_') && flags.live !== true)
          throw new OperatorError(
            'This is a live key (sk_live_), which receives events of real customers from a production service. Add --live to do so, or use a key of a development service (sk_test_).',
            2,
          );
        const app = await appOf(session, flags.app, ended);
        const ready = (secret: string) => {
          if (flags.json === true)
            printJson({ ready: true, appId: app.id, forwardTo: target, secret });
          else
            print(
              `Events of ${safeText(app.name)} go to ${target}, signed with this secret (always the same for this key and app):\n${secret}`,
            );
        };
        await forwardAll(session, { ...flags, app, target, ready }, ended);
      });
      return 0;
    } catch (error) {
      // The command was interrupted before the first poll.
      if (ended.aborted && !(error instanceof OperatorError)) return 0;
      throw error;
    }
  });
}

export interface Forwarding extends Pick<ListenFlags, 'json' | 'events' | 'bodies'> {
  app: DeveloperApp;
  target: string;
  /**
   * Called with the signing secret when forwarding starts. Only events that are queued after this
   * call are certain to be forwarded.
   */
  ready: (secret: string) => unknown;
}

/**
 * Forwards the app's events until `signal` aborts. Then prints how many events were forwarded and
 * how many failed.
 */
export async function forwardAll(
  { client, key, url }: Session,
  { app, target, ready, ...flags }: Forwarding,
  signal: AbortSignal,
): Promise<void> {
  const secret = listenSecret(key, app.id);
  const show = reporter(flags);
  const counts = { delivered: 0, failed: 0 };
  let pauseMs = 0;
  const poll = (query: { after?: string; wait?: number } = {}) =>
    client.get('/merchant/apps/{appId}/events/next', {
      path: { appId: app.id },
      query,
      signal,
      onHeaders: (headers) => (pauseMs = pauseFor(headers)),
    });
  let cursor: string | undefined = (await poll()).cursor;
  await ready(secret);

  let failures = 0;
  // `isOver` is a function so that TypeScript does not assume that signal.aborted stays false. The
  // value can change while a request is awaited.
  const isOver = () => signal.aborted;
  while (!isOver()) {
    try {
      const feed: Awaited<ReturnType<typeof poll>> = await (cursor === undefined
        ? poll()
        : poll({ after: cursor, wait: WAIT_SECONDS }));
      if (failures > 0) note('The API is reachable again; no event was lost.');
      failures = 0;
      for (const event of feed.events) {
        if (isOver()) break;
        if (flags.events?.some((type) => type === event.type) === false) continue;
        const result = await forward(target, app.id, secret, event, signal);
        const delivered = result.status !== null && result.status >= 200 && result.status < 300;
        counts[delivered ? 'delivered' : 'failed'] += 1;
        show(event, result, delivered);
      }
      cursor = feed.cursor;
      if (feed.events.length > 0) await rest(pauseMs, signal);
    } catch (error) {
      if (isOver()) break;
      if (isCursorRefused(error)) {
        note('The API no longer accepts the cursor: events since the last poll are not forwarded.');
        cursor = undefined;
        continue;
      }
      if (!isTemporary(error)) throw error;
      failures += 1;
      if (failures === 1)
        note(`${messageOf(inWords(url, error))} Retrying; no event is lost meanwhile.`);
      const retryAfterMs = error instanceof BillingError ? (error.retryAfter ?? 0) * 1000 : 0;
      await rest(Math.max(retryAfterMs, backoff(failures, { cap: 5000 })), signal);
    }
  }
  note(`Stopped: ${counts.delivered} forwarded, ${counts.failed} failed.`);
}

/**
 * Posts one event as the dispatcher does. Retries while the local server refuses connections. A
 * retry never sends an event twice, because a refused connection delivers nothing.
 */
async function forward(
  url: string,
  appId: string,
  secret: string,
  { id, body }: FeedEvent,
  signal: AbortSignal,
): Promise<PingResult> {
  const config = {
    webhookGuard: false,
    webhookAllowCidrs: [],
    webhookDenyCidrs: [],
    webhookNameServers: [],
  };
  for (const delayMs of [...refusedMs, null]) {
    const result = await sendPing({
      config,
      appId,
      webhookId: '',
      url,
      secret,
      event: { id, body },
    });
    if (result.error !== 'refused' || delayMs === null || signal.aborted) return result;
    await rest(delayMs, signal);
  }
  throw new Error('unreachable: the last try always returns');
}

/** Returns a function that prints the result of forwarding an event. */
function reporter({ json = false, bodies = false }: Pick<ListenFlags, 'json' | 'bodies'>) {
  const paint = painter(process.stdout);
  let isToldOf401 = false;
  return (event: FeedEvent, result: PingResult, delivered: boolean) => {
    const painted = (text: string) => paint(delivered ? 'green' : 'red', text);
    if (json) printJson(eventJson(event, result, bodies));
    else print(describe(event, result, painted));
    if (bodies && !json) print(bodyLines(event));
    if (result.status !== 401 || isToldOf401) return;
    isToldOf401 = true;
    note('The server answered 401: is its WEBHOOK_SECRET the one above?');
  };
}

function eventJson({ id, type, sample, body }: FeedEvent, result: PingResult, bodies = false) {
  return {
    eventId: id,
    type,
    sample,
    ...result,
    ...(bodies && { body: JSON.parse(body) as unknown }),
  };
}

/** Returns the event's body, indented by four spaces. A body in JSON is formatted first. */
function bodyLines({ body }: FeedEvent): string {
  return safeLines(prettyJson(body) ?? body)
    .map((line) => `    ${line}`)
    .join('\n');
}

function describe(
  { id, type, sample }: FeedEvent,
  { status, error, durationMs }: PingResult,
  paint: (text: string) => string,
): string {
  const outcome =
    status === null ? `no answer (${safeText(error ?? 'error')})` : `${status} in ${durationMs} ms`;
  return `${new Date().toISOString()}  ${type}${sample ? ' (sample)' : ''}  ${id}  ${paint(outcome)}`;
}

/** Whether the error is temporary: an outage of the API or the network, or a rate limit. */
function isTemporary(error: unknown): boolean {
  if (error instanceof BillingConnectionError) return error.status === undefined;
  return error instanceof BillingError && (error.status === 429 || error.status >= 500);
}

function isCursorRefused(error: unknown): boolean {
  return error instanceof BillingError && error.status === 400;
}

/**
 * Returns the pause before the next poll, in milliseconds. Polls count against the merchant's rate
 * limit, so `listen` leaves half of the limit to the merchant's servers.
 */
function pauseFor(headers: Headers): number {
  const limit = Number(headers.get('ratelimit-limit'));
  const remaining = Number(headers.get('ratelimit-remaining'));
  return remaining > limit / 2 ? 100 : 1500;
}

async function rest(ms: number, signal: AbortSignal): Promise<void> {
  await pause(ms, undefined, { signal }).catch(() => undefined);
}

/**
 * Parses --forward-to, in which the scheme is optional ("localhost:3000/hook"), and the host too
 * ("3000/hook", ":3000"). Throws an OperatorError (exit code 2) for an invalid URL.
 */
export function targetOf(text: string): string {
  // A URL's host may be one whole number: "http://3000" is the address 0.0.11.184.
  const port = /^[a-z]+:\/\/(\d+)(?=\/|$)/i.exec(text)?.[1];
  if (port !== undefined)
    throw new OperatorError(
      `--forward-to ${text} names the host ${port}. Is http://localhost:${port} meant?`,
      2,
    );
  const withHost = text.replace(/^:?(\d+)(?=\/|$)/, 'localhost:$1');
  const url = /^[a-z]+:\/\//i.test(withHost) ? withHost : `http://${withHost}`;
  const fault = urlFault(url, 'development');
  if (fault !== undefined)
    throw new OperatorError(`--forward-to ${fault.replace('https://', 'http:// or https://')}.`, 2);
  return new URL(url).href;
}
