// Follows single accounts over WebSockets. Nodes and providers limit the number of followed
// accounts. A node that refuses a further account still reports changes of the accounts followed so
// far. Changes that happen while a connection is down are missed.
import type { Log } from '../../log.ts';
import type { ChainAccount } from '../program/accounts.ts';
import { account, big, type Commitment, integer, object, text } from '../rpc/responses.ts';
import { guarded, openStream, type Stream } from './connection.ts';

/**
 * The state of an account after a transaction at `slot`. A closed account belongs to the System
 * program and has no data.
 */
export interface AccountNotification extends ChainAccount {
  readonly address: string;
  readonly slot: bigint;
}

export interface FollowAccountsOptions {
  /** WebSocket URLs in order of preference. */
  readonly urls: readonly string[];
  /**
   * Maximum number of followed accounts in total. `perConnection` is the maximum per connection.
   */
  readonly maxAccounts: number;
  readonly perConnection?: number;
  readonly commitment?: Commitment;
  readonly onNotification: (notification: AccountNotification) => void;
  /**
   * Called when all accounts are followed again after a connection was lost. Changes during the
   * interruption were missed.
   */
  readonly onGap: () => void;
  /**
   * Called when the node refuses to follow an account. For `refusedMs` (ms) after the refusal no
   * further accounts are added.
   */
  readonly onRefused?: () => void;
  readonly silenceMs?: number;
  /** Milliseconds after a refusal in which no further accounts are added. */
  readonly refusedMs?: number;
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>;
}

export interface AccountFollower {
  /** Adds an account if there is room. Returns whether the account is followed. */
  add(address: string): boolean;
  drop(address: string): void;
  /** Number of accounts that are followed now. */
  followed(): number;
  close(): void;
}

/**
 * Maximum number of unanswered requests per connection. The number is limited because providers
 * rate limit requests.
 */
const AT_ONCE = 50;

/**
 * Creates a follower without accounts. The first call of `add` opens a connection and throws a
 * TypeError for a bad URL.
 */
export function followAccounts(options: FollowAccountsOptions): AccountFollower {
  return new Accounts(options);
}

class Accounts implements AccountFollower {
  readonly #options: FollowAccountsOptions;
  readonly #connections: AccountsConnection[] = [];
  readonly #connectionOf = new Map<string, AccountsConnection>();
  #refusedUntil = -Infinity;
  #isClosed = false;

  constructor(options: FollowAccountsOptions) {
    this.#options = options;
  }

