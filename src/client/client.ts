// A client of the API for TypeScript, with types from the OpenAPI document. The client has no
// dependencies. The client uses the global fetch of browsers and of Node 20 and newer.
import { type Asked, BillingConnectionError, errorOf } from './error.ts';
import { idempotentPosts } from './openapi.ts';
import type { CallOptions, Client, Method } from './routes.ts';

export {
  type Access,
  type AccessGuardOptions,
  createAccessGuard,
  type Customer,
} from './access.ts';
export { BillingConnectionError, BillingError, type BillingErrorCode } from './error.ts';
export type {
  Arguments,
  CallOptions,
  Client,
  Data,
  FilePath,
  Item,
  ListPath,
  PathOf,
} from './routes.ts';
export type { components, paths } from './openapi.ts';

export interface ClientOptions {
  /** URL of the API, such as https://billing.example. */
  baseUrl: string;
  /**
   * An API key (on servers only) or an access token. If `token` is a function, the client calls the
   * function before each request to get the key or token.
   */
  token?: string | (() => string | undefined | Promise<string | undefined>) | undefined;
  /**
   * Maximum number of retries of a request. Default: 0. After status 429, every request is retried.
   * After a lost connection or a status of 500 or above, only requests that are safe to repeat are
   * retried: GET, DELETE, PATCH, and POST with an idempotency key. Without Retry-After, the delay
   * grows with each retry, up to 5 s.
   */
  retries?: number;
  /**
   * Maximum delay before a retry in seconds. A request with a longer Retry-After is not retried.
   * Default: 60.
   */
  maxWaitSeconds?: number;
  /**
   * Maximum time in milliseconds from sending a request until the headers of its response arrive.
   * Default: 30,000.
   */
  timeoutMs?: number;
  /** Function that sends the requests. Default: the global fetch. */
  fetch?: typeof fetch;
}

interface Given extends CallOptions {
  path?: Readonly<Record<string, string>> | undefined;
  query?: Readonly<Record<string, unknown>> | undefined;
  body?: unknown;
  idempotencyKey?: string | undefined;
}

/** Sends one request. Rejects when no response arrives within `timeoutMs` milliseconds. */
async function send(
  { token, timeoutMs = 30_000, fetch: own = fetch }: ClientOptions,
  method: Method,
  url: string,
  given: Given,
): Promise<Response> {
  const headers: Record<string, string> = { accept: 'application/json' };
  const bearer = typeof token === 'function' ? await token() : token;
  if (bearer !== undefined) headers.authorization = `Bearer ${bearer}`;
  const isFile = given.body instanceof Blob;
  if (!isFile && (method === 'post' || given.body !== undefined))
    headers['content-type'] = 'application/json';
  if (given.idempotencyKey !== undefined) headers['idempotency-key'] = given.idempotencyKey;
  if (given.requestId !== undefined) headers['x-request-id'] = given.requestId;
  const late = new AbortController();
  const timer = setTimeout(() => {
    late.abort(new DOMException(`No answer within ${timeoutMs} ms.`, 'TimeoutError'));
  }, timeoutMs);
  try {
    return await own(url, {
      method: method.toUpperCase(),
      headers,
      ...(given.body !== undefined && {
        // For a Blob, fetch itself sets the content-type header to the Blob's type.
        body: given.body instanceof Blob ? given.body : JSON.stringify(given.body),
      }),
      signal:
        given.signal === undefined ? late.signal : AbortSignal.any([given.signal, late.signal]),
      redirect: 'error',
    });
  } finally {
    clearTimeout(timer);
  }
}

