// One HTTP request, sent once: no redirect is followed, nothing is sent again behind the caller's back, the answer's body is read up to 4 KiB as
// it comes, never decompressed.
import type { Dispatcher } from 'undici';
import type { Connection, Connections } from './connections.ts';
import type { Deadlines } from './deadlines.ts';
import { classify } from './failure.ts';

/** The whole exchange up to the status line, in milliseconds (service.md, Limits). What remains of the body is cut off then. */
export const deadlineMs = 5000;

const responseLimit = 4096;

export interface Answer {
  /** null when no status line came. */
  httpStatus: number | null;
  /** The class of error (failure.ts); null when a status line came. */
  error: string | null;
  /** The first 4 KiB of the body; null when no status line came. */
  response: Buffer | null;
  /** Of the peer, when a connection was made. */
  address: string | null;
  durationMs: number;
  retryAfter: string | undefined;
}

export interface Target {
  origin: string;
  path: string;
}

/** Posts `body` and calls `done` exactly once, whatever happens. Never throws. */
export function post(
  { connections, deadlines }: { connections: Connections; deadlines: Deadlines },
  { origin, path }: Target,
  headers: string[],
  body: Buffer,
  done: (answer: Answer) => void,
): void {
  const exchange = new Exchange(connections, connections.take(origin), done);
  exchange.stopClock = deadlines.start(() => exchange.settle(false, 'timeout'));
  try {
    exchange.connection.client.dispatch({ method: 'POST', path, headers, body }, exchange);
  } catch (error) {
    exchange.settle(false, classify(error));
  }
}

// A class, since thousands are made each second: one object of one shape instead of eight closures. These are the methods of undici's own parser;
// the newer ones (onRequestStart and so on) are made of them by two more objects per request and a map of all headers, of which one is read here.
class Exchange implements Dispatcher.DispatchHandler {
  readonly connection: Connection;
  stopClock: () => void = () => undefined;
  private readonly connections: Connections;
  private readonly done: (answer: Answer) => void;
  private readonly startedAt = performance.now();
  private readonly chunks: Buffer[] = [];
  private length = 0;
  private httpStatus: number | null = null;
  private retryAfter: string | undefined;
  private settled = false;

  constructor(connections: Connections, connection: Connection, done: (answer: Answer) => void) {
    this.connections = connections;
    this.connection = connection;
    this.done = done;
  }

  settle(clean: boolean, error: string): void {
    if (this.settled) return;
    this.settled = true;
    this.stopClock();
    const { connection, httpStatus, retryAfter } = this;
    const durationMs = Math.round(performance.now() - this.startedAt);
    const response = httpStatus === null ? null : joined(this.chunks, this.length);
    const { address } = connection;
    if (clean && httpStatus !== null && httpStatus < 300) this.connections.give(connection);
    else this.connections.drop(connection);
    this.done({ httpStatus, error: httpStatus === null ? error : null, response, address, durationMs, retryAfter });
  }

  onConnect(): void {
    // undici asks for it; nothing is aborted by request, connections are dropped instead.
  }

  onHeaders(status: number, headers: Buffer[]): boolean {
    if (status < 200) return true;
    this.httpStatus = status;
    if (status === 429 || status === 503) this.retryAfter = headerOf(headers, 'retry-after');
    return true;
  }

  onData(chunk: Buffer): boolean {
    // A copy: the parser reuses its memory.
    this.chunks.push(Buffer.from(chunk.subarray(0, responseLimit - this.length)));
    this.length += chunk.length;
    if (this.length > responseLimit) this.settle(false, '');
    return true;
  }

  onComplete(): void {
    this.settle(true, 'protocol');
  }

  onError(error: Error): void {
    this.settle(false, classify(error));
  }
}

/** The first value of a header among name, value, name, value. */
function headerOf(headers: readonly Buffer[], name: string): string | undefined {
  const at = headers.findIndex((text, index) => index % 2 === 0 && text.toString('latin1').toLowerCase() === name);
  return at < 0 ? undefined : headers[at + 1]?.toString('latin1');
}

function joined(chunks: Buffer[], length: number): Buffer {
  return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, Math.min(length, responseLimit));
}
