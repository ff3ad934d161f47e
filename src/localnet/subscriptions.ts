import { type Filter, filtersOf } from './accountMethods.ts';
import { accountAt, blockAt, type Commitment, head, heightOf } from './accounts.ts';
import { type AccountEncoding, accountEncoding, encodeAccount } from './encodeAccount.ts';
import { runLogs } from './encodeTransaction.ts';
import { mentions } from './history.ts';
import { toJson } from './json.ts';
import { base58, bytesOf, type Key } from './keys.ts';
import { API_VERSION, commitmentOf, flag, integer, publicKey, required, settings, signature } from './params.ts';
import { invalidParams } from './rpcError.ts';
import type { Chain, Landed } from './state.ts';
import { landedAt } from './blocks.ts';

// The subscriptions of one WebSocket. Processed ones hear of a change at once, the others when its block has got that far.

/** Sends a notification of a kind; its result is JSON. */
type Notify = (kind: string, subscription: number, result: string) => void;

interface Base {
  readonly id: number;
  readonly commitment: Commitment;
}
type Subscription = Base &
  (
    | { readonly kind: 'account'; readonly key: Key; readonly encoding: AccountEncoding }
    | { readonly kind: 'program'; readonly key: Key; readonly encoding: AccountEncoding; readonly filters: readonly Filter[] }
    | { readonly kind: 'signature'; readonly key: Key; readonly received: boolean }
    | { readonly kind: 'logs'; readonly mentioned: { readonly key: Key; readonly bytes: Buffer } | null }
    | { readonly kind: 'slot' }
    | { readonly kind: 'root' }
  );

/** The subscriptions of a connection. */
export interface Subscriptions {
  /** Runs a subscribe or unsubscribe method; undefined when it is not one. Throws RpcError. */
  call(method: string, params: readonly unknown[]): number | boolean | undefined;
  close(): void;
}

/** Subscriptions that one connection may have. */
const MAX_SUBSCRIPTIONS = 10_000;

// Unique over all connections, as with a validator.
let lastId = 0;

// There are thousands of them in a second, and nothing in them but the value differs.
const inContext = (slot: number, value: string) => `{"context":{"apiVersion":"${API_VERSION}","slot":${slot}},"value":${value}}`;

function mentionedOf(filter: unknown): { key: Key; bytes: Buffer } | null {
  if (filter === 'all' || filter === 'allWithVotes') return null;
  const addresses = settings([filter], 0)['mentions'];
  if (!Array.isArray(addresses)) throw invalidParams('Invalid Request: expected "all", "allWithVotes" or {"mentions": [address]}');
  if (addresses.length !== 1) throw invalidParams('Invalid Request: Only 1 address supported');
  const key = publicKey(addresses[0]);
  return { key, bytes: bytesOf(key) };
}

const KINDS = ['account', 'program', 'signature', 'logs', 'slot', 'root'] as const;

function read(kind: Subscription['kind'], params: readonly unknown[]): Subscription {
  const from = kind === 'slot' || kind === 'root' ? {} : settings(params, 1);
  const base = { id: (lastId += 1), commitment: commitmentOf(from) };
  switch (kind) {
    case 'account':
      return { ...base, kind, key: publicKey(required(params, 0)), encoding: accountEncoding(from) };
    case 'program':
      return { ...base, kind, key: publicKey(required(params, 0)), encoding: accountEncoding(from), filters: filtersOf(from) };
    case 'signature': {
      const received = flag(from['enableReceivedNotification'], 'enableReceivedNotification', false);
      return { ...base, kind, key: signature(required(params, 0)), received };
    }
    case 'logs':
      return { ...base, kind, mentioned: mentionedOf(required(params, 0)) };
    case 'slot':
    case 'root':
      return { ...base, kind };
  }
}

/** Subscriptions of one kind, by what they are to. */
type ByKey = Map<Key, Set<Subscription>>;

