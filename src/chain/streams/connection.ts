// Keeps a WebSocket connection to a node open and reconnects when the connection is lost. The
// caller sends the subscription requests and handles the messages.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { Agent, buildConnector, ping, WebSocket } from 'undici';
import { backoff } from '../../backoff.ts';
import type { Log } from '../../log.ts';
import { ADDRESS_TIMEOUT_MS } from '../../sockets.ts';
import { object, text } from '../rpc/responses.ts';

export interface StreamOptions {
  /** WebSocket URLs in order of preference. After a failure the next URL is tried. */
  readonly urls: readonly string[];
  /** Name of the stream in log messages. */
  readonly name: string;
  /** Milliseconds without any message after which the stream reconnects. */
  readonly silenceMs: number;
  /**
   * Whether a pong counts as a message. Some streams get no messages for long, and only pongs show
   * that the connection works.
   */
  readonly pongsSuffice?: () => boolean;
  /** Called when the connection is open and requests can be sent. */
  readonly onOpen: () => void;
  /**
   * Called with each message. If this function throws, the message was unreadable. The stream then
   * reconnects, because the message may have been a notification that is now lost.
   */
  readonly onMessage: (message: Readonly<Record<string, unknown>>) => void;
  /** Called when the connection is lost. The stream then reconnects. */
  readonly onBreak?: () => void;
  readonly log: Pick<Log, 'info' | 'warn'>;
}

export interface Stream {
  readonly request: (id: number, method: string, params: readonly unknown[]) => void;
  /**
   * The caller calls `settled` once all its requests have a response. The call resets the backoff.
   */
  readonly settled: () => void;
  readonly close: () => void;
}

/** How long an abandoned connection may take to close before it is destroyed. */
const CLOSING_MS = 1000;
/** undici reports pongs only on this diagnostics channel. */
const PONG_CHANNEL = 'undici:websocket:pong';
/**
 * After this many consecutive failures the stream retries only every minute or two. Changes that
 * the stream misses meanwhile are found when the keeper's sweep reads all subscriptions.
 */
const FAILURES_BEFORE_PAUSE = 10;
/** Delays of reconnects: after a failure, and after many consecutive failures. */
const RETRY_MS = { base: 250, cap: 15_000 };
const PAUSED_MS = { base: 120_000, cap: 120_000 };
/**
 * Number of pings that are sent per `silenceMs`. Pings also keep proxies from closing an idle
 * connection.
 */
const PINGS = 3;

/**
 * Opens a stream, and reconnects with backoff until `close` is called. Throws a TypeError for a bad
 * URL. Later failures are only logged.
 */
export function openStream({
  urls,
  name,
  silenceMs,
  pongsSuffice = () => false,
  onOpen,
  onMessage,
  onBreak,
  log,
}: StreamOptions): Stream {
  if (urls.length === 0) throw new TypeError('at least one WebSocket URL is needed');
  for (const url of urls) {
    if (!/^wss?:$/.test(new URL(url).protocol))
      throw new TypeError('a WebSocket URL begins with ws:// or wss://');
  }
  let closed = false;
  let urlIndex = 0;
  let failures = 0;
  let connection: StreamConnection | undefined;
  let retry: NodeJS.Timeout | undefined;

  function connect(): void {
    const url = urls[urlIndex % urls.length] ?? '';
    connection = openConnection(url, {
      silenceMs,
      pongsSuffice,
      onOpen,
      onMessage,
      onEnd(reason) {
        if (closed) return;
        urlIndex += 1;
        failures += 1;
        log.warn({ endpoint: new URL(url).origin, reason, failures, stream: name }, 'stream lost');
        onBreak?.();
        const paused = failures > FAILURES_BEFORE_PAUSE;
        retry = setTimeout(connect, backoff(failures, paused ? PAUSED_MS : RETRY_MS));
      },
    });
  }
  connect();

  return {
    request: (id, method, params) =>
      connection?.send(JSON.stringify({ jsonrpc: '2.0', id, method, params })),
    settled() {
      failures = 0;
      const endpoint = new URL(urls[urlIndex % urls.length] ?? '').origin;
      log.info({ endpoint, stream: name }, 'stream open');
    },
    close() {
      closed = true;
      clearTimeout(retry);
      connection?.end('closed');
    },
  };
}

interface StreamConnection {
  readonly send: (text: string) => void;
  readonly end: (reason: string) => void;
}

interface ConnectionOptions
  extends
    Pick<StreamOptions, 'silenceMs' | 'onOpen' | 'onMessage'>,
    Required<Pick<StreamOptions, 'pongsSuffice'>> {
  readonly onEnd: (reason: string) => void;
}

/** Opens one connection. Calls `onEnd` exactly once. */
function openConnection(
  url: string,
  { silenceMs, pongsSuffice, onOpen, onMessage, onEnd }: ConnectionOptions,
): StreamConnection {
  let transport: Socket | undefined;
  const connector = buildConnector({
    timeout: silenceMs,
    autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT_MS,
  });
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
    end(`nothing received for ${silenceMs} ms`);
  }, silenceMs);
  const pings = setInterval(() => {
    if (socket.readyState === WebSocket.OPEN) ping(socket);
  }, silenceMs / PINGS);
  const onPong = (message: unknown) => {
    const isThisSocket = (message as { websocket?: unknown }).websocket === socket;
    if (isThisSocket && pongsSuffice()) silence.refresh();
  };
  subscribe(PONG_CHANNEL, onPong);

  function end(reason: string): void {
    if (ended) return;
    ended = true;
    clearTimeout(silence);
    clearInterval(pings);
    unsubscribe(PONG_CHANNEL, onPong);
    socket.close();
    // The socket is destroyed after CLOSING_MS, because the peer may never complete the closing
    // handshake.
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
  socket.addEventListener('error', ({ error }) =>
    end(error instanceof Error ? error.message : 'connection failed'),
  );
  socket.addEventListener('close', ({ code }) => end(`closed by the other side (${code})`));

  return {
    send: (data) => {
      if (!ended) socket.send(data);
    },
    end,
  };
}

/**
 * Runs a listener and logs its error, so that a bug in a listener stops neither the stream nor the
 * process.
 */
export function guarded(log: Pick<Log, 'error'>, listener: () => void): void {
  try {
    listener();
  } catch (error) {
    log.error({ err: error }, 'stream listener failed');
  }
}
