// The command line's client of the billing API. It authenticates with a merchant's API key.
import { readFile } from 'node:fs/promises';
import { type Command, Option } from 'commander';
import { type Config, loadConfig } from '../../config/config.ts';
import { baseUrl } from '../../config/parse.ts';
import { DEFAULT_PROFILE, findProfile, type Profile } from '../../config/profiles.ts';
import { isId } from '../../db/postgres/ids.ts';
import { type Fault, messageOf, OperatorError } from '../../errors.ts';
import { type CommonFlags, parseId, withEnv } from '../arguments.ts';
import { askSecret, canAsk } from '../terminal/ask.ts';

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

/** Thrown when the API responds with an error. */
export class ApiRefusal extends OperatorError {
  readonly status: number;
  /** The value of the Retry-After header in seconds, if the API sent the header. */
  readonly retryAfter: number | undefined;
  /** The API's error code, such as VALIDATION_ERROR. `details` has the invalid inputs. */
  readonly code: string | undefined;
  readonly details: Fault[];

  constructor(
    status: number,
    message: string,
    {
      retryAfter,
      code,
      details = [],
    }: Partial<Pick<ApiRefusal, 'retryAfter' | 'code' | 'details'>>,
  ) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
    this.code = code;
    this.details = details;
  }
}

/** Thrown when the API does not respond. */
export class ApiUnreachable extends OperatorError {}

interface ApiResponse<T> {
  data: T;
  headers: Record<string, unknown>;
}

export type ApiMethod = 'GET' | 'POST' | 'PATCH' | 'DELETE';

export interface ApiClient {
  url: string;
  key: string;
  /** Sends a request. Throws ApiRefusal, ApiUnreachable, or the abort reason of `signal`. */
  call<T>(method: ApiMethod, path: string, options?: CallOptions): Promise<ApiResponse<T>>;
  /** Returns the OpenAPI document of the API. Throws as `call` does. */
  document(signal: AbortSignal): Promise<unknown>;
  close(): Promise<void>;
}

export interface CallOptions {
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Time limit for the response in milliseconds. */
  timeoutMs?: number;
}

const TIMEOUT_MS = 15_000;

/**
 * Opens a client with the key from --api-key-file, --profile, BILLING_API_KEY, the default profile
 * or a prompt, in this order. No flag takes the key itself, because other users can see command
 * lines. Throws an OperatorError (exit code 2) that names what is missing.
 */
export async function openApi(flags: DeveloperFlags, signal: AbortSignal): Promise<ApiClient> {
  const config = loadConfig('developer', { envFile: flags.envFile });
  const stored = storedKey(flags, config);
  const url = apiUrlOf(flags.apiUrl ?? stored?.apiUrl ?? config.apiUrl);
  const key =
    stored?.apiKey ??
    (await findKey(flags.apiKeyFile, config.apiKey, { signal, missing: () => missingKey(url) }));
  return { key, ...(await connectApi(url, key)) };
}

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
    const wanted = apiUrl ?? givenApiUrl;
    return wanted === undefined || baseUrlOf(wanted) === profile?.apiUrl ? profile : undefined;
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
 * Returns the error message for a command without a key. A key of "billing login" that is kept for
 * another URL is named, because a user who is logged in would not look for it.
 */
function missingKey(url: string): string {
  const kept = findProfile(DEFAULT_PROFILE);
  if (kept === undefined || kept.apiUrl === url)
    return 'An API key is needed: log in with "billing login", set BILLING_API_KEY, or name a file with --api-key-file.';
  return (
    `An API key for ${url} is needed: the one that "billing login" keeps is for ${kept.apiUrl}. ` +
    'Correct BILLING_API_URL (or --api-url), set BILLING_API_KEY, or name a file with --api-key-file.'
  );
}

/**
 * Returns the URL without slashes at its end. Throws an OperatorError (exit code 2) if it is no
 * base URL, or if requests to it would send a key in clear text.
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

/**
 * Opens a client for the API. `credential` is an API key or a token. Without `credential`, requests
 * are anonymous.
 */
