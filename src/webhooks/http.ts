// Sends webhooks over undici, to addresses that the SSRF guard has checked. A request is repeated
// only when a reused connection ended before the response began. The client follows no redirects,
// decompresses nothing, and reads at most 4 KiB of the response body.
import { buildConnector, Client, type Dispatcher } from 'undici';
import { ADDRESS_TIMEOUT_MS } from '../sockets.ts';
import { EgressProxy } from './egress-proxy.ts';
import { classify, type Failure } from './errors.ts';
import type { SsrfGuard } from './ssrf-guard.ts';

/**
 * Time (ms) from the start of the request to the deadline for the status line. A body that is
 * incomplete at the deadline is truncated.
 */
export const DEADLINE_MS = 5000;

const MAX_BODY_BYTES = 4096;
/**
 * Number of a response's first bytes that are kept until undici has parsed the headers. If undici
 * fails, the status line is read from these bytes. The last kept chunk may exceed this number.
 */
const MAX_HEAD_BYTES = 4096;
/**
 * An idle connection is closed after this time (ms). Most servers close idle connections after 5 s
 * (Node's default) or later. The client closes them earlier, so that no request starts on a
 * connection that the server is closing.
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

export interface PlainRequest {
  origin: string;
  /** Path and query of the URL. */
  path: string;
  /** A flat list: name, value, name, value. */
  headers: string[];
}

export interface WebhookRequest extends PlainRequest {
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
  readonly #proxy: EgressProxy | undefined;
  #closed = false;

  /** `proxy` is WEBHOOK_PROXY. The guard checks a host before the proxy connects to it. */
  constructor(guard: SsrfGuard, { proxy }: { proxy?: string | undefined } = {}) {
    this.#guard = guard;
    this.#proxy = proxy === undefined ? undefined : new EgressProxy(proxy, DEADLINE_MS);
    this.#connect = buildConnector({
      timeout: DEADLINE_MS,
      autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT_MS,
      // Set explicitly, so that NODE_TLS_REJECT_UNAUTHORIZED cannot turn certificate checks off.
      rejectUnauthorized: true,
      ...(guard.lookup === undefined ? {} : { lookup: guard.lookup }),
    });
  }

  /** Sends a POST. Resolves with the response or the error; never rejects. */
  async post(request: WebhookRequest): Promise<Answer> {
    const first = await this.#send(request, this.#take(request.origin), DEADLINE_MS);
    if (!first.isLost) return first.answer;
    // The server closed a reused connection while the request was in flight, so the request is sent
    // again on a new connection. The server may have read the first request. A receiver that closes
    // its connections instead of responding therefore gets the request twice.
    const { durationMs } = first.answer;
    const again = await this.#send(request, this.#open(request.origin), DEADLINE_MS - durationMs);
    return { ...again.answer, durationMs: durationMs + again.answer.durationMs };
  }

  /** Sends a GET over a new connection. Resolves with the response or the error; never rejects. */
  async get(request: PlainRequest): Promise<Answer> {
    return (await this.#send(request, this.#open(request.origin), DEADLINE_MS)).answer;
  }

  /** Closes idle connections at once. A connection in use closes after its request. */
  close(): void {
    this.#closed = true;
    for (const connection of [...this.#idle.values()].flat()) this.#drop(connection);
    this.#proxy?.close();
  }

  /**
   * Sends the request over this connection. Afterwards puts the connection into the idle list or
   * closes it.
   */
  async #send(
    request: PlainRequest & Partial<WebhookRequest>,
    connection: Connection,
    deadlineMs: number,
  ): Promise<Sent> {
    const { path, headers, body } = request;
    const { isClean, ...sent } = await new Promise<Ended>((resolve) => {
      const exchange = new Exchange(connection, deadlineMs, resolve);
      connection.client.dispatch(
        body === undefined
          ? { method: 'GET', path, headers }
          : { method: 'POST', path, headers, body },
        exchange,
      );
    });
    if (isClean) {
      await nextPoll();
      this.#give(connection);
    } else this.#drop(connection);
    return sent;
  }

  #take(origin: string): Connection {
    return this.#idle.get(origin)?.pop() ?? this.#open(origin);
  }

  #open(origin: string): Connection {
    const connection: Connection = {
      origin,
      address: null,
      isOpen: false,
      isUsed: false,
      fault: undefined,
      onBytes: undefined,
      client: new Client(origin, {
        pipelining: 1,
        // The timer in Exchange is the only deadline, so undici's timeouts are disabled.
        headersTimeout: 0,
        bodyTimeout: 0,
        keepAliveTimeout: KEEP_ALIVE_MS,
        keepAliveMaxTimeout: KEEP_ALIVE_MS,
        keepAliveTimeoutThreshold: 0,
        connect: (options, callback) => this.#connectTo(connection, options, callback),
      }),
    };
    connection.client.on('disconnect', () => {
      connection.isOpen = false;
      this.#drop(connection, false);
    });
    return connection;
  }

  /**
   * Opens the socket of a connection. undici calls this method again when an idle connection turns
   * out to be closed.
   */
  #connectTo(
    connection: Connection,
    options: buildConnector.Options,
    callback: buildConnector.Callback,
  ): void {
    connection.address = null;
    connection.isUsed = false;
    connection.fault = undefined;
    const hostname = options.hostname.replace(/^\[(.*)\]$/, '$1');
    try {
      this.#guard.checkLiteral(hostname);
      this.#guard.checkPort(options.port);
    } catch (error) {
      callback(error as Error, null);
      return;
    }
    const opened =
      (address?: string | null): buildConnector.Callback =>
      (...[error, socket]) => {
        if (error !== null) {
          callback(error, null);
          return;
        }
        connection.address = address === undefined ? (socket.remoteAddress ?? null) : address;
        connection.isOpen = true;
        // Keeps the socket's first error, because after a TLS alert undici reports only that the
        // connection ended.
        socket.once('error', (fault: Error) => (connection.fault = fault));
        // undici reads the socket with read(), and read() emits `data` before it returns. This
        // listener therefore gets the bytes before undici parses them.
        socket.on('data', (chunk: Buffer) => connection.onBytes?.(chunk));
        callback(null, socket);
      };
    if (this.#proxy === undefined) this.#connect({ ...options, hostname }, opened());
    else void this.#connectThrough(this.#proxy, { ...options, hostname }, opened);
  }

  async #connectThrough(
    proxy: EgressProxy,
    options: buildConnector.Options,
    opened: (address: string | null) => buildConnector.Callback,
  ): Promise<void> {
    const { hostname, protocol } = options;
    const isTls = protocol === 'https:';
    const port = options.port === '' ? (isTls ? '443' : '80') : options.port;
    try {
      const { socket, address } = await proxy.open({ hostname, port }, this.#guard.lookup);
      socket.setNoDelay(true);
      if (isTls) this.#connect({ ...options, httpSocket: socket }, opened(address));
      else opened(address)(null, socket);
    } catch (error) {
      opened(null)(error as Error, null);
    }
  }

  #give(connection: Connection): void {
    if (this.#closed || !connection.isOpen) {
      this.#drop(connection);
      return;
    }
    connection.isUsed = true;
    const list = this.#idle.get(connection.origin);
    if (list === undefined) this.#idle.set(connection.origin, [connection]);
    else list.push(connection);
  }

  /**
   * Destroys a connection and removes it from the idle list. If `inUse` is false, a connection that
   * carries a request is not destroyed, because the request's Exchange handles the connection's
   * end.
   */
  #drop(connection: Connection, inUse = true): void {
    const list = this.#idle.get(connection.origin);
    const at = list?.indexOf(connection) ?? -1;
    if (at >= 0) list?.splice(at, 1);
    if (list?.length === 0) this.#idle.delete(connection.origin);
    if (at >= 0 || inUse) connection.client.destroy().catch(() => undefined);
  }
}

