import type { Log } from '../log.ts';
import type { ChainAccount } from './accounts.ts';
import { account, big, type Commitment, integer, object, text } from './answers.ts';
import { guarded, openStream, type Stream } from './stream.ts';

// Follows single accounts over WebSockets, so many on each. Nodes and their providers limit how many subscriptions there may be; what they refuse
// is not followed, and the stream of the others goes on. As with every stream, what happens while a socket is down is not told.

/** An account as it was after a transaction at `slot`. A closed one belongs to the System program and has no data. */
export interface AccountNotice extends ChainAccount {
  readonly address: string;
  readonly slot: bigint;
}

export interface FollowAccountsOptions {
  /** WebSocket URLs in order of preference. */
  readonly urls: readonly string[];
  /** Accounts at the most, and on one connection. */
  readonly most: number;
  readonly perConnection?: number;
  readonly commitment?: Commitment;
  readonly onNotice: (notice: AccountNotice) => void;
  /** A connection had broken off, and all that it follows is followed again: what happened in between was not seen. */
  readonly onGap: () => void;
  readonly silenceMs?: number;
  /** Milliseconds for which nothing is asked for after a refusal. */
  readonly refusedMs?: number;
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>;
}

export interface AccountFollower {
  /** Follows this one too, if there is room; whether it does. */
  readonly add: (address: string) => boolean;
  readonly drop: (address: string) => void;
  /** How many are followed right now. */
  readonly followed: () => number;
  readonly close: () => void;
}

const SLOT_REQUEST = 1;
/** Requests without an answer at once: a node takes them as they come, a provider may count them by the second. */
const AT_ONCE = 50;

/** Follows accounts; a connection is opened when there is something to follow on it. Throws a TypeError for a URL that is none, when it is used. */
export function followAccounts(options: FollowAccountsOptions): AccountFollower {
  const { most, perConnection = 1000, refusedMs = 300_000, log } = options;
  const connections: Connection[] = [];
  const placeOf = new Map<string, Connection>();
  let refusedUntil = -Infinity;
  let closed = false;

  const onRefused = (reason: string, addresses: readonly string[]) => {
    for (const address of addresses) placeOf.delete(address);
    if (performance.now() < refusedUntil) return;
    refusedUntil = performance.now() + refusedMs;
    log.warn({ reason, followed: placeOf.size }, 'the node follows no more accounts: the others are looked at by the sweep');
  };

  return {
    add(address) {
      if (placeOf.has(address)) return true;
      if (closed || placeOf.size >= most || performance.now() < refusedUntil) return false;
      let place = connections.find((connection) => connection.size() < perConnection);
      if (place === undefined) {
        place = openConnection(options, onRefused);
        connections.push(place);
      }
      placeOf.set(address, place);
      place.add(address);
      return true;
    },
    drop(address) {
      placeOf.get(address)?.drop(address);
      placeOf.delete(address);
    },
    followed: () => connections.reduce((sum, connection) => sum + connection.followed(), 0),
    close() {
      closed = true;
      for (const connection of connections) connection.close();
    },
  };
}

interface Connection {
  readonly add: (address: string) => void;
  readonly drop: (address: string) => void;
  /** How many it is to follow, and how many it follows. */
  readonly size: () => number;
  readonly followed: () => number;
  readonly close: () => void;
}

function openConnection(
  { urls, commitment = 'confirmed', onNotice, onGap, silenceMs = 15_000, log }: FollowAccountsOptions,
  onRefused: (reason: string, addresses: readonly string[]) => void,
): Connection {
  const addresses = new Set<string>();
  const waiting = new Set<string>();
  const asked = new Map<number, string>();
  const followed = new Map<number, string>();
  let on = false;
  let interrupted = false;
  let lastId = SLOT_REQUEST;

  function ask(): void {
    for (const address of waiting) {
      if (!on || asked.size >= AT_ONCE) return;
      waiting.delete(address);
      asked.set((lastId += 1), address);
      stream.request(lastId, 'accountSubscribe', [address, { commitment, encoding: 'base64' }]);
    }
  }

  function caughtUp(): void {
    if (!interrupted || waiting.size > 0 || asked.size > 0) return;
    interrupted = false;
    guarded(log, onGap);
  }

  function answered(message: Readonly<Record<string, unknown>>): void {
    const id = integer(message.id, 'id');
    const address = asked.get(id);
    asked.delete(id);
    if ('error' in message) {
      const reason = text(object(message.error, 'error').message, 'error message');
      if (id === SLOT_REQUEST) throw new Error(`refused: ${reason}`);
      const refused = [...waiting, ...(address === undefined ? [] : [address])];
      for (const one of refused) addresses.delete(one);
      waiting.clear();
      if (refused.length > 0) onRefused(reason, refused);
      caughtUp();
      return;
    }
    if (id === SLOT_REQUEST) stream.settled();
    // Anything else is the end of a subscription.
    if (address === undefined) return;
    const subscription = integer(message.result, 'subscription');
    if (addresses.has(address)) followed.set(subscription, address);
    else stream.request((lastId += 1), 'accountUnsubscribe', [subscription]);
    ask();
    caughtUp();
  }

  const stream: Stream = openStream({
    urls,
    name: 'a stream of accounts',
    silenceMs,
    onOpen() {
      on = true;
      // Slots are the node's heartbeat: an account may be silent for months.
      stream.request(SLOT_REQUEST, 'slotSubscribe', []);
      ask();
    },
    onMessage(message) {
      if ('id' in message) {
        answered(message);
        return;
      }
      const { result, subscription } = object(message.params, 'params');
      if (message.method !== 'accountNotification') return;
      const address = followed.get(integer(subscription, 'subscription'));
      if (address === undefined) return;
      const { context, value } = object(result, 'notification');
      const notice = { address, slot: big(object(context, 'context').slot, 'slot'), ...account(value) };
      guarded(log, () => onNotice(notice));
    },
    onBreak() {
      on = false;
      interrupted ||= followed.size > 0;
      followed.clear();
      asked.clear();
      for (const address of addresses) waiting.add(address);
    },
    log,
  });

  return {
    add(address) {
      addresses.add(address);
      waiting.add(address);
      ask();
    },
    drop(address) {
      addresses.delete(address);
      waiting.delete(address);
      for (const [subscription, one] of followed) {
        if (one !== address) continue;
        followed.delete(subscription);
        stream.request((lastId += 1), 'accountUnsubscribe', [subscription]);
      }
    },
    size: () => addresses.size,
    followed: () => followed.size,
    close: stream.close,
  };
}
