// The chain client that all API requests of a process share. One RPC request reads accounts or
// statuses for several API requests. Results that are the same for all callers are cached. While
// the rate limit delays requests, callers take turns, so no caller delays the others much.
import { AsyncLocalStorage } from 'node:async_hooks';
import { ACCOUNTS_AT_ONCE } from '../../chain/rpc/accounts.ts';
import { EndpointFailure, RpcUnreachable } from '../../chain/rpc/errors.ts';
import type { Rpc } from '../../chain/rpc/rpc.ts';
import { STATUSES_AT_ONCE } from '../../chain/rpc/transactions.ts';

/**
 * Milliseconds for which the rent of an account is cached. The rent changes only when the cluster
 * activates a feature.
 */
const RENT_MS = 3_600_000;
/**
 * Milliseconds for which a blockhash or block height is cached. A blockhash is valid for 150
 * blocks, which take about a minute, so the wallet still has most of that time to sign.
 */
const RECENT_MS = 1000;
/**
 * Maximum milliseconds that a request waits for its turn. The RPC client uses the same maximum for
 * its own rate limit.
 */
const MAX_WAIT_MS = 10_000;

const callers = new AsyncLocalStorage<() => readonly string[]>();

/**
 * Runs `work` for a caller. `caller` returns its networks and its wallet, the widest group first.
 * While the rate limit delays requests, chain reads by `work` wait in the queue of this caller:
 * networks take turns, and the wallets of a network share its turns.
 */
export function actingFor(caller: () => readonly string[], work: () => void): void {
  callers.run(caller, work);
}

/**
 * A kind of read. One RPC request combines reads of one kind, for at most `max` names (addresses or
 * signatures).
 */
interface Kind<R> {
  readonly method: string;
  readonly max: number;
  load(names: string[]): Promise<R>;
  /** Returns the part of `result` that one caller asked for: the entries at `places`. */
  part(result: R, places: readonly number[]): R;
}

interface Waiting {
  readonly kind: Kind<never>;
  readonly names: readonly string[];
  readonly since: number;
  resolve(result: unknown, places: readonly number[]): void;
  reject(error: unknown): void;
}

/**
 * Requests that wait, of one group of callers. Its children, such as the wallets of a network, take
 * turns.
 */
class Group {
  readonly #own: Waiting[] = [];
  readonly #children = new Map<string, Group>();

  get isEmpty(): boolean {
    return this.#own.length === 0 && this.#children.size === 0;
  }

  /** Adds a request of the caller that `path` names below this group. */
  add([name, ...path]: readonly string[], waiting: Waiting): void {
    if (name === undefined) {
      this.#own.push(waiting);
      return;
    }
    const child = this.#children.get(name) ?? new Group();
    this.#children.set(name, child);
    child.add(path, waiting);
  }

