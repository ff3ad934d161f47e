// The subscriptions of one WebSocket connection. If a subscription's commitment is processed, the
// client is notified of each change at once. Otherwise the client is notified when the block with
// the change reaches the subscription's commitment.
import { accountAt, blockAt, type Commitment, head, heightOf } from '../accounts.ts';
import { landedAt } from '../blocks.ts';
import { base58, type Key } from '../keys.ts';
import type { Chain, Landed } from '../state.ts';
import type { AccountState } from '../vm.ts';
import { encodeAccount } from './encode-account.ts';
import { runLogs } from './encode-transaction.ts';
import { mentions } from './history-methods.ts';
import { toJson } from './json.ts';
import { API_VERSION, integer, required } from './params.ts';
import { invalidParams } from './rpc-error.ts';
import {
  type AccountSubscription,
  type ChainSubscription,
  KINDS,
  type LogsSubscription,
  type ProgramSubscription,
  readSubscription,
  type SignatureSubscription,
  type Subscription,
} from './subscription-requests.ts';

/**
 * Sends a notification to the client. `subscription` is the subscription's id. `result` is JSON
 * text.
 */
type Notify = (kind: string, subscription: number, result: string) => void;

/** Maximum number of subscriptions of one connection. */
const MAX_SUBSCRIPTIONS = 10_000;

// The value that reports a closed account. The value in a notification cannot be null, so the chain
// reports a closed account as an empty account.
const CLOSED: AccountState = {
  lamports: 0n,
  owner: '\0'.repeat(32),
  data: Buffer.alloc(0),
  executable: false,
  rentEpoch: 0n,
};

/**
 * Returns the JSON of a value and the slot at which it was read. `value` is JSON text. The function
 * concatenates text for speed, because the chain sends thousands of notifications a second.
 */
const inContext = (slot: number, value: string) =>
  `{"context":{"apiVersion":"${API_VERSION}","slot":${slot}},"value":${value}}`;

const isOfChain = (subscription: Subscription): subscription is ChainSubscription =>
  subscription.kind === 'slot' || subscription.kind === 'root';

function addTo<T>(groups: Map<Key, Set<T>>, key: Key, member: T): void {
  groups.set(key, (groups.get(key) ?? new Set()).add(member));
}

function removeFrom<T>(groups: Map<Key, Set<T>>, key: Key, member: T): void {
  const group = groups.get(key);
  group?.delete(member);
  if (group?.size === 0) groups.delete(key);
}

