// Posts webhooks over undici: one request, sent once, to an address that the SSRF guard has vetted. No redirect is followed, nothing is decompressed,
// at most 4 KiB of the answer's body are read.
import { buildConnector, Client, type Dispatcher } from 'undici';
import { classify } from './errors.ts';
import type { SsrfGuard } from './ssrf-guard.ts';

/** Milliseconds from the request's start to the status line; a body that is incomplete by then is cut. */
export const deadlineMs = 5000;

const bodyLimit = 4096;
/** Servers close idle connections after 5 s (Node's default) or later. Closing earlier avoids sending a request on a connection that is being closed. */
const keepAliveMs = 4000;

export interface Answer {
  /** null when no status line came. */
  httpStatus: number | null;
  /** The class of the error (errors.ts); null when a status line came. */
  error: string | null;
  /** The first 4 KiB of the body; null when no status line came. */
  response: Buffer | null;
  /** Of the peer, once there was a connection. */
  address: string | null;
  durationMs: number;
  retryAfter: string | undefined;
}

export interface WebhookRequest {
  origin: string;
  /** Path and query. */
  path: string;
  /** Name, value, name, value. */
  headers: string[];
  body: string;
}

/** Connections to receivers. Each carries one request at a time, and no further one after a failure. */
export class WebhookClient {
  private readonly idle = new Map<string, Connection[]>();
  private readonly connect: buildConnector.connector;
  private readonly guard: SsrfGuard;
  private closed = false;

  constructor(guard: SsrfGuard) {
    this.guard = guard;
    this.connect = buildConnector({
      timeout: deadlineMs,
      // Explicit, so that NODE_TLS_REJECT_UNAUTHORIZED does not switch it off.
      rejectUnauthorized: true,
      ...(guard.lookup === undefined ? {} : { lookup: guard.lookup }),
    });
  }

  /** Resolves with the answer or with the error; never rejects. */
  post(request: WebhookRequest): Promise<Answer> {
    const connection = this.take(request.origin);
    return new Promise((resolve) => {
      const exchange = new Exchange(connection, (answer, isClean) => {
        // Not within undici's own parsing: bytes that follow the answer must not be read as the next one.
        if (isClean) queueMicrotask(() => this.give(connection));
        else this.drop(connection);
        resolve(answer);
      });
      const { path, headers, body } = request;
      connection.client.dispatch({ method: 'POST', path, headers, body }, exchange);
    });
  }

  /** Ends idle connections; one in use ends with its request. */
  close(): void {
    this.closed = true;
    for (const connection of [...this.idle.values()].flat()) this.drop(connection);
  }

  private take(origin: string): Connection {
    return this.idle.get(origin)?.pop() ?? this.open(origin);
  }

  private open(origin: string): Connection {
    const connection: Connection = {
      origin,
      address: null,
      client: new Client(origin, {
        pipelining: 1,
        // The one deadline is the exchange's.
        headersTimeout: 0,
        bodyTimeout: 0,
        keepAliveTimeout: keepAliveMs,
        keepAliveMaxTimeout: keepAliveMs,
        keepAliveTimeoutThreshold: 0,
        connect: (options, callback) => {
          const bare = options.hostname.replace(/^\[(.*)\]$/, '$1');
          try {
            this.guard.checkLiteral(bare);
          } catch (error) {
            callback(error as Error, null);
            return;
          }
          this.connect({ ...options, hostname: bare }, (...[error, socket]) => {
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
    connection.client.on('disconnect', () => this.drop(connection, false));
    return connection;
  }

  private give(connection: Connection): void {
    if (this.closed || connection.client.destroyed) {
      this.drop(connection);
      return;
    }
    const list = this.idle.get(connection.origin);
    if (list === undefined) this.idle.set(connection.origin, [connection]);
    else list.push(connection);
  }

  /** `inUse: false` leaves a connection that carries a request to its exchange. */
  private drop(connection: Connection, inUse = true): void {
    const list = this.idle.get(connection.origin);
    const at = list?.indexOf(connection) ?? -1;
    if (at >= 0) list?.splice(at, 1);
    if (list?.length === 0) this.idle.delete(connection.origin);
    if (at >= 0 || inUse) connection.client.destroy().catch(() => undefined);
  }
}

interface Connection {
  readonly origin: string;
  readonly client: Client;
  address: string | null;
}

/** One request as undici reports it. Calls `done` once; `isClean`: the connection can carry another. */
class Exchange implements Dispatcher.DispatchHandler {
  private readonly connection: Connection;
  private readonly done: (answer: Answer, isClean: boolean) => void;
  private readonly startedAt = performance.now();
  private readonly deadline: NodeJS.Timeout;
  private httpStatus: number | null = null;
  private retryAfter: string | undefined;
  private chunks: Buffer[] = [];
  private length = 0;
  private settled = false;

  constructor(connection: Connection, done: (answer: Answer, isClean: boolean) => void) {
    this.connection = connection;
    this.done = done;
    this.deadline = setTimeout(() => this.settle('timeout'), deadlineMs);
  }

  // undici takes an object without this for a handler of its older kind.
  onRequestStart(): void {
    return;
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200) return;
    this.httpStatus = status;
    const retryAfter = headers['retry-after'];
    this.retryAfter = Array.isArray(retryAfter) ? retryAfter[0] : retryAfter;
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.chunks.push(Buffer.from(chunk.subarray(0, bodyLimit - this.length)));
    this.length += chunk.length;
    if (this.length >= bodyLimit) this.settle('cut off');
  }

  onResponseEnd(): void {
    this.settle(undefined);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.settle(classify(error));
  }

  private settle(error: string | undefined): void {
    if (this.settled) return;
    this.settled = true;
    clearTimeout(this.deadline);
    const { httpStatus, retryAfter } = this;
    const isGood = httpStatus !== null && httpStatus < 300;
    this.done(
      {
        httpStatus,
        error: httpStatus === null ? (error ?? 'protocol') : null,
        response: httpStatus === null ? null : Buffer.concat(this.chunks),
        address: this.connection.address,
        durationMs: Math.round(performance.now() - this.startedAt),
        retryAfter,
      },
      isGood && error === undefined,
    );
  }
}
