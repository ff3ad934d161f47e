// One HTTP request, sent once: no redirect is followed, nothing is sent again behind the caller's back, the answer's body is read up to 4 KiB as
// it comes, never decompressed.
import type { Dispatcher } from 'undici';
import type { Connections } from './connections.ts';
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
  const connection = connections.take(origin);
  const startedAt = performance.now();
  const chunks: Buffer[] = [];
  let length = 0;
  let httpStatus: number | null = null;
  let retryAfter: string | undefined;
  let settled = false;

  const settle = (clean: boolean, error: string) => {
    if (settled) return;
    settled = true;
    stopClock();
    const durationMs = Math.round(performance.now() - startedAt);
    const response = httpStatus === null ? null : joined(chunks, length);
    const { address } = connection;
    if (clean && httpStatus !== null && httpStatus < 300) connections.give(connection);
    else connections.drop(connection);
    done({ httpStatus, error: httpStatus === null ? error : null, response, address, durationMs, retryAfter });
  };
  const stopClock = deadlines.start(() => settle(false, 'timeout'));

  const handler: Dispatcher.DispatchHandler = {
    onRequestStart() {
      // Its presence tells undici which kind of handler this is.
    },
    onResponseStart(_controller, status, answered) {
      if (status < 200) return;
      httpStatus = status;
      const asked = answered['retry-after'];
      retryAfter = Array.isArray(asked) ? asked[0] : asked;
    },
    onResponseData(_controller, chunk) {
      // A copy: the parser reuses its memory.
      chunks.push(Buffer.from(chunk.subarray(0, responseLimit - length)));
      length += chunk.length;
      if (length > responseLimit) settle(false, '');
    },
    onResponseEnd() {
      settle(true, 'protocol');
    },
    onResponseError(_controller, error) {
      settle(false, classify(error));
    },
  };
  try {
    connection.client.dispatch({ method: 'POST', path, headers, body }, handler);
  } catch (error) {
    settle(false, classify(error));
  }
}

function joined(chunks: Buffer[], length: number): Buffer {
  return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, Math.min(length, responseLimit));
}
