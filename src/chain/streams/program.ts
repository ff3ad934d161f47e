// Follows a program over a WebSocket: changes of its accounts, and transactions that name the
// program. A closed account no longer belongs to the program, so only the transaction shows that
// the account was closed. Notifications may be lost. The keeper's sweep, which regularly reads all
// subscriptions, finds lost changes later.
import type { Log } from '../../log.ts';
import type { ChainAccount } from '../program/accounts.ts';
import { account, array, big, type Commitment, integer, object, text } from '../rpc/responses.ts';
import { guarded, openStream, type Stream } from './connection.ts';

/** The state of an account of the program after a transaction at `slot`. */
export interface ProgramNotification extends ChainAccount {
  readonly address: string;
  readonly slot: bigint;
}

/** A successful transaction that names the program. */
export interface TransactionNotification {
  readonly signature: string;
  readonly slot: bigint;
  readonly logs: readonly string[];
}

/** A filter on account data: the data has these bytes (Base58) at this offset. */
export interface AccountFilter {
  readonly offset: number;
  readonly bytes: string;
}

export interface FollowOptions {
  /** WebSocket URLs in order of preference. After a failure the next URL is tried. */
  readonly urls: readonly string[];
  readonly programId: string;
  /**
   * Lists of filters. Each list makes one program subscription, and an account must match all
   * filters of the list.
   */
  readonly filters?: readonly (readonly AccountFilter[])[];
  readonly commitment?: Commitment;
  readonly onNotification: (notification: ProgramNotification) => void;
  readonly onTransaction: (notification: TransactionNotification) => void;
  /**
   * Called when the subscriptions are active and earlier changes were missed: after the start,
   * after a reconnect and after a refusal.
   */
  readonly onGap: () => void;
  /**
   * Called with each new slot and the newest root. A root is a slot that is finalized or about to
   * be finalized. Slot notifications also show that the node works.
   */
  readonly onSlot?: (slot: bigint, root: bigint) => void;
  /** Called when the node refuses a subscription. The subscription is retried after `refusedMs`. */
  readonly onRefused?: (method: string) => void;
  /** Milliseconds without any message after which the stream reconnects. */
  readonly silenceMs?: number;
  readonly refusedMs?: number;
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>;
}

export interface Follower {
  /** Whether every subscription of the stream is active. */
  readonly connected: () => boolean;
  readonly close: () => void;
}

/**
 * Derives the WebSocket URL from an RPC URL, as Solana's own clients do: ws for http, wss for
 * https, and the next higher port if the URL has a port.
 */
export function websocketUrl(rpcUrl: string): string {
  const url = new URL(rpcUrl);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  if (url.port !== '') url.port = String(Number(url.port) + 1);
  return url.href;
}

interface Request {
  readonly method: 'programSubscribe' | 'slotSubscribe' | 'logsSubscribe';
  readonly params: readonly unknown[];
}

const SLOTS: Request = { method: 'slotSubscribe', params: [] };

/**
 * Returns the subscription requests of a connection: one for slots, one for logs, then one program
 * subscription for each list of filters.
 */
function requestsFor({
  programId,
  commitment = 'confirmed',
  filters = [[]],
}: FollowOptions): readonly Request[] {
  const accounts = filters.map((all): Request => ({
    method: 'programSubscribe',
    params: [
      programId,
      {
        commitment,
        encoding: 'base64',
        ...(all.length > 0 && { filters: all.map((memcmp) => ({ memcmp })) }),
      },
    ],
  }));
  const logs: Request = {
    method: 'logsSubscribe',
    params: [{ mentions: [programId] }, { commitment }],
  };
  return [SLOTS, logs, ...accounts];
}

/**
 * Follows a program: connects, and reconnects with backoff until `close` is called. Throws a
 * TypeError for a bad URL.
 */
export function followProgram(options: FollowOptions): Follower {
  return new ProgramFollower(options);
}

class ProgramFollower implements Follower {
  readonly #options: FollowOptions;
  readonly #requests: readonly Request[];
  readonly #stream: Stream;
  /**
   * The node's subscription number by the index of the request; null when the node refused the
   * request.
   */
  readonly #subscriptions = new Map<number, number | null>();
  readonly #retries = new Set<NodeJS.Timeout>();
  #isClosed = false;

