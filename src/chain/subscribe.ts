import type { Socket } from 'node:net';
import { Agent, buildConnector, WebSocket } from 'undici';
import { backoff } from '../backoff.ts';
import type { Log } from '../log.ts';
import type { ChainAccount } from './accounts.ts';
import { account, array, big, type Commitment, integer, object, text } from './answers.ts';

// Follows a program over a WebSocket: its accounts, and the transactions that name it, since a node says nothing of an account that was closed: that
// belongs to another program by then. The stream tells early, it does not tell everything: notices are lost while the socket is down. A sweep
// behind it is what counts.

/** An account of the program as it was after a transaction at `slot`. */
export interface ProgramNotice extends ChainAccount {
  readonly address: string;
  readonly slot: bigint;
}

/** A transaction that names the program and succeeded. */
export interface TransactionNotice {
  readonly signature: string;
  readonly slot: bigint;
  readonly logs: readonly string[];
}

export interface FollowOptions {
  /** WebSocket URLs in order of preference; after a failure the next one is tried. */
  readonly urls: readonly string[];
  readonly programId: string;
  readonly commitment?: Commitment;
  readonly onNotice: (notice: ProgramNotice) => void;
  readonly onTransaction: (notice: TransactionNotice) => void;
  /** The stream is on, and whatever happened before was not seen: at the start and after each reconnect. */
  readonly onGap: () => void;
  /** Each new slot: the node's heartbeat. */
  readonly onSlot?: (slot: bigint) => void;
  /** Milliseconds without any message (slots come every 400) after which the connection is given up. */
  readonly silenceMs?: number;
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>;
}

export interface Follower {
  /** Whether the stream is on. */
  readonly connected: () => boolean;
  readonly close: () => void;
}

/** The WebSocket URL that goes with an RPC URL: ws for http, and the next port where one is named, as Solana's own clients have it. */
export function websocketUrl(rpcUrl: string): string {
  const url = new URL(rpcUrl);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  if (url.port !== '') url.port = String(Number(url.port) + 1);
  return url.href;
}

const PROGRAM_REQUEST = 1;
const SLOT_REQUEST = 2;
const LOGS_REQUEST = 3;
const CLOSING_MS = 1000;

/** Starts following; connects, and reconnects with backoff until `close`. Throws a TypeError for a URL that is none, and nothing later. */
export function followProgram(options: FollowOptions): Follower {
  const { urls, log } = options;
  if (urls.length === 0) throw new TypeError('at least one WebSocket URL is needed');
  for (const url of urls) {
    if (!/^wss?:$/.test(new URL(url).protocol)) throw new TypeError('a WebSocket URL begins with ws:// or wss://');
  }
  let closed = false;
  let attempt = 0;
  let session: Session | undefined;
  let retry: NodeJS.Timeout | undefined;

  function connect(): void {
    const url = urls[attempt % urls.length] ?? '';
    const name = new URL(url).origin;
    session = openSession(url, options, {
      onReady() {
        attempt = 0;
        log.info({ endpoint: name }, 'following the program');
        guarded(log, options.onGap);
      },
      onEnd(reason) {
        if (closed) return;
        attempt += 1;
        const wait = backoff(attempt, { base: 250, cap: 15_000 });
        log.warn({ endpoint: name, reason, attempt }, 'the program stream broke off');
        retry = setTimeout(connect, wait);
      },
    });
  }
  connect();

  return {
    connected: () => session?.ready() ?? false,
    close() {
      closed = true;
      clearTimeout(retry);
      session?.end('closed');
    },
  };
}

interface Session {
  readonly ready: () => boolean;
  readonly end: (reason: string) => void;
}