export class Subscriptions {
  readonly #chain: Chain;
  readonly #notify: Notify;
  readonly #all = new Map<number, Subscription>();
  // Account subscriptions by the account's key. A connection may follow thousands of accounts, so a
  // search through all subscriptions would be slow.
  readonly #accounts = new Map<Key, Set<AccountSubscription>>();
  readonly #signatures = new Map<Key, Set<SignatureSubscription>>();
  readonly #programs = new Set<ProgramSubscription>();
  readonly #logs = new Set<LogsSubscription>();
  readonly #slots = new Set<ChainSubscription>();
  /**
   * Number of account, program, signature and logs subscriptions of each commitment. When the
   * number of a commitment is 0, a new block causes no work for that commitment.
   */
  readonly #following: Record<Commitment, number> = {
    processed: 0,
    confirmed: 0,
    finalized: 0,
  };
  /**
   * Heights of the last confirmed and the last finalized block whose changes were sent to the
   * client.
   */
  readonly #notified: { confirmed: number; finalized: number };

  constructor(chain: Chain, notify: Notify) {
    this.#chain = chain;
    this.#notify = notify;
    this.#notified = {
      confirmed: heightOf(chain, 'confirmed'),
      finalized: heightOf(chain, 'finalized'),
    };
    chain.events
      .on('changed', this.#onChanged)
      .on('block', this.#onBlock)
      .on('forked', this.#onForked)
      .on('received', this.#onReceived);
  }

  close(): void {
    this.#chain.events
      .off('changed', this.#onChanged)
      .off('block', this.#onBlock)
      .off('forked', this.#onForked)
      .off('received', this.#onReceived);
  }

  /**
   * Runs a subscribe or unsubscribe method. Returns undefined when `method` is another method.
   * Throws RpcError.
   */
  call(method: string, params: readonly unknown[]): number | boolean | undefined {
    const kind = KINDS.find(
      (one) => method === `${one}Subscribe` || method === `${one}Unsubscribe`,
    );
    if (kind === undefined) return undefined;
    if (method.endsWith('Subscribe')) return this.#subscribe(kind, params);
    if (!this.#remove(integer(required(params, 0), 'subscription', 0)))
      throw invalidParams('Invalid subscription id.');
    return true;
  }

  #subscribe(kind: Subscription['kind'], params: readonly unknown[]): number {
    if (this.#all.size >= MAX_SUBSCRIPTIONS)
      throw invalidParams(`Too many subscriptions on this connection; max ${MAX_SUBSCRIPTIONS}`);
    const subscription = readSubscription(kind, params);
    this.#all.set(subscription.id, subscription);
    if (isOfChain(subscription)) this.#slots.add(subscription);
    else this.#following[subscription.commitment] += 1;
    if (subscription.kind === 'account') addTo(this.#accounts, subscription.key, subscription);
    if (subscription.kind === 'program') this.#programs.add(subscription);
    if (subscription.kind === 'logs') this.#logs.add(subscription);
    if (subscription.kind === 'signature') {
      addTo(this.#signatures, subscription.key, subscription);
      queueMicrotask(() => this.#notifyReached(subscription));
    }
    return subscription.id;
  }

  #remove(id: number): boolean {
    const subscription = this.#all.get(id);
    if (subscription === undefined) return false;
    this.#all.delete(id);
    if (isOfChain(subscription)) this.#slots.delete(subscription);
    else this.#following[subscription.commitment] -= 1;
    if (subscription.kind === 'account') removeFrom(this.#accounts, subscription.key, subscription);
    if (subscription.kind === 'program') this.#programs.delete(subscription);
    if (subscription.kind === 'logs') this.#logs.delete(subscription);
    if (subscription.kind === 'signature')
      removeFrom(this.#signatures, subscription.key, subscription);
    return true;
  }

  #notifyAccount(to: AccountSubscription, key: Key, height: number, slot: number): void {
    const state = accountAt(this.#chain, key, height) ?? CLOSED;
    const account = toJson(encodeAccount(this.#chain, key, state, to.encoding, height));
    this.#notify('account', to.id, inContext(slot, account));
  }

  #notifyProgram(to: ProgramSubscription, key: Key, height: number, slot: number): void {
    const state = accountAt(this.#chain, key, height);
    if (state?.owner !== to.key || !to.filters.every((filter) => filter(state))) return;
    const account = toJson(encodeAccount(this.#chain, key, state, to.encoding, height));
    const value = `{"account":${account},"pubkey":"${base58(key)}"}`;
    this.#notify('program', to.id, inContext(slot, value));
  }

  #notifyLogs({ id, mentioned }: LogsSubscription, landed: Landed, slot: number): void {
    if (landed.payload === null) return;
    if (mentioned !== null && !mentions(landed.payload, mentioned.key, mentioned.bytes)) return;
    const logs = JSON.stringify(runLogs(landed.payload));
    const value = `{"err":${toJson(landed.err)},"logs":${logs},"signature":"${base58(landed.id)}"}`;
    this.#notify('logs', id, inContext(slot, value));
  }

  /**
   * If the transaction with the subscribed signature has reached the subscription's commitment,
   * notifies the client and ends the subscription.
   */
  #notifyReached(subscription: SignatureSubscription): void {
    if (!this.#all.has(subscription.id)) return;
    const height = heightOf(this.#chain, subscription.commitment);
    const landed = landedAt(this.#chain, subscription.key, height);
    if (landed === undefined) return;
    this.#remove(subscription.id);
    const slot = blockAt(this.#chain, height)?.slot ?? landed.slot;
    this.#notify('signature', subscription.id, inContext(slot, toJson({ err: landed.err })));
  }

  #notifyAccounts(keys: Iterable<Key>, commitment: Commitment, height: number, slot: number): void {
    const programs = [...this.#programs].filter((one) => one.commitment === commitment);
    for (const key of keys) {
      for (const one of this.#accounts.get(key) ?? [])
        if (one.commitment === commitment) this.#notifyAccount(one, key, height, slot);
      for (const one of programs) this.#notifyProgram(one, key, height, slot);
    }
  }

  #notifyTransactions(transactions: readonly Landed[], commitment: Commitment, slot: number): void {
    for (const one of this.#logs) {
      if (one.commitment !== commitment) continue;
      for (const landed of transactions) this.#notifyLogs(one, landed, slot);
    }
  }

  readonly #onChanged = (keys: readonly Key[], landed: Landed | null) => {
    if (this.#following.processed === 0) return;
    const { height, slot } = head(this.#chain);
    if (landed !== null) {
      this.#notifyTransactions([landed], 'processed', slot);
      for (const one of this.#signatures.get(landed.id) ?? [])
        if (one.commitment === 'processed') this.#notifyReached(one);
    }
    this.#notifyAccounts(keys, 'processed', height, slot);
  };

  readonly #onBlock = () => {
    this.#notifySlots();
    for (const commitment of ['confirmed', 'finalized'] as const) {
      const reached = heightOf(this.#chain, commitment);
      if (this.#following[commitment] > 0) this.#notifyBlocks(commitment, reached);
      this.#notified[commitment] = reached;
    }
  };

  #notifySlots(): void {
    const { slot, parentSlot } = head(this.#chain);
    const finalized = heightOf(this.#chain, 'finalized');
    const root = blockAt(this.#chain, finalized)?.slot ?? 0;
    for (const { kind, id } of this.#slots) {
      if (kind === 'slot')
        this.#notify('slot', id, `{"parent":${parentSlot},"root":${root},"slot":${slot}}`);
      if (kind === 'root' && finalized > this.#notified.finalized)
        this.#notify('root', id, String(root));
    }
  }

  #notifyBlocks(commitment: 'confirmed' | 'finalized', reached: number): void {
    for (const same of this.#signatures.values())
      for (const one of same) if (one.commitment === commitment) this.#notifyReached(one);
    for (let height = this.#notified[commitment] + 1; height <= reached; height += 1) {
      const block = blockAt(this.#chain, height);
      if (block === undefined) continue;
      this.#notifyTransactions(block.transactions, commitment, block.slot);
      this.#notifyAccounts(block.undo.keys(), commitment, height, block.slot);
    }
  }

  readonly #onForked = (height: number) => {
    this.#notified.confirmed = Math.min(this.#notified.confirmed, height);
  };

  readonly #onReceived = (id: Key) => {
    for (const one of this.#signatures.get(id) ?? []) {
      if (!one.received) continue;
      this.#notify('signature', one.id, inContext(head(this.#chain).slot, '"receivedSignature"'));
    }
  };
}
