import type { Socket } from 'node:net';
import { Agent, buildConnector, WebSocket } from 'undici';
import { backoff } from '../backoff.ts';
import type { Log } from '../log.ts';
import { object, text } from './answers.ts';

// A WebSocket to a node that comes back by itself: what is asked for on it, and what its messages mean, is the caller's business.

export interface StreamOptions {
  /** WebSocket URLs in order of preference; after a failure the next one is tried. */
  readonly urls: readonly string[];
  /** What this is, for the log. */
  readonly name: string;
  /** Milliseconds without any message after which the connection is given up. */
  readonly silenceMs: number;
  /** It is open: requests are sent now. */
  readonly onOpen: () => void;
  /** A message. When it throws, the connection is given up and opened anew: what cannot be read may have been a notice. */
  readonly onMessage: (message: Readonly<Record<string, unknown>>) => void;
  /** It broke off; another one is opened. */
  readonly onBreak?: () => void;
  readonly log: Pick<Log, 'info' | 'warn'>;
}

export interface Stream {
  readonly request: (id: number, method: string, params: readonly unknown[]) => void;
  /** All that was asked for is on: the next failure is the first one again. */
  readonly settled: () => void;
  readonly close: () => void;
}

const CLOSING_MS = 1000;

/** Connects, and reconnects with backoff until `close`. Throws a TypeError for a URL that is none, and nothing later. */
export function openStream({ urls, name, silenceMs, onOpen, onMessage, onBreak, log }: StreamOptions): Stream {
  if (urls.length === 0) throw new TypeError('at least one WebSocket URL is needed');
  for (const url of urls) {
    if (!/^wss?:$/.test(new URL(url).protocol)) throw new TypeError('a WebSocket URL begins with ws:// or wss://');
  }
  let closed = false;
  let place = 0;
  let failures = 0;
  let connection: Connection | undefined;
  let retry: NodeJS.Timeout | undefined;

  function connect(): void {
    const url = urls[place % urls.length] ?? '';
    connection = openConnection(url, silenceMs, {
      onOpen,
      onMessage,
      onEnd(reason) {
        if (closed) return;
        place += 1;
        failures += 1;
        log.warn({ endpoint: new URL(url).origin, reason, attempt: failures }, `${name} broke off`);
        onBreak?.();
        retry = setTimeout(connect, backoff(failures, { base: 250, cap: 15_000 }));
      },
    });
  }
  connect();

  return {
    request: (id, method, params) => connection?.send(JSON.stringify({ jsonrpc: '2.0', id, method, params })),
    settled() {
      failures = 0;
      log.info({ endpoint: new URL(urls[place % urls.length] ?? '').origin }, `${name} is on`);
    },
    close() {
      closed = true;
      clearTimeout(retry);
      connection?.end('closed');
    },
  };
}

interface Connection {
  readonly send: (text: string) => void;
  readonly end: (reason: string) => void;
}

/** One connection, from its opening to `onEnd`, which comes exactly once. */
function openConnection(
  url: string,
  silenceMs: number,
  { onOpen, onMessage, onEnd }: Pick<StreamOptions, 'onOpen' | 'onMessage'> & { onEnd: (reason: string) => void },
): Connection {
  let transport: Socket | undefined;
  const connector = buildConnector({ timeout: silenceMs });
  const dispatcher = new Agent({
    connect(target, callback) {
      connector(target, (...result) => {
        transport = result[1] ?? undefined;
        callback(...result);
      });
    },
  });
  const socket = new WebSocket(url, { dispatcher });
  let ended = false;
  const silence = setTimeout(() => {
    end(`nothing heard for ${silenceMs} ms`);
  }, silenceMs);

  function end(reason: string): void {
    if (ended) return;
    ended = true;
    clearTimeout(silence);
    socket.close();
    // The other side may be gone and never answer the closing handshake: nobody waits for it longer than this.
    transport?.unref();
    setTimeout(() => {
      transport?.destroy();
      void dispatcher.destroy();
    }, CLOSING_MS).unref();
    onEnd(reason);
  }

  socket.addEventListener('open', () => onOpen());
  socket.addEventListener('message', ({ data }) => {
    if (ended) return;
    silence.refresh();
    try {
      onMessage(object(JSON.parse(text(data, 'message')), 'message'));
    } catch (error) {
      end(error instanceof Error ? error.message : String(error));
    }
  });
  socket.addEventListener('error', ({ error }) => end(error instanceof Error ? error.message : 'connection failed'));
  socket.addEventListener('close', ({ code }) => end(`closed by the other side (${code})`));

  return {
    send: (data) => {
      if (!ended) socket.send(data);
    },
    end,
  };
}

/** Runs a listener. Its error is its own bug; it must not take the stream or the process down. */
export function guarded(log: Pick<Log, 'error'>, listener: () => void): void {
  try {
    listener();
  } catch (error) {
    log.error({ err: error }, 'a listener of a stream failed');
  }
}