/** One connection, from its opening to `onEnd`, which comes exactly once. */
function openSession(
  url: string,
  { programId, commitment = 'confirmed', onNotice, onTransaction, onSlot, silenceMs = 15_000, log }: FollowOptions,
  { onReady, onEnd }: { onReady: () => void; onEnd: (reason: string) => void },
): Session {
  let connection: Socket | undefined;
  const connector = buildConnector({ timeout: silenceMs });
  const dispatcher = new Agent({
    connect(target, callback) {
      connector(target, (...result) => {
        connection = result[1] ?? undefined;
        callback(...result);
      });
    },
  });
  const socket = new WebSocket(url, { dispatcher });
  const subscriptions = new Map<number, number>();
  let ended = false;
  const silence = setTimeout(() => {
    end(`nothing heard for ${silenceMs} ms`);
  }, silenceMs);
  const ready = () => !ended && subscriptions.size === 3;

  function end(reason: string): void {
    if (ended) return;
    ended = true;
    clearTimeout(silence);
    socket.close();
    // The other side may be gone and never answer the closing handshake: nobody waits for it longer than this.
    connection?.unref();
    setTimeout(() => {
      connection?.destroy();
      void dispatcher.destroy();
    }, CLOSING_MS).unref();
    onEnd(reason);
  }

  function request(id: number, method: string, params: readonly unknown[]): void {
    socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
  }

  function receive(data: unknown): void {
    const message = object(JSON.parse(text(data, 'message')), 'message');
    if ('id' in message) {
      if ('error' in message) throw new Error(`refused: ${text(object(message.error, 'error').message, 'error message')}`);
      subscriptions.set(integer(message.id, 'id'), integer(message.result, 'subscription'));
      if (ready()) onReady();
      return;
    }
    const { result, subscription } = object(message.params, 'params');
    if (message.method === 'programNotification' && subscription === subscriptions.get(PROGRAM_REQUEST)) {
      const notice = programNotice(result);
      guarded(log, () => onNotice(notice));
    } else if (message.method === 'logsNotification' && subscription === subscriptions.get(LOGS_REQUEST)) {
      const notice = transactionNotice(result);
      if (notice !== null) guarded(log, () => onTransaction(notice));
    } else if (message.method === 'slotNotification' && subscription === subscriptions.get(SLOT_REQUEST)) {
      const slot = big(object(result, 'slot notification').slot, 'slot');
      guarded(log, () => onSlot?.(slot));
    }
  }

  socket.addEventListener('open', () => {
    request(PROGRAM_REQUEST, 'programSubscribe', [programId, { commitment, encoding: 'base64' }]);
    request(SLOT_REQUEST, 'slotSubscribe', []);
    request(LOGS_REQUEST, 'logsSubscribe', [{ mentions: [programId] }, { commitment }]);
  });
  socket.addEventListener('message', ({ data }) => {
    if (ended) return;
    silence.refresh();
    try {
      receive(data);
    } catch (error) {
      // A message that cannot be read may have been a notice: start anew, which makes it a known gap.
      end(error instanceof Error ? error.message : String(error));
    }
  });
  socket.addEventListener('error', ({ error }) => end(error instanceof Error ? error.message : 'connection failed'));
  socket.addEventListener('close', ({ code }) => end(`closed by the other side (${code})`));

  return { ready, end };
}

function programNotice(result: unknown): ProgramNotice {
  const { context, value } = object(result, 'notification');
  const { pubkey, account: found } = object(value, 'notification value');
  return { address: text(pubkey, 'pubkey'), slot: big(object(context, 'context').slot, 'slot'), ...account(found) };
}

/** Null for a transaction that failed: it has changed nothing. */
function transactionNotice(result: unknown): TransactionNotice | null {
  const { context, value } = object(result, 'notification');
  const { signature, err, logs } = object(value, 'notification value');
  if (err !== null && err !== undefined) return null;
  return {
    signature: text(signature, 'signature'),
    slot: big(object(context, 'context').slot, 'slot'),
    logs: array(logs, 'logs').map((line) => text(line, 'log')),
  };
}

/** A listener's error is its own bug; it must not take the stream or the process down. */
function guarded(log: FollowOptions['log'], listener: () => void): void {
  try {
    listener();
  } catch (error) {
    log.error({ err: error }, 'a listener of the program stream failed');
  }
}