  constructor(options: FollowOptions) {
    const { urls, silenceMs = 15_000, log } = options;
    this.#options = options;
    this.#requests = requestsFor(options);
    this.#stream = openStream({
      urls,
      name: 'program',
      silenceMs,
      // The program may be idle for long. When the node refused the slot subscription, a pong is
      // enough to show that the connection works.
      pongsSuffice: () => this.#subscriptions.get(0) === null,
      onOpen: () => {
        for (const index of this.#requests.keys()) this.#ask(index);
      },
      onMessage: (message) => this.#receive(message),
      onBreak: () => this.#forget(),
      log,
    });
  }

  readonly connected = () =>
    !this.#isClosed &&
    this.#subscriptions.size === this.#requests.length &&
    [...this.#subscriptions.values()].every((subscription) => subscription !== null);

  readonly close = () => {
    this.#isClosed = true;
    this.#forget();
    this.#stream.close();
  };

  #ask(index: number): void {
    const { method, params } = this.#requests[index] ?? SLOTS;
    this.#stream.request(index, method, params);
  }

  #receive(message: Json): void {
    if ('id' in message) {
      this.#receiveResponse(message);
      return;
    }
    const { result, subscription } = object(message.params, 'params');
    const [index] = [...this.#subscriptions].find(([, number]) => number === subscription) ?? [];
    const { method } = (index === undefined ? undefined : this.#requests[index]) ?? {};
    if (method?.replace('Subscribe', 'Notification') === message.method)
      report(this.#options, method, result);
  }

  #receiveResponse(message: Json): void {
    const index = integer(message.id, 'id');
    const wasComplete = this.#subscriptions.size === this.#requests.length;
    if ('error' in message) this.#refused(index, message.error);
    else this.#subscriptions.set(index, integer(message.result, 'subscription'));
    if (('error' in message && wasComplete) || this.#subscriptions.size < this.#requests.length)
      return;
    this.#stream.settled();
    guarded(this.#options.log, this.#options.onGap);
  }

  #refused(index: number, error: unknown): void {
    const { onRefused, refusedMs = 300_000, log } = this.#options;
    const reason = text(object(error, 'error').message, 'error message');
    const { method } = this.#requests[index] ?? SLOTS;
    log.warn({ method, reason }, 'subscription refused');
    this.#subscriptions.set(index, null);
    const retry = setTimeout(() => {
      this.#retries.delete(retry);
      this.#ask(index);
    }, refusedMs);
    this.#retries.add(retry);
    guarded(log, () => onRefused?.(method));
  }

  #forget(): void {
    this.#subscriptions.clear();
    for (const retry of this.#retries) clearTimeout(retry);
    this.#retries.clear();
  }
}

type Json = Readonly<Record<string, unknown>>;

/**
 * Parses the notification of a subscription and passes it to the listener. Throws an
 * EndpointFailure for an unreadable notification.
 */
function report(
  { onNotification, onTransaction, onSlot, log }: FollowOptions,
  method: Request['method'] | undefined,
  result: unknown,
): void {
  if (method === 'programSubscribe') {
    const notification = programNotification(result);
    guarded(log, () => onNotification(notification));
  } else if (method === 'logsSubscribe') {
    const notification = transactionNotification(result);
    if (notification !== null) guarded(log, () => onTransaction(notification));
  } else {
    const { slot, root } = object(result, 'slot notification');
    const [newest, rooted] = [big(slot, 'slot'), big(root, 'root')];
    guarded(log, () => onSlot?.(newest, rooted));
  }
}

function programNotification(result: unknown): ProgramNotification {
  const { context, value } = object(result, 'notification');
  const { pubkey, account: found } = object(value, 'notification value');
  return {
    address: text(pubkey, 'pubkey'),
    slot: big(object(context, 'context').slot, 'slot'),
    ...account(found),
  };
}

/** Parses a logs notification. Returns null for a failed transaction, which changed nothing. */
function transactionNotification(result: unknown): TransactionNotification | null {
  const { context, value } = object(result, 'notification');
  const { signature, err, logs } = object(value, 'notification value');
  if (err !== null && err !== undefined) return null;
  return {
    signature: text(signature, 'signature'),
    slot: big(object(context, 'context').slot, 'slot'),
    logs: array(logs, 'logs').map((line) => text(line, 'log')),
  };
}