  /**
   * Removes and returns the first request, in the order of turns, for which `fits` is true. The
   * child of that request then goes to the end of the order.
   */
  take(fits: (waiting: Waiting) => boolean): Waiting | undefined {
    const [first] = this.#own;
    if (first !== undefined && fits(first)) return this.#own.shift();
    for (const name of [...this.#children.keys()]) {
      const found = this.takeOf(name, fits);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Like take(), but only from one child. */
  takeOf(name: string, fits: (waiting: Waiting) => boolean): Waiting | undefined {
    const child = this.#children.get(name);
    const found = child?.take(fits);
    if (child === undefined || found === undefined) return undefined;
    this.#children.delete(name);
    if (!child.isEmpty) this.#children.set(name, child);
    return found;
  }

  /** Names of the children, in the order of their next turns. */
  names(): string[] {
    return [...this.#children.keys()];
  }

  /** Removes and returns the requests that have waited since before `since`. */
  removeLate(since: number): Waiting[] {
    const late: Waiting[] = [];
    while (this.#own[0] !== undefined && this.#own[0].since < since)
      late.push(...this.#own.splice(0, 1));
    for (const [name, child] of this.#children) {
      late.push(...child.removeLate(since));
      if (child.isEmpty) this.#children.delete(name);
    }
    return late;
  }
}

/**
 * Requests that wait for the rate limit. The callers take turns. In each turn the caller's oldest
 * request is sent.
 */
class Turns {
  readonly #delay: () => number;
  /**
   * Requests whose results serve all callers. These requests are sent first. There are only a few
   * such requests, because their results are cached.
   */
  readonly #common: Waiting[] = [];
  readonly #callers = new Group();
  #isAwake = false;

  constructor(delay: () => number) {
    this.#delay = delay;
  }

  /** Sends a request that serves all callers. */
  common<R>(method: string, load: () => Promise<R>): Promise<R> {
    return this.#wait((waiting) => this.#common.push(waiting), alone(method, load), []);
  }

  /** Sends a request of the current caller. */
  own<R>(kind: Kind<R>, names: readonly string[]): Promise<R> {
    const caller = callers.getStore()?.() ?? [''];
    return this.#wait((waiting) => this.#callers.add(caller, waiting), kind, names);
  }

  #wait<R>(add: (waiting: Waiting) => void, kind: Kind<R>, names: readonly string[]): Promise<R> {
    return new Promise<R>((resolve, reject) => {
      add({
        kind: kind as Kind<never>,
        names,
        since: performance.now(),
        resolve: (result, places) => resolve(kind.part(result as R, places)),
        reject,
      });
      if (this.#isAwake) return;
      this.#isAwake = true;
      // setImmediate runs after Node has read all readable sockets, so that requests of the same
      // event-loop turn are sent together.
      setImmediate(() => this.#send());
    });
  }

  #send(): void {
    this.#dropLate();
    while (this.#common.length > 0 || !this.#callers.isEmpty) {
      const wait = this.#delay();
      // If the wait would exceed MAX_WAIT_MS, the request goes to the RPC client at once. The RPC
      // client then refuses the request, because its own maximum wait is the same.
      if (wait > 0 && wait <= MAX_WAIT_MS) {
        setTimeout(() => this.#send(), Math.ceil(wait)).unref();
        return;
      }
      this.#start(this.#next());
    }
    this.#isAwake = false;
  }

  /** Removes and returns the waiting requests that the next RPC request combines. */
  #next(): Waiting[] {
    const common = this.#common.shift();
    if (common !== undefined) return [common];
    const batch: Waiting[] = [];
    const names = new Set<string>();
    for (let before = -1; batch.length > before;) {
      before = batch.length;
      // Each network adds one request before any network adds another.
      for (const network of this.#callers.names()) {
        const next = this.#callers.takeOf(network, (one) => fits(one, batch[0], names));
        if (next === undefined) continue;
        for (const name of next.names) names.add(name);
        batch.push(next);
      }
    }
    return batch;
  }

  #start(batch: readonly Waiting[]): void {
    const [first] = batch;
    if (first === undefined) return;
    const names = [...new Set(batch.flatMap((each) => each.names))];
    const placeOf = new Map(names.map((name, index) => [name, index]));
    const { kind } = first;
    kind.load(names).then(
      (result) => {
        for (const each of batch)
          each.resolve(
            result,
            each.names.map((name) => placeOf.get(name) ?? -1),
          );
      },
      (error: unknown) => {
        for (const each of batch) each.reject(error);
      },
    );
  }

  #dropLate(): void {
    for (const late of this.#callers.removeLate(performance.now() - MAX_WAIT_MS))
      late.reject(
        new RpcUnreachable(late.kind.method, [
          new EndpointFailure('rate_limited', `no turn within ${MAX_WAIT_MS} ms`),
        ]),
      );
  }
}

/** Whether a request can join the batch that begins with `head`. */
function fits(next: Waiting, head: Waiting | undefined, names: ReadonlySet<string>): boolean {
  if (head === undefined) return true;
  if (next.kind !== head.kind) return false;
  const added = next.names.filter((name) => !names.has(name)).length;
  return names.size + added <= next.kind.max;
}

/** Returns the kind of a request that is never combined with other requests. */
function alone<R>(method: string, load: () => Promise<R>): Kind<R> {
  return { method, max: 0, load, part: (result) => result };
}

/** Caches results that are the same for all callers. Failures are not cached. */
class Cache {
  readonly #turns: Turns;
  readonly #cached = new Map<string, { value: Promise<unknown>; until: number }>();

  constructor(turns: Turns) {
    this.#turns = turns;
  }

  /**
   * Returns the cached result of `load`. If the cache has no result, calls `load`. Calls that come
   * before `load` has ended share its result. A result stays in the cache for `ms` after its
   * response.
   */
  get<R>(method: string, about: string, ms: number, load: () => Promise<R>): Promise<R> {
    const key = `${method} ${about}`;
    const cached = this.#cached.get(key);
    if (cached !== undefined && performance.now() < cached.until) return cached.value as Promise<R>;
    const value = this.#turns.common(method, load);
    const entry = { value, until: Infinity };
    this.#cached.set(key, entry);
    value.then(
      () => (entry.until = performance.now() + ms),
      () => this.#cached.delete(key),
    );
    return value;
  }

  forget(method: string, about: string): void {
    this.#cached.delete(`${method} ${about}`);
  }
}

function accountKinds(rpc: Rpc) {
  const kindOf = (commitment: 'processed' | 'confirmed' | 'finalized') => ({
    method: 'getMultipleAccounts',
    max: ACCOUNTS_AT_ONCE,
    load: (names: string[]) => rpc.getMultipleAccounts(names, { commitment }),
    part: (
      { slot, accounts }: Awaited<ReturnType<Rpc['getMultipleAccounts']>>,
      places: readonly number[],
    ) => ({ slot, accounts: places.map((index) => accounts[index] ?? null) }),
  });
  return {
    processed: kindOf('processed'),
    confirmed: kindOf('confirmed'),
    finalized: kindOf('finalized'),
  };
}

function statusKind(rpc: Rpc, history: boolean) {
  return {
    method: 'getSignatureStatuses',
    max: STATUSES_AT_ONCE,
    load: (names: string[]) => rpc.getSignatureStatuses(names, { history }),
    part: (
      result: Awaited<ReturnType<Rpc['getSignatureStatuses']>>,
      places: readonly number[],
    ) => ({ ...result, statuses: places.map((index) => result.statuses[index] ?? null) }),
  };
}

/**
 * Returns `rpc` with shared versions of those methods that the API uses. The other methods stay
 * unchanged.
 */
export function shareChain(rpc: Rpc): Rpc {
  const turns = new Turns(() => rpc.readDelay());
  const cache = new Cache(turns);
  const single = <R>(method: string, read: () => Promise<R>) => turns.own(alone(method, read), []);
  const accounts = accountKinds(rpc);
  const recentStatus = statusKind(rpc, false);
  const anyStatus = statusKind(rpc, true);
  /**
   * The latest response to getBlockHeight. If a cached blockhash has expired at this height, the
   * blockhash is read again.
   */
  let height = 0n;
  return {
    ...rpc,
    getMultipleAccounts(addresses, options = {}) {
      const { commitment = 'confirmed', minSlot } = options;
      if (addresses.length <= ACCOUNTS_AT_ONCE && minSlot === undefined)
        return turns.own(accounts[commitment], addresses);
      const read = () => rpc.getMultipleAccounts(addresses, options);
      return single('getMultipleAccounts', read);
    },
    getSignatureStatuses(signatures, options = {}) {
      const { history = false, everywhere = false, minSlot } = options;
      if (!everywhere && minSlot === undefined)
        return turns.own(history ? anyStatus : recentStatus, signatures);
      const read = () => rpc.getSignatureStatuses(signatures, options);
      return single('getSignatureStatuses', read);
    },
    async getLatestBlockhash({ commitment = 'confirmed' } = {}) {
      const read = () =>
        cache.get('getLatestBlockhash', commitment, RECENT_MS, () =>
          rpc.getLatestBlockhash({ commitment }),
        );
      const recent = await read();
      if (recent.lastValidBlockHeight >= height) return recent;
      cache.forget('getLatestBlockhash', commitment);
      return read();
    },
    async getBlockHeight({ commitment = 'confirmed' } = {}) {
      height = await cache.get('getBlockHeight', commitment, RECENT_MS, () =>
        rpc.getBlockHeight({ commitment }),
      );
      return height;
    },
    getMinimumBalanceForRentExemption: (length) =>
      cache.get('getMinimumBalanceForRentExemption', String(length), RENT_MS, () =>
        rpc.getMinimumBalanceForRentExemption(length),
      ),
    sendTransaction: (...given) => single('sendTransaction', () => rpc.sendTransaction(...given)),
    simulateTransaction: (...given) =>
      single('simulateTransaction', () => rpc.simulateTransaction(...given)),
    getLifetimesEverywhere: (...given) =>
      single('getLifetimesEverywhere', () => rpc.getLifetimesEverywhere(...given)),
    getHeights: (...given) => single('getHeights', () => rpc.getHeights(...given)),
    getTransaction: (...given) => single('getTransaction', () => rpc.getTransaction(...given)),
    getTransactionEverywhere: (...given) =>
      single('getTransactionEverywhere', () => rpc.getTransactionEverywhere(...given)),
    getHistoriesEverywhere: (...given) =>
      single('getHistoriesEverywhere', () => rpc.getHistoriesEverywhere(...given)),
    getProgramAccounts: (...given) =>
      single('getProgramAccounts', () => rpc.getProgramAccounts(...given)),
    getSignaturesForAddress: (...given) =>
      single('getSignaturesForAddress', () => rpc.getSignaturesForAddress(...given)),
  };
}
