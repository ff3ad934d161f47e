// The commands' sessions with the billing API: the flags that select the API and the key, the
// client, and the message of a failed request.
import { type Command, Option } from 'commander';
import {
  BillingConnectionError,
  BillingError,
  type Client,
  createClient,
} from '../client/client.ts';
import { type Config, loadConfig } from '../config/config.ts';
import { baseUrl } from '../config/parse.ts';
import { DEFAULT_PROFILE, findProfile, type Profile } from '../config/profiles.ts';
import { isId } from '../db/postgres/ids.ts';
import { messageOf, OperatorError } from '../errors.ts';
import { findKey } from './api-key.ts';
import { type CommonFlags, parseId, withEnv } from './arguments.ts';

export interface DeveloperFlags extends CommonFlags {
  apiUrl?: string;
  apiKeyFile?: string;
  profile?: string;
  app?: string;
}

/** Adds the flags of a command that uses the API for one app. */
export function withApp(command: Command): Command {
  return withKey(command.option('--app <id>', 'the app; not needed if the merchant has only one'));
}

/** Adds the flags that select the API and the key. */
export function withKey(command: Command): Command {
  return withEnv(command)
    .option('--api-url <url>', 'the API; default: BILLING_API_URL, else that of the profile')
    .option(
      '--api-key-file <path>',
      'file with the API key; default: BILLING_API_KEY, else the key of "billing login", else a prompt on a terminal',
    )
    .addOption(profileOption());
}

export function profileOption(): Option {
  return new Option(
    '--profile <name>',
    'use the API key that "billing login" keeps under this name',
  ).conflicts('apiKeyFile');
}

export interface Session {
  url: string;
  key: string;
  client: Client;
}

/** Milliseconds in which a response must be complete. A long poll for events takes 15 s. */
const TIMEOUT_MS = 30_000;

/**
 * Runs `work` with the key from --api-key-file, --profile, BILLING_API_KEY, the default profile or
 * a prompt, in this order. No flag takes the key itself, because other users can see command lines.
 * Throws an OperatorError if a setting is missing (exit code 2) or a request fails.
 */
export async function withSession<T>(
  flags: DeveloperFlags,
  signal: AbortSignal,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const config = loadConfig('developer', { envFile: flags.envFile });
  const stored = storedKey(flags, config);
  const url = apiUrlOf(flags.apiUrl ?? stored?.apiUrl ?? config.apiUrl);
  const key =
    stored?.apiKey ??
    (await findKey(flags.apiKeyFile, config.apiKey, { signal, missing: () => missingKey(url) }));
  return explained(url, work({ url, key, client: connect(url, key) }));
}

/** Creates a client of the API. Without `token`, requests are anonymous. */
export function connect(url: string, token?: string, timeoutMs = TIMEOUT_MS): Client {
  return createClient({
    baseUrl: url,
    token,
    // The client's own time limit ends with the headers of a response.
    fetch(input, init) {
      const late = AbortSignal.timeout(timeoutMs);
      return fetch(input, { ...init, signal: AbortSignal.any([late, init?.signal ?? late]) });
    },
  });
}

/** Awaits requests to the API at `url`. Throws an OperatorError for an error of the client. */
export async function explained<T>(url: string, requests: Promise<T>): Promise<T> {
  try {
    return await requests;
  } catch (error) {
    throw inWords(url, error);
  }
}

/** Returns an error of the client as an OperatorError, and any other error unchanged. */
export function inWords(url: string, error: unknown): unknown {
  const message =
    error instanceof BillingError
      ? refusalText(url, error)
      : error instanceof BillingConnectionError
        ? unreachableText(url, error)
        : undefined;
  return message === undefined ? error : new OperatorError(message, 1, { cause: error });
}

/** OpenSSL's error messages when the server responds in plain text, as an http:// server does. */
const NO_TLS = /wrong version number|packet length too long/;

function unreachableText(url: string, { reason, status }: BillingConnectionError): string {
  if (status !== undefined) return notTheApi(url, status);
  const why = NO_TLS.test(reason)
    ? `The server at ${url} does not speak TLS: is it http:// instead of https://?`
    : `The billing API at ${url} does not answer: ${reason}.`;
  return `${why} Check BILLING_API_URL (or --api-url).`;
}

/**
 * Returns the message for an error response. The API has all paths that commands request. If it
 * reports an unknown path, the URL has a wrong path, such as /v1.
 */