/**
 * Resolves after the event loop has polled all sockets once more. If the server closed the
 * connection directly after its response, only this next poll detects it.
 */
function nextPoll(): Promise<void> {
  // The first callback may run before the next poll. The second callback always runs after it.
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}

interface Connection {
  readonly origin: string;
  readonly client: Client;
  address: string | null;
  isOpen: boolean;
  /**
   * True when the socket has already carried a response. The server may be closing such a socket.
   */
  isUsed: boolean;
  /** The first error of the socket. */
  fault: Error | undefined;
  /** Called with the bytes of the response. */
  onBytes: ((chunk: Buffer) => void) | undefined;
}

interface Sent {
  answer: Answer;
  /** True when a reused connection ended before the first byte of a response. */
  isLost: boolean;
}

interface Ended extends Sent {
  /** True when the connection can be reused. */
  isClean: boolean;
}

/** undici's handler for one request. Calls `done` once. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #connection: Connection;
  readonly #done: (ended: Ended) => void;
  readonly #startedAt = performance.now();
  readonly #deadline: NodeJS.Timeout;
  #httpStatus: number | null = null;
  #retryAfter: string | undefined;
  #head: Buffer[] = [];
  #headLength = 0;
  #chunks: Buffer[] = [];
  #length = 0;
  #settled = false;

  constructor(connection: Connection, deadlineMs: number, done: (ended: Ended) => void) {
    this.#connection = connection;
    this.#done = done;
    this.#deadline = setTimeout(() => this.#settle('timeout'), deadlineMs);
    connection.onBytes = (chunk) => {
      if (this.#httpStatus !== null || this.#headLength >= MAX_HEAD_BYTES) return;
      this.#head.push(chunk);
      this.#headLength += chunk.length;
    };
  }

  // undici treats a handler without this method as a handler of its older interface.
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
    this.#settle(classify(this.#connection.fault ?? error));
  }

  #settle(error: Failure | 'cut off' | undefined): void {
    if (this.#settled) return;
    this.#settled = true;
    clearTimeout(this.#deadline);
    const { address, isUsed } = this.#connection;
    this.#connection.onBytes = undefined;
    // A received status line counts as the answer, even if undici cannot parse the rest of the
    // response.
    const httpStatus = this.#httpStatus ?? statusOf(Buffer.concat(this.#head).toString('latin1'));
    const retryAfter = this.#retryAfter;
    const isGood = httpStatus !== null && httpStatus < 300;
    this.#done({
      answer: {
        httpStatus,
        error: httpStatus === null ? (error ?? 'protocol') : null,
        response: httpStatus === null ? null : Buffer.concat(this.#chunks),
        address,
        durationMs: Math.round(performance.now() - this.#startedAt),
        retryAfter,
      },
      isClean: isGood && error === undefined,
      isLost: isUsed && error === 'reset' && this.#headLength === 0,
    });
  }
}

/**
 * Returns the status in the first complete status line. Status lines of informational responses
 * (1xx) are skipped. Returns null when there is no such line.
 */
function statusOf(head: string): number | null {
  const informational = /^HTTP\/1\.[01] 1\d\d[ \r\n]/;
  const final = head.split(/\r?\n\r?\n/).find((part) => !informational.test(part));
  const status = /^HTTP\/1\.[01] ([2-5]\d\d)(?: [^\r\n]*)?\r?\n/.exec(final ?? '')?.[1];
  return status === undefined ? null : Number(status);
}
