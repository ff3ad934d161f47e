import { type Filter, filtersOf } from './accountMethods.ts';
import { accountAt, blockAt, type Commitment, head, heightOf } from './accounts.ts';
import { type AccountEncoding, accountEncoding, encodeAccount } from './encodeAccount.ts';
import { runDetails } from './encodeTransaction.ts';
import { mentionsAccount } from './history.ts';
import { base58, type Key } from './keys.ts';
import { API_VERSION, commitmentOf, flag, integer, publicKey, required, settings, signature } from './params.ts';
import { invalidParams } from './rpcError.ts';
import type { Block, Chain, Landed } from './state.ts';
import { landedAt } from './blocks.ts';

// The subscriptions of one WebSocket. Processed ones hear of a change at once, the others when its block has got that far.

type Notify = (kind: string, subscription: number, result: unknown) => void;

interface Base {
  readonly id: number;
  readonly commitment: Commitment;
}
type Subscription = Base &
  (
    | { readonly kind: 'account'; readonly key: Key; readonly encoding: AccountEncoding }
    | { readonly kind: 'program'; readonly key: Key; readonly encoding: AccountEncoding; readonly filters: readonly Filter[] }
    | { readonly kind: 'signature'; readonly key: Key; readonly received: boolean }
    | { readonly kind: 'logs'; readonly mentions: Key | null }
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

const contextOf = (slot: number) => ({ apiVersion: API_VERSION, slot });

function mentionsOf(filter: unknown): Key | null {
  if (filter === 'all' || filter === 'allWithVotes') return null;
  const mentions = settings([filter], 0)['mentions'];
  if (!Array.isArray(mentions)) throw invalidParams('Invalid Request: expected "all", "allWithVotes" or {"mentions": [address]}');
  if (mentions.length !== 1) throw invalidParams('Invalid Request: Only 1 address supported');
  return publicKey(mentions[0]);
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
      return { ...base, kind, mentions: mentionsOf(required(params, 0)) };
    case 'slot':
    case 'root':
      return { ...base, kind };
  }
}

/** Opens the subscriptions of a connection; `notify` sends a notification of a kind. */
export function openSubscriptions(chain: Chain, notify: Notify): Subscriptions {
  const all = new Map<number, Subscription>();
  // Blocks up to these heights have been told of.
  const told = { confirmed: heightOf(chain, 'confirmed'), finalized: heightOf(chain, 'finalized') };

  // How many want to know at once: with none, a transaction costs nothing here.
  let processed = 0;

  function remove(id: number): boolean {
    if (all.get(id)?.commitment === 'processed') processed -= 1;
    return all.delete(id);
  }

  function tellAccount(subscription: Subscription, key: Key, height: number, slot: number): void {
    if (subscription.kind !== 'account' && subscription.kind !== 'program') return;
    const state = accountAt(chain, key, height);
    if (subscription.kind === 'account') {
      if (subscription.key !== key) return;
      // A closed account reads as an empty one: a notification always has a value.
      const shown = state ?? { lamports: 0n, owner: '\0'.repeat(32), data: Buffer.alloc(0), executable: false, rentEpoch: 0n };
      const value = encodeAccount(chain, key, shown, subscription.encoding, height);
      notify('account', subscription.id, { context: contextOf(slot), value });
      return;
    }
    if (state?.owner !== subscription.key || !subscription.filters.every((filter) => filter(state))) return;
    const account = encodeAccount(chain, key, state, subscription.encoding, height);
    notify('program', subscription.id, { context: contextOf(slot), value: { account, pubkey: base58(key) } });
  }

  function tellLogs(subscription: Subscription, landed: Landed, slot: number): void {
    if (subscription.kind !== 'logs' || landed.payload === null) return;
    if (subscription.mentions !== null && !mentionsAccount(landed, subscription.mentions)) return;
    const value = { err: landed.err, logs: runDetails(landed.payload).logs, signature: base58(landed.id) };
    notify('logs', subscription.id, { context: contextOf(slot), value });
  }

  // A signature is told of once, and also when it had got there before anybody subscribed.
  function tellReached(subscription: Subscription): void {
    if (subscription.kind !== 'signature' || !all.has(subscription.id)) return;
    const height = heightOf(chain, subscription.commitment);
    const landed = landedAt(chain, subscription.key, height);
    if (landed === undefined) return;
    remove(subscription.id);
    notify('signature', subscription.id, { context: contextOf(blockAt(chain, height)?.slot ?? landed.slot), value: { err: landed.err } });
  }

  const having = (commitment: Commitment) => [...all.values()].filter((subscription) => subscription.commitment === commitment);

  function tellBlock(block: Block, subscription: Subscription): void {
    if (subscription.kind === 'logs') for (const landed of block.transactions) tellLogs(subscription, landed, block.slot);
    if (subscription.kind === 'account' && block.undo.has(subscription.key))
      tellAccount(subscription, subscription.key, block.height, block.slot);
    if (subscription.kind === 'program') for (const key of block.undo.keys()) tellAccount(subscription, key, block.height, block.slot);
  }

  const onChanged = (keys: readonly Key[], landed: Landed | null) => {
    if (processed === 0) return;
    const { height, slot } = head(chain);
    for (const subscription of having('processed')) {
      if (landed !== null && subscription.kind === 'logs') tellLogs(subscription, landed, slot);
      if (landed !== null && subscription.kind === 'signature') tellReached(subscription);
      for (const key of keys) tellAccount(subscription, key, height, slot);
    }
  };

  const onBlock = () => {
    const { slot, parentSlot } = head(chain);
    const root = blockAt(chain, heightOf(chain, 'finalized'))?.slot ?? 0;
    for (const { kind, id } of all.values()) {
      if (kind === 'slot') notify('slot', id, { parent: parentSlot, root, slot });
      if (kind === 'root' && heightOf(chain, 'finalized') > told.finalized) notify('root', id, root);
    }
    for (const commitment of ['confirmed', 'finalized'] as const) {
      const reached = heightOf(chain, commitment);
      for (const subscription of having(commitment)) {
        tellReached(subscription);
        for (let height = told[commitment] + 1; height <= reached; height += 1) {
          const block = blockAt(chain, height);
          if (block !== undefined) tellBlock(block, subscription);
        }
      }
      told[commitment] = reached;
    }
  };

  const onForked = (height: number) => {
    told.confirmed = Math.min(told.confirmed, height);
  };

  const onReceived = (id: Key) => {
    for (const subscription of all.values()) {
      if (subscription.kind !== 'signature' || !subscription.received || subscription.key !== id) continue;
      notify('signature', subscription.id, { context: contextOf(head(chain).slot), value: 'receivedSignature' });
    }
  };

  chain.events.on('changed', onChanged).on('block', onBlock).on('forked', onForked).on('received', onReceived);

  function subscribe(kind: Subscription['kind'], params: readonly unknown[]): number {
    if (all.size >= MAX_SUBSCRIPTIONS) throw invalidParams(`Too many subscriptions on this connection; max ${MAX_SUBSCRIPTIONS}`);
    const subscription = read(kind, params);
    all.set(subscription.id, subscription);
    if (subscription.commitment === 'processed') processed += 1;
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