  add(address: string): boolean {
    const { maxAccounts, perConnection = 1000 } = this.#options;
    if (this.#connectionOf.has(address)) return true;
    if (this.#isClosed || this.#connectionOf.size >= maxAccounts) return false;
    if (performance.now() < this.#refusedUntil) return false;
    let connection = this.#connections.find(({ size }) => size < perConnection);
    if (connection === undefined) {
      connection = new AccountsConnection(this.#options, (reason, addresses) =>
        this.#refused(reason, addresses),
      );
      this.#connections.push(connection);
    }
    this.#connectionOf.set(address, connection);
    connection.add(address);
    return true;
  }

  drop(address: string): void {
    this.#connectionOf.get(address)?.drop(address);
    this.#connectionOf.delete(address);
  }

  followed(): number {
    return this.#connections.reduce((sum, connection) => sum + connection.followed, 0);
  }

  close(): void {
    this.#isClosed = true;
    for (const connection of this.#connections) connection.close();
  }

  #refused(reason: string, addresses: readonly string[]): void {
    const { refusedMs = 300_000, onRefused, log } = this.#options;
    for (const address of addresses) this.#connectionOf.delete(address);
    if (performance.now() < this.#refusedUntil) return;
    this.#refusedUntil = performance.now() + refusedMs;
    log.warn({ reason, followed: this.#connectionOf.size }, 'account subscription refused');
    guarded(log, () => onRefused?.());
  }
}

type Json = Readonly<Record<string, unknown>>;

/** The accounts of one WebSocket connection. Each account is waiting, requested or followed. */
class AccountsConnection {
  readonly #options: FollowAccountsOptions;
  readonly #onRefused: (reason: string, addresses: readonly string[]) => void;
  readonly #stream: Stream;
  readonly #addresses = new Set<string>();
  readonly #waiting = new Set<string>();
  /**
   * `#asked` maps the id of an unanswered request to the address that the request is about.
   * `#followed` maps the node's subscription number to the followed address.
   */
  readonly #asked = new Map<number, string>();
  readonly #followed = new Map<number, string>();
  #isOpen = false;
  #wasInterrupted = false;
  #isSettled = false;
  #lastId = 0;

  constructor(
    options: FollowAccountsOptions,
    onRefused: (reason: string, addresses: readonly string[]) => void,
  ) {
    const { urls, silenceMs = 15_000, log } = options;
    this.#options = options;
    this.#onRefused = onRefused;
    this.#stream = openStream({
      urls,
      name: 'accounts',
      silenceMs,
      // An account may not change for months. When no request waits for a response, a pong is
      // enough to show that the connection works.
      pongsSuffice: () => this.#asked.size === 0,
      onOpen: () => {
        this.#isOpen = true;
        this.#ask();
      },
      onMessage: (message) => {
        if ('id' in message) this.#receiveResponse(message);
        else if (message.method === 'accountNotification') this.#notified(message);
      },
      onBreak: () => this.#broke(),
      log,
    });
  }

  /** Number of accounts assigned to this connection. */
  get size(): number {
    return this.#addresses.size;
  }

  /** Number of accounts that are followed now. */
  get followed(): number {
    return this.#followed.size;
  }

  add(address: string): void {
    this.#addresses.add(address);
    this.#waiting.add(address);
    this.#ask();
  }

  drop(address: string): void {
    this.#addresses.delete(address);
    this.#waiting.delete(address);
    for (const [subscription, one] of this.#followed) {
      if (one !== address) continue;
      this.#followed.delete(subscription);
      this.#unsubscribe(subscription);
    }
  }

  close(): void {
    this.#stream.close();
  }

  #ask(): void {
    const { commitment = 'confirmed' } = this.#options;
    for (const address of this.#waiting) {
      if (!this.#isOpen || this.#asked.size >= AT_ONCE) return;
      this.#waiting.delete(address);
      this.#asked.set((this.#lastId += 1), address);
      const params = [address, { commitment, encoding: 'base64' }];
      this.#stream.request(this.#lastId, 'accountSubscribe', params);
    }
  }

  #unsubscribe(subscription: number): void {
    this.#stream.request((this.#lastId += 1), 'accountUnsubscribe', [subscription]);
  }

  #receiveResponse(message: Json): void {
    const id = integer(message.id, 'id');
    const address = this.#asked.get(id);
    this.#asked.delete(id);
    // `#asked` has only subscribe requests. If `#asked` has no address for the response's id, the
    // response belongs to an unsubscribe request and is ignored.
    if (address === undefined) return;
    if ('error' in message) this.#refused(message.error, address);
    else this.#subscribed(address, integer(message.result, 'subscription'));
    if (!this.#wasInterrupted || this.#waiting.size > 0 || this.#asked.size > 0) return;
    this.#wasInterrupted = false;
    guarded(this.#options.log, this.#options.onGap);
  }

  #refused(error: unknown, address: string): void {
    const reason = text(object(error, 'error').message, 'error message');
    const refused = [...this.#waiting, address];
    for (const one of refused) this.#addresses.delete(one);
    this.#waiting.clear();
    this.#onRefused(reason, refused);
  }

  #subscribed(address: string, subscription: number): void {
    if (!this.#isSettled) this.#stream.settled();
    this.#isSettled = true;
    if (this.#addresses.has(address)) this.#followed.set(subscription, address);
    else this.#unsubscribe(subscription);
    this.#ask();
  }

  #notified(message: Json): void {
    const { result, subscription } = object(message.params, 'params');
    const address = this.#followed.get(integer(subscription, 'subscription'));
    if (address === undefined) return;
    const { context, value } = object(result, 'notification');
    const slot = big(object(context, 'context').slot, 'slot');
    const notification = { address, slot, ...account(value) };
    guarded(this.#options.log, () => this.#options.onNotification(notification));
  }

  #broke(): void {
    this.#isOpen = false;
    this.#isSettled = false;
    this.#wasInterrupted ||= this.#followed.size > 0;
    this.#followed.clear();
    this.#asked.clear();
    for (const address of this.#addresses) this.#waiting.add(address);
  }
}
