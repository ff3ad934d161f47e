import type { Log } from '../log.ts';
import type { ChainAccount } from './accounts.ts';
import { account, array, big, type Commitment, integer, object, text } from './answers.ts';
import { guarded, openStream } from './stream.ts';

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
  /** Each new slot, the node's heartbeat, and its newest root: final, or about to be. */
  readonly onSlot?: (slot: bigint, root: bigint) => void;
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

/** Starts following; connects, and reconnects with backoff until `close`. Throws a TypeError for a URL that is none, and nothing later. */
export function followProgram({
  urls,
  programId,
  commitment = 'confirmed',
  onNotice,
  onTransaction,
  onGap,
  onSlot,
  silenceMs = 15_000,
  log,
}: FollowOptions): Follower {
  const subscriptions = new Map<number, number>();
  const ready = () => subscriptions.size === 3;
  let closed = false;

  function receive(message: Readonly<Record<string, unknown>>): void {
    if ('id' in message) {
      if ('error' in message) throw new Error(`refused: ${text(object(message.error, 'error').message, 'error message')}`);
      subscriptions.set(integer(message.id, 'id'), integer(message.result, 'subscription'));
      if (!ready()) return;
      stream.settled();
      guarded(log, onGap);
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
      const { slot, root } = object(result, 'slot notification');
      const [newest, rooted] = [big(slot, 'slot'), big(root, 'root')];
      guarded(log, () => onSlot?.(newest, rooted));
    }
  }

  const stream = openStream({
    urls,
    name: 'the program stream',
    silenceMs,
    onOpen() {
      stream.request(PROGRAM_REQUEST, 'programSubscribe', [programId, { commitment, encoding: 'base64' }]);
      stream.request(SLOT_REQUEST, 'slotSubscribe', []);
      stream.request(LOGS_REQUEST, 'logsSubscribe', [{ mentions: [programId] }, { commitment }]);
    },
    onMessage: receive,
    onBreak: () => subscriptions.clear(),
    log,
  });

  return {
    connected: () => !closed && ready(),
    close() {
      closed = true;
      stream.close();
    },
  };
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
