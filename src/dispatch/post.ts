// One HTTP request, sent once: no redirect is followed, nothing is sent again behind the caller's back, the answer's body is read up to 4 KiB as
// it comes, never decompressed.
import { AnswerReader } from './answer.ts';
import type { Connection, Exchange } from './connection.ts';
import type { Connections } from './connections.ts';
import type { Deadline, Deadlines } from './deadlines.ts';
import { ClosedConnection, classify } from './failure.ts';

/** The whole exchange up to the status line, in milliseconds (service.md, Limits). What remains of the body is cut off then. */
export const deadlineMs = 5000;

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
  /** Path and query as a URL has them: nothing in them ends a line. */
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
  const exchange = new PostExchange(connections, deadlines, connections.take(origin), done);
  exchange.connection.send(requestOf(origin, path, headers, body), exchange);
}

function requestOf(origin: string, path: string, headers: string[], body: Buffer): Buffer {
  let head = `POST ${path} HTTP/1.1\r\nhost: ${origin.slice(origin.indexOf('//') + 2)}\r\nconnection: keep-alive\r\n`;
  for (let at = 0; at < headers.length; at += 2) head += `${headers[at] ?? ''}: ${headers[at + 1] ?? ''}\r\n`;
  head += `content-length: ${body.length}\r\n\r\n`;
  const length = head.length + body.length;
  const request = piece(length);
  request.write(head, 'latin1');
  body.copy(request, head.length);
  return request;
}

/** Requests are laid into pieces of memory this large: of Node's own, 8 KiB, one would be made for each six requests. */
const slabBytes = 256 * 1024;
let slab = Buffer.alloc(0);
let used = 0;

function piece(length: number): Buffer {
  if (length > slabBytes / 8) return Buffer.allocUnsafeSlow(length);
  if (used + length > slab.length) {
    slab = Buffer.allocUnsafeSlow(slabBytes);
    used = 0;
  }
  return slab.subarray(used, (used += length));
}

// A class, since thousands are made each second: one object of one shape instead of several closures.
class PostExchange implements Exchange {
  readonly connection: Connection;
  private readonly connections: Connections;
  private readonly deadlines: Deadlines;
  private readonly deadline: Deadline;
  private readonly done: (answer: Answer) => void;
  private readonly startedAt = performance.now();
  private readonly answer = new AnswerReader();
  private settled = false;

  constructor(connections: Connections, deadlines: Deadlines, connection: Connection, done: (answer: Answer) => void) {
    this.connections = connections;
    this.deadlines = deadlines;
    this.deadline = deadlines.start(() => this.settle(false, 'timeout'));
    this.connection = connection;
    this.done = done;
  }

  settle(complete: boolean, error: string): void {
    if (this.settled) return;
    this.settled = true;
    this.deadlines.stop(this.deadline);
    const { connection, answer } = this;
    const durationMs = Math.round(performance.now() - this.startedAt);
    const { status, retryAfter } = answer;
    const { address } = connection;
    if (complete && answer.reusable && status !== null && status < 300) this.connections.give(connection);
    else this.connections.drop(connection);
    this.done({ httpStatus: status, error: status === null ? error : null, response: answer.response(), address, durationMs, retryAfter });
  }

  onBytes(bytes: Buffer): void {
    let complete: boolean;
    try {
      complete = this.answer.read(bytes);
    } catch (error) {
      this.settle(false, classify(error));
      return;
    }
    if (complete) this.settle(true, '');
    else if (this.answer.full) this.settle(false, '');
  }

  onEnd(): void {
    if (this.answer.end()) this.settle(false, '');
    else this.onError(new ClosedConnection('the other side closed the connection'));
  }

  onError(error: Error): void {
    this.settle(false, classify(error));
  }
}