export async function connectApi(
  url: string,
  credential?: string,
): Promise<Omit<ApiClient, 'key'>> {
  // undici is imported on demand. `billing deliveries` and `billing replay` load this file too, but
  // seldom use the API.
  const { Agent, request } = (await import('undici')).default;
  const agent = new Agent({ connectTimeout: 5000 });
  async function send(
    method: ApiMethod,
    path: string,
    { body, headers = {}, signal: until, timeoutMs = TIMEOUT_MS }: CallOptions,
  ) {
    try {
      const response = await request(`${url}${path}`, {
        method,
        dispatcher: agent,
        headers: {
          ...headers,
          ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(until === undefined ? {} : { signal: until }),
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
      });
      const { statusCode: status, headers: received } = response;
      return { status, headers: received, text: await response.body.text() };
    } catch (error) {
      if (until?.aborted === true) throw error;
      throw new ApiUnreachable(
        `${whyUnreachable(url, error)} Check BILLING_API_URL (or --api-url).`,
        1,
        { cause: error },
      );
    }
  }
  return {
    url,
    async call(method, path, options = {}) {
      const { status, headers, text } = await send(method, path, options);
      const envelope = readEnvelope(text);
      if (envelope?.success === true) return { data: envelope.data as never, headers };
      const retryAfter = Number(headers['retry-after'] ?? NaN);
      throw new ApiRefusal(status, refusalText(url, status, envelope?.error?.message), {
        ...envelope?.error,
        retryAfter: Number.isNaN(retryAfter) ? undefined : retryAfter,
      });
    },
    async document(signal) {
      const { status, text } = await send('GET', '/openapi.json', { signal });
      if (status === 200) return JSON.parse(text) as unknown;
      throw new ApiRefusal(status, notTheApi(url, status), {});
    },
    close: () => agent.destroy(),
  };
}

/** OpenSSL's codes for an answer in clear text, such as that of an http:// server. */
const NO_TLS = ['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'];

function whyUnreachable(url: string, error: unknown): string {
  const { code = '' } = error as NodeJS.ErrnoException;
  if (NO_TLS.includes(code))
    return `The server at ${url} does not speak TLS: is it http:// instead of https://?`;
  return `The billing API at ${url} does not answer: ${messageOf(error)}.`;
}

/**
 * Returns the message for an error response. The API knows all paths that commands request. If it
 * does not know one, the URL has a path of its own, such as /v1.
 */
function refusalText(url: string, status: number, said: string | undefined): string {
  if (said === undefined) return notTheApi(url, status);
  if (status !== 404 || new URL(url).pathname === '/' || said !== 'There is no such route.')
    return said;
  return `${said} ${url} must be the root of the API, without a path: check BILLING_API_URL (or --api-url).`;
}

const notTheApi = (url: string, status: number) =>
  `The server at ${url} is not the billing API (HTTP ${status}). Check BILLING_API_URL (or --api-url).`;

export interface DeveloperApp {
  id: string;
  name: string;
}

/**
 * Returns the app that --app names, or the merchant's only app. Throws an OperatorError with exit
 * code 2 when the merchant has several apps and --app is missing, and one with exit code 1 when the
 * API names an app whose id is not a UUID.
 */
export async function appOf(
  client: ApiClient,
  named: string | undefined,
  signal: AbortSignal,
): Promise<DeveloperApp> {
  const app = await findApp(client, named, signal);
  if (!isId(app.id)) throw new OperatorError('The API named an app whose id is not a UUID.');
  return app;
}

async function findApp(
  client: ApiClient,
  named: string | undefined,
  signal: AbortSignal,
): Promise<DeveloperApp> {
  if (named !== undefined)
    return (await client.call<DeveloperApp>('GET', `/merchant/apps/${parseId(named)}`, { signal }))
      .data;
  const { data: apps } = await client.call<DeveloperApp[]>('GET', '/merchant/apps?limit=20', {
    signal,
  });
  const [only] = apps;
  if (only === undefined)
    throw new OperatorError('The merchant has no app yet: create one with POST /merchant/apps.');
  if (apps.length === 1) return only;
  throw new OperatorError(
    `The merchant has several apps: name one with --app.\n${apps.map(({ id, name }) => `  ${id}  ${name}`).join('\n')}`,
    2,
  );
}

/**
 * Returns the key from the file `file`, else the key `configured`, else the key that the user types
 * at a prompt. Throws an OperatorError (exit code 2) if the key is malformed. Throws one with the
 * message `missing` if there is no key and no terminal to ask on.
 */
export async function findKey(
  file: string | undefined,
  configured: string | undefined,
  asking: Asking,
): Promise<string> {
  const key = file !== undefined ? await readKey(file) : (configured ?? (await askForKey(asking)));
  const fault = keyFault(key);
  if (fault !== undefined)
    throw new OperatorError(
      `The API key ${file === undefined ? '' : `in ${file} `}is malformed: ${fault}.`,
      2,
    );
  return key;
}

/**
 * Minimum and maximum number of characters after sk_test_ or sk_live_ in a key. These characters
 * are 32 bytes in Base58.
 */
const keyLengths = { least: 40, most: 44 };

/**
 * Returns why `key` is not an API key, or undefined when its form is valid. The text never quotes
 * the key.
 */
export function keyFault(key: string): string | undefined {
  const [, marker, secret = ''] = /^(sk_test_|sk_live_)?([^]*)$/.exec(key) ?? [];
  if (key === '') return 'it is empty';
  if (/\s/.test(key)) return 'it has white space inside; a key is one word';
  if (key.startsWith('eyJ'))
    return 'it is an access token of a wallet sign-in; POST /merchant/api-keys makes a key with it';
  if (key.startsWith('whsec_')) return "it is a webhook endpoint's signing secret";
  if (marker === undefined)
    return 'it should start with sk_test_ (or sk_live_); POST /merchant/api-keys makes one';
  if (/[^1-9A-HJ-NP-Za-km-z]/.test(secret))
    return `it has a character after ${marker} that no key has (keys are Base58)`;
  const { least, most } = keyLengths;
  if (secret.length < least || secret.length > most)
    return `it has ${secret.length} characters after ${marker} and should have ${most - 1} or ${most}, so it was not copied whole or alone`;
  return undefined;
}

async function readKey(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    throw new OperatorError(`--api-key-file cannot be read: ${messageOf(error)}`, 2, {
      cause: error,
    });
  }
}

interface Asking {
  signal: AbortSignal;
  missing: () => string;
}

async function askForKey({ signal, missing }: Asking): Promise<string> {
  if (!canAsk()) throw new OperatorError(missing(), 2);
  return askSecret('API key', signal);
}

function refuseClearText(url: string): void {
  const parsed = new URL(url);
  if (parsed.protocol === 'http:' && !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(parsed.hostname))
    throw new OperatorError(
      `The API key would go to ${parsed.host} in clear text: use https://.`,
      2,
    );
}

interface Envelope {
  success: boolean;
  data: unknown;
  error?: { message: string; code?: string; details?: Fault[] };
}

function readEnvelope(text: string): Envelope | undefined {
  try {
    const parsed = JSON.parse(text) as Partial<Envelope> | null;
    return typeof parsed?.success === 'boolean' ? (parsed as Envelope) : undefined;
  } catch {
    return undefined;
  }
}