/** Opens the subscriptions of a connection; `notify` sends a notification of a kind. */
export function openSubscriptions(chain: Chain, notify: Notify): Subscriptions {
  const all = new Map<number, Subscription>();
  // A connection may follow thousands of accounts: what one transaction has changed is looked up, and nobody else is asked.
  const accounts: ByKey = new Map();
  const signatures: ByKey = new Map();
  const others = new Set<Subscription>();
  // Blocks up to these heights have been told of.
  const told = { confirmed: heightOf(chain, 'confirmed'), finalized: heightOf(chain, 'finalized') };

  // How many want to know of transactions and accounts at each commitment: where there is none, they cost nothing here.
  const interested: Record<Commitment, number> = { processed: 0, confirmed: 0, finalized: 0 };

  const count = ({ kind, commitment }: Subscription, change: 1 | -1) => {
    if (kind !== 'slot' && kind !== 'root') interested[commitment] += change;
  };
  const groupOf = ({ kind }: Subscription) => (kind === 'account' ? accounts : kind === 'signature' ? signatures : undefined);

  function add(subscription: Subscription): void {
    all.set(subscription.id, subscription);
    count(subscription, 1);
    const group = groupOf(subscription);
    if (group === undefined || !('key' in subscription)) {
      others.add(subscription);
      return;
    }
    const same = group.get(subscription.key) ?? new Set();
    group.set(subscription.key, same.add(subscription));
  }

  function remove(id: number): boolean {
    const subscription = all.get(id);
    if (subscription === undefined) return false;
    all.delete(id);
    others.delete(subscription);
    count(subscription, -1);
    const group = groupOf(subscription);
    if (group !== undefined && 'key' in subscription) {
      const same = group.get(subscription.key);
      same?.delete(subscription);
      if (same?.size === 0) group.delete(subscription.key);
    }
    return true;
  }

  function tellAccount(subscription: Subscription, key: Key, height: number, slot: number): void {
    if (subscription.kind !== 'account' && subscription.kind !== 'program') return;
    const state = accountAt(chain, key, height);
    if (subscription.kind === 'account') {
      // A closed account reads as an empty one: a notification always has a value.
      const shown = state ?? { lamports: 0n, owner: '\0'.repeat(32), data: Buffer.alloc(0), executable: false, rentEpoch: 0n };
      notify('account', subscription.id, inContext(slot, toJson(encodeAccount(chain, key, shown, subscription.encoding, height))));
      return;
    }
    if (state?.owner !== subscription.key || !subscription.filters.every((filter) => filter(state))) return;
    const account = toJson(encodeAccount(chain, key, state, subscription.encoding, height));
    notify('program', subscription.id, inContext(slot, `{"account":${account},"pubkey":"${base58(key)}"}`));
  }

  function tellLogs(subscription: Subscription, landed: Landed, slot: number): void {
    if (subscription.kind !== 'logs' || landed.payload === null) return;
    const { mentioned } = subscription;
    if (mentioned !== null && !mentions(landed.payload, mentioned.key, mentioned.bytes)) return;
    const logs = JSON.stringify(runLogs(landed.payload));
    notify('logs', subscription.id, inContext(slot, `{"err":${toJson(landed.err)},"logs":${logs},"signature":"${base58(landed.id)}"}`));
  }

  // A signature is told of once, and also when it had got there before anybody subscribed.
  function tellReached(subscription: Subscription): void {
    if (subscription.kind !== 'signature' || !all.has(subscription.id)) return;
    const height = heightOf(chain, subscription.commitment);
    const landed = landedAt(chain, subscription.key, height);
    if (landed === undefined) return;
    remove(subscription.id);
    notify('signature', subscription.id, inContext(blockAt(chain, height)?.slot ?? landed.slot, toJson({ err: landed.err })));
  }

  /** Tells of changed accounts who has asked for them, or for their program, with this commitment. */
  function tellAccounts(keys: Iterable<Key>, commitment: Commitment, height: number, slot: number): void {
    const programs = [...others].filter((subscription) => subscription.kind === 'program' && subscription.commitment === commitment);
    for (const key of keys) {
      for (const subscription of accounts.get(key) ?? []) {
        if (subscription.commitment === commitment) tellAccount(subscription, key, height, slot);
      }
      for (const subscription of programs) tellAccount(subscription, key, height, slot);
    }
  }

  function tellTransactions(transactions: readonly Landed[], commitment: Commitment, slot: number): void {
    for (const subscription of others) {
      if (subscription.commitment === commitment) for (const landed of transactions) tellLogs(subscription, landed, slot);
    }
  }

  const onChanged = (keys: readonly Key[], landed: Landed | null) => {
    if (interested.processed === 0) return;
    const { height, slot } = head(chain);
    if (landed !== null) {
      tellTransactions([landed], 'processed', slot);
      for (const subscription of signatures.get(landed.id) ?? []) if (subscription.commitment === 'processed') tellReached(subscription);
    }
    tellAccounts(keys, 'processed', height, slot);
  };

  const onBlock = () => {
    const { slot, parentSlot } = head(chain);
    const root = blockAt(chain, heightOf(chain, 'finalized'))?.slot ?? 0;
    for (const { kind, id } of others) {
      if (kind === 'slot') notify('slot', id, `{"parent":${parentSlot},"root":${root},"slot":${slot}}`);
      if (kind === 'root' && heightOf(chain, 'finalized') > told.finalized) notify('root', id, String(root));
    }
    for (const commitment of ['confirmed', 'finalized'] as const) {
      const reached = heightOf(chain, commitment);
      if (interested[commitment] === 0) {
        told[commitment] = reached;
        continue;
      }
      for (const same of signatures.values()) {
        for (const subscription of same) if (subscription.commitment === commitment) tellReached(subscription);
      }
      for (let height = told[commitment] + 1; height <= reached; height += 1) {
        const block = blockAt(chain, height);
        if (block === undefined) continue;
        tellTransactions(block.transactions, commitment, block.slot);
        tellAccounts(block.undo.keys(), commitment, height, block.slot);
      }
      told[commitment] = reached;
    }
  };

  const onForked = (height: number) => {
    told.confirmed = Math.min(told.confirmed, height);
  };

  const onReceived = (id: Key) => {
    for (const subscription of signatures.get(id) ?? []) {
      if (subscription.kind !== 'signature' || !subscription.received) continue;
      notify('signature', subscription.id, inContext(head(chain).slot, '"receivedSignature"'));
    }
  };

  chain.events.on('changed', onChanged).on('block', onBlock).on('forked', onForked).on('received', onReceived);

  function subscribe(kind: Subscription['kind'], params: readonly unknown[]): number {
    if (all.size >= MAX_SUBSCRIPTIONS) throw invalidParams(`Too many subscriptions on this connection; max ${MAX_SUBSCRIPTIONS}`);
    const subscription = read(kind, params);
    add(subscription);
    if (kind === 'signature') queueMicrotask(() => tellReached(subscription));
    return subscription.id;
  }

  return {
    call(method, params) {
      const kind = KINDS.find((one) => method === `${one}Subscribe` || method === `${one}Unsubscribe`);
      if (kind === undefined) return undefined;
      if (method.endsWith('Unsubscribe')) {
        if (!remove(integer(required(params, 0), 'subscription', 0))) throw invalidParams('Invalid subscription id.');
        return true;
      }
      return subscribe(kind, params);
    },
    close() {
      chain.events.off('changed', onChanged).off('block', onBlock).off('forked', onForked).off('received', onReceived);
    },
  };
}
