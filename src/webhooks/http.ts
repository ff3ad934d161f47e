// Posts webhooks with undici. Each request is sent once, to an address that the SSRF guard has
// checked. Redirects are not followed, nothing is decompressed, and at most 4 KiB of the response
// body are read.
import { buildConnector, Client, type Dispatcher } from 'undici';
import { classify } from './errors.ts';
import type { SsrfGuard } from './ssrf-guard.ts';

/**
 * Time (ms) from the start of the request to the deadline for the status line. A body that is
 * incomplete at the deadline is truncated.
 */
export const DEADLINE_MS = 5000;

const MAX_BODY_BYTES = 4096;
/**
 * An idle connection is closed after this time (ms). Servers close idle connections after 5 s
 * (Node's default) or later, and a request must not start on a connection that the server is
 * closing.
 */
const KEEP_ALIVE_MS = 4000;

export interface Answer {
  /** Null when no status line arrived. */
  httpStatus: number | null;
  /** Error code (errors.ts); null when a status line arrived. */
  error: string | null;
  /** The first 4 KiB of the response body; null when no status line arrived. */
  response: Buffer | null;
  /** The peer's IP address; null when no connection was made. */
  address: string | null;
  durationMs: number;
  retryAfter: string | undefined;
}

export interface WebhookRequest {
  origin: string;
  /** Path and query of the URL. */
  path: string;
  /** A flat list: name, value, name, value. */
  headers: string[];
  body: string;
}

/**
 * Connections to the merchants' servers. Each connection carries one request at a time and is not
 * reused after a failure.
 */
export class WebhookClient {
  readonly #idle = new Map<string, Connection[]>();
  readonly #connect: buildConnector.connector;
  readonly #guard: SsrfGuard;
  #closed = false;

  constructor(guard: SsrfGuard) {
    this.#guard = guard;
    this.#connect = buildConnector({
      timeout: DEADLINE_MS,
      // Set explicitly, so that NODE_TLS_REJECT_UNAUTHORIZED cannot disable the check.
      rejectUnauthorized: true,
      ...(guard.lookup === undefined ? {} : { lookup: guard.lookup }),
    });
  }

  /** Sends a request. Resolves with the response or the error and never rejects. */
  post(request: WebhookRequest): Promise<Answer> {
    const connection = this.#take(request.origin);
    return new Promise((resolve) => {
      const exchange = new Exchange(connection, (answer, isClean) => {
        // The connection is returned after undici has parsed the chunk. Otherwise trailing bytes
        // could be read as the response to the next request.
        if (isClean) queueMicrotask(() => this.#give(connection));
        else this.#drop(connection);
        resolve(answer);
      });
      const { path, headers, body } = request;
      connection.client.dispatch({ method: 'POST', path, headers, body }, exchange);
    });
  }

  /** Closes idle connections at once. A connection in use closes after its request. */
  close(): void {
    this.#closed = true;
    for (const connection of [...this.#idle.values()].flat()) this.#drop(connection);
  }

  #take(origin: string): Connection {
    return this.#idle.get(origin)?.pop() ?? this.#open(origin);
  }

  #open(origin: string): Connection {
    const connection: Connection = {
      origin,
      address: null,
      client: new Client(origin, {
        pipelining: 1,
        // The timer in Exchange is the only deadline, so undici's timeouts are disabled.
        headersTimeout: 0,
        bodyTimeout: 0,
        keepAliveTimeout: KEEP_ALIVE_MS,
        keepAliveMaxTimeout: KEEP_ALIVE_MS,
        keepAliveTimeoutThreshold: 0,
        connect: (options, callback) => {
          const bare = options.hostname.replace(/^\[(.*)\]$/, '$1');
          try {
            this.#guard.checkLiteral(bare);
          } catch (error) {
            callback(error as Error, null);
            return;
          }
          this.#connect({ ...options, hostname: bare }, (...[error, socket]) => {
            if (error !== null) {
              callback(error, null);
              return;
            }
            connection.address = socket.remoteAddress ?? null;
            callback(null, socket);
          });
        },
      }),
    };
    connection.client.on('disconnect', () => this.#drop(connection, false));
    return connection;
  }

  #give(connection: Connection): void {
    if (this.#closed || connection.client.destroyed) {
      this.#drop(connection);
      return;
    }
    const list = this.#idle.get(connection.origin);
    if (list === undefined) this.#idle.set(connection.origin, [connection]);
    else list.push(connection);
  }

  /**
   * Removes a connection from the idle list and destroys it. With `inUse: false`, a connection that
   * carries a request is not destroyed; its Exchange handles the end.
   */
  #drop(connection: Connection, inUse = true): void {
    const list = this.#idle.get(connection.origin);
    const at = list?.indexOf(connection) ?? -1;
    if (at >= 0) list?.splice(at, 1);
    if (list?.length === 0) this.#idle.delete(connection.origin);
    if (at >= 0 || inUse) connection.client.destroy().catch(() => undefined);
  }
}

interface Connection {
  readonly origin: string;
  readonly client: Client;
  address: string | null;
}

/**
 * undici's handler for one request. Calls `done` once. `isClean` is true when the connection can be
 * reused.
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #connection: Connection;
  readonly #done: (answer: Answer, isClean: boolean) => void;
  readonly #startedAt = performance.now();
  readonly #deadline: NodeJS.Timeout;
  #httpStatus: number | null = null;
  #retryAfter: string | undefined;
  #chunks: Buffer[] = [];
  #length = 0;
  #settled = false;

  constructor(connection: Connection, done: (answer: Answer, isClean: boolean) => void) {
    this.#connection = connection;
    this.#done = done;
    this.#deadline = setTimeout(() => this.#settle('timeout'), DEADLINE_MS);
  }

  // Without this method, undici treats the handler as an old-style handler.
  onRequestStart(): void {
    return;
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200) return;
    this.#httpStatus = status;
    const retryAfter = headers['retry-after'];
    this.#retryAfter = Array.isArray(retryAfter) ? retryAfter[0] : retryAfter;
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunks.push(Buffer.from(chunk.subarray(0, MAX_BODY_BYTES - this.#length)));
    this.#length += chunk.length;
    if (this.#length >= MAX_BODY_BYTES) this.#settle('cut off');
  }

  onResponseEnd(): void {
    this.#settle(undefined);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#settle(classify(error));
  }

  #settle(error: string | undefined): void {
    if (this.#settled) return;
    this.#settled = true;
    clearTimeout(this.#deadline);
    const httpStatus = this.#httpStatus;
    const retryAfter = this.#retryAfter;
    const isGood = httpStatus !== null && httpStatus < 300;
    this.#done(
      {
        httpStatus,
        error: httpStatus === null ? (error ?? 'protocol') : null,
        response: httpStatus === null ? null : Buffer.concat(this.#chunks),
        address: this.#connection.address,
        durationMs: Math.round(performance.now() - this.#startedAt),
        retryAfter,
      },
      isGood && error === undefined,
    );
  }
}