function refusalText(url: string, { code, status, reason }: BillingError): string {
  if (code === undefined) return notTheApi(url, status);
  if (status !== 404 || new URL(url).pathname === '/' || reason !== 'There is no such route.')
    return reason;
  return `${reason} ${url} must be the root of the API, without a path: check BILLING_API_URL (or --api-url).`;
}

const notTheApi = (url: string, status: number) =>
  `The server at ${url} is not the billing API (HTTP ${status}). Check BILLING_API_URL (or --api-url).`;

/**
 * Returns the profile whose key a command uses, or undefined when the key comes from elsewhere. The
 * key of a profile is only sent to the profile's URL. Therefore the function throws an
 * OperatorError (exit code 2) when --api-url is not the URL of the profile that --profile names.
 */
function storedKey(
  { apiUrl, apiKeyFile, profile: named }: DeveloperFlags,
  { apiKey, givenApiUrl }: Config,
): Profile | undefined {
  if (apiKeyFile !== undefined || (named === undefined && apiKey !== undefined)) return undefined;
  const profile = findProfile(named ?? DEFAULT_PROFILE);
  if (named === undefined) {
    const requestedUrl = apiUrl ?? givenApiUrl;
    return requestedUrl === undefined || baseUrlOf(requestedUrl) === profile?.apiUrl
      ? profile
      : undefined;
  }
  if (profile === undefined)
    throw new OperatorError(
      `There is no profile "${named}": "billing login --profile ${named}" makes it.`,
      2,
    );
  if (apiUrl !== undefined && baseUrlOf(apiUrl) !== profile.apiUrl)
    throw new OperatorError(
      `The API key of the profile "${named}" is for ${profile.apiUrl}, and --api-url is another one.`,
      2,
    );
  return profile;
}

/**
 * Returns the error message for a command without a key. Names a key that "billing login" stored
 * for another URL, because a user who is logged in would not look for it.
 */
function missingKey(url: string): string {
  const profile = findProfile(DEFAULT_PROFILE);
  if (profile === undefined || profile.apiUrl === url)
    return 'An API key is needed: log in with "billing login", set BILLING_API_KEY, or name a file with --api-key-file.';
  return (
    `An API key for ${url} is needed: the one that "billing login" keeps is for ${profile.apiUrl}. ` +
    'Correct BILLING_API_URL (or --api-url), set BILLING_API_KEY, or name a file with --api-key-file.'
  );
}

/**
 * Returns the URL without trailing slashes. Throws an OperatorError (exit code 2) if it is no base
 * URL, or if requests to it would send a key unencrypted.
 */
export function apiUrlOf(text: string): string {
  const url = baseUrlOf(text);
  refuseClearText(url);
  return url;
}

function baseUrlOf(text: string): string {
  try {
    return baseUrl(text);
  } catch (error) {
    throw new OperatorError(`--api-url ${messageOf(error)}.`, 2, { cause: error });
  }
}

function refuseClearText(url: string): void {
  const parsed = new URL(url);
  if (parsed.protocol === 'http:' && !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(parsed.hostname))
    throw new OperatorError(
      `The API key would go to ${parsed.host} in clear text: use https://.`,
      2,
    );
}

export interface DeveloperApp {
  id: string;
  name: string;
}

/**
 * Returns the app that --app names, or the merchant's only app. Throws an OperatorError (1) with
 * exit code 2 when the merchant has several apps and --app is missing, (2) with exit code 1 when
 * the API returns an app id that is not a UUID.
 */
export async function appOf(
  { client }: Session,
  named: string | undefined,
  signal: AbortSignal,
): Promise<DeveloperApp> {
  const app = await findApp(client, named, signal);
  if (!isId(app.id)) throw new OperatorError('The API named an app whose id is not a UUID.');
  return app;
}

async function findApp(
  client: Client,
  named: string | undefined,
  signal: AbortSignal,
): Promise<DeveloperApp> {
  if (named !== undefined)
    return client.get('/merchant/apps/{appId}', { path: { appId: parseId(named) }, signal });
  const apps = await client.get('/merchant/apps', { query: { limit: 20 }, signal });
  const [only] = apps;
  if (only === undefined)
    throw new OperatorError('The merchant has no app yet: create one with POST /merchant/apps.');
  if (apps.length === 1) return only;
  throw new OperatorError(
    `The merchant has several apps: name one with --app.\n${apps.map(({ id, name }) => `  ${id}  ${name}`).join('\n')}`,
    2,
  );
}