/** Whether paths can be appended to the URL, and it has no credentials, which fetch refuses. */
function isBaseUrl(base: string): boolean {
  if (!URL.canParse(base) || /[?#]/.test(base)) return false;
  const { username, password } = new URL(base);
  return username === '' && password === '';
}

/**
 * Creates a client of the API. Every call resolves with the `data` of the response. A call rejects
 * with a BillingError when the service refuses, and with a BillingConnectionError when the service
 * does not respond.
 */
export function createClient(options: ClientOptions): Client {
  const { baseUrl, retries = 0, maxWaitSeconds = 60 } = options;
  const base = baseUrl.replace(/\/+$/, '');
  if (!isBaseUrl(base))
    throw new TypeError(
      'baseUrl must be a URL such as https://billing.example, without user name, password, query and fragment.',
    );

  const call = async (method: Method, path: string, given: Given = {}): Promise<Exchange> => {
    const url = base + fill(path, given);
    const asked: Asked = { method: method.toUpperCase(), url };
    const takesKey = method === 'post' && idempotentPosts.has(path);
    // All retries of a request have the same idempotency key, so the service carries out the
    // request only once.
    const sent: Given = takesKey
      ? { ...given, idempotencyKey: given.idempotencyKey ?? crypto.randomUUID() }
      : given;
    const repeatable = method !== 'post' || takesKey;
    for (let tries = 0; ; tries += 1) {
      let response: Response;
      try {
        response = await send(options, method, url, sent);
      } catch (error) {
        if (given.signal?.aborted === true) throw error;
        if (tries >= retries || !repeatable) throw new BillingConnectionError(asked, error);
        await pause(backoffSeconds(tries), given.signal);
        continue;
      }
      if (response.ok) {
        given.onHeaders?.(response.headers);
        return { response, asked };
      }
      const error = await errorOf(asked, response);
      const wait = error.retryAfter ?? backoffSeconds(tries);
      const again = error.status === 429 || (error.status >= 500 && repeatable);
      if (tries >= retries || !again || wait > maxWaitSeconds) throw error;
      await pause(wait, given.signal);
    }
  };

  const data = async (method: Method, path: string, given?: Given): Promise<never> =>
    (await bodyOf(await call(method, path, given), given?.signal)).data as never;

  async function* pages(path: string, given: Given = {}): AsyncGenerator<never[], void, undefined> {
    for (let { query } = given; ;) {
      const exchange = await call('get', path, { ...given, query });
      yield (await bodyOf(exchange, given.signal)).data as never[];
      const cursor = exchange.response.headers.get('x-next-cursor');
      if (cursor === null) return;
      query = { ...query, cursor };
    }
  }

  return {
    get: (path, ...[given]) => data('get', path, given as Given),
    post: (path, ...[given]) => data('post', path, given as Given),
    patch: (path, ...[given]) => data('patch', path, given as Given),
    delete: (path, ...[given]) => data('delete', path, given as Given),
    pages: (path, ...[given]) => pages(path, given as Given),
    async *list(path, ...[given]) {
      for await (const rows of pages(path, given as Given)) yield* rows;
    },
    async file(path, ...[given]) {
      const { response } = await call('get', path, given as Given);
      const { body } = response;
      if (body === null) throw new Error('The file has no body.');
      return body;
    },
  };
}

interface Exchange {
  response: Response;
  asked: Asked;
}

/**
 * Returns the parsed body of a response: an object with the field `data`. Rejects with a
 * BillingConnectionError when the body is incomplete or has no `data`.
 */
async function bodyOf(
  { response, asked }: Exchange,
  signal: AbortSignal | undefined,
): Promise<{ data: unknown }> {
  let text: string | undefined;
  try {
    text = await response.text();
    const body: unknown = JSON.parse(text);
    if (typeof body === 'object' && body !== null && 'data' in body) return body;
    throw new TypeError('what answered is not the billing API');
  } catch (error) {
    if (signal?.aborted === true) throw error;
    throw new BillingConnectionError(
      asked,
      error,
      text === undefined ? undefined : response.status,
    );
  }
}

/** Returns `path` with its parameters filled in, followed by the query string. */
function fill(path: string, { path: parameters = {}, query = {} }: Given): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = parameters[name];
    if (typeof value !== 'string' || value === '')
      throw new TypeError(`path.${name} is required for ${path}.`);
    return encodeURIComponent(value);
  });
  const pairs = Object.entries(query).flatMap(([name, value]): [string, string][] =>
    value === undefined || value === null
      ? []
      : [[name, value instanceof Date ? value.toISOString() : String(value as string | number)]],
  );
  return pairs.length === 0 ? filled : `${filled}?${new URLSearchParams(pairs).toString()}`;
}

function backoffSeconds(tries: number): number {
  return Math.min(0.25 * 2 ** tries, 5) * (0.5 + Math.random() / 2);
}

function pause(seconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const give = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', give);
      resolve();
    }, seconds * 1000);
    if (signal?.aborted === true) give();
    else signal?.addEventListener('abort', give, { once: true });
  });
}
