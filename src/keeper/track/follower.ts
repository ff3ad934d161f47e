// Follows the transactions that a keeper has committed or taken over until each is settled. A Kind
// holds the differences between payments (tracker.ts) and sponsored transactions
// (sponsor/sponsor.ts). Their loops call the steps due (which transactions to send), poll, settle
// and expire.
//
//   committed -> sent -> seen (processed, confirmed) -> final -> settled
//   seen -> its block dropped by a fork -> sent again at once
//   unseen, or not final for long -> blockhash expired -> settled, or checked again later
//   final, not settled -> tried again later, or followed again if no endpoint shows it as final
import { follow, isSentAgain, pollStatuses, see, shouldPoll } from '../../chain/rpc/follow.ts';
import type { Followed, Root } from '../../chain/rpc/follow.ts';
import type { SignatureStatus } from '../../chain/rpc/responses.ts';
import type { Rpc } from '../../chain/rpc/rpc.ts';
import { STATUSES_AT_ONCE } from '../../chain/rpc/transactions.ts';
import { chunks } from '../../each.ts';
import type { KeeperTimes } from '../base/times.ts';
import { findExpired, type SignedWith } from '../read/dead.ts';

/** A committed transaction. Times are milliseconds of performance.now(). */
export interface Tracked extends Followed {
  readonly signed: SignedWith;
  /** Number of payments in the transaction. */
  readonly size: number;
  renewedAt: number;
  /** Before this time the transaction is neither settled nor checked for expiry. */
  settleAt: number;
  /** Number of times that the transaction could not be settled because its outcome was unknown. */
  settleTries: number;
}

/** Returns the state of a committed transaction that this process has not sent yet. */
export function track(
  signed: SignedWith,
  taken: { isOwn: boolean; size: number; renewedAt: number },
): Tracked {
  const followed = follow({ signature: signed.signature, bytes: signed.transaction });
  return { ...followed, signed, ...taken, settleAt: followed.takenAt, settleTries: 0 };
}

/** The differences between the kinds of transactions. */
export interface Kind<T extends Tracked> {
  /** The followed transactions by signature. */
  readonly transactions: ReadonlyMap<string, T>;
  /**
   * Renews the leases of these transactions. Forgets transactions whose lease this keeper has lost.
   */
  renew(old: readonly T[]): Promise<void>;
  /** Called after each poll. `hasEnded` is true when it first shows the transaction as final. */
  seen(transaction: T, hasEnded: boolean): Promise<void> | void;
  /**
   * Settles final transactions, and forgets the settled ones. Calls `postpone` or `fault` for a
   * transaction that cannot be settled.
   */
  settle(final: readonly T[]): Promise<void>;
  /**
   * Checks whether transactions with an expired blockhash can still land (chain/rpc/landing.ts).
   * Settles the dead ones under the rules of `settle`. Resolves with the status of each transaction
   * that an endpoint shows, by signature.
   */
  expire(expired: readonly T[]): Promise<ReadonlyMap<string, SignatureStatus>>;
}

/** Maximum number of payments that are settled together. */
const SETTLED_AT_ONCE = 256;

type FollowerRpc = Pick<Rpc, 'getSignatureStatuses' | 'getLifetimesEverywhere' | 'endpoints'>;
type FollowerTimes = Pick<KeeperTimes, 'send' | 'poll' | 'settle'>;

/** Decides when transactions of one kind are sent again, polled, settled and checked for expiry. */
export class Follower<T extends Tracked> {
  readonly #rpc: FollowerRpc;
  readonly #times: FollowerTimes;
  readonly #kind: Kind<T>;
  /** Transactions that were already reported to the kind as final. */
  readonly #final = new WeakSet<T>();
  #root: Root = { slot: 0n, receivedAt: -Infinity };
  #expiryCheckedAt = -Infinity;

  constructor(rpc: FollowerRpc, times: FollowerTimes, kind: Kind<T>) {
    [this.#rpc, this.#times, this.#kind] = [rpc, times, kind];
  }

  /**
   * Sets the newest root slot that the stream reported. Transactions in this slot or an earlier
   * slot are finalized or about to be finalized.
   */
  rooted(slot: bigint): void {
    this.#root = { slot, receivedAt: performance.now() };
  }

  /** Returns the transactions to send now, for the first time or again. */
  due(now = performance.now()): T[] {
    return this.#those((one) => isSentAgain(one, now, this.#times.send.resendMs));
  }

  /**
   * Renews leases and reads statuses that are due. Resolves with true if a final transaction is due
   * to be settled.
   */
  async poll(): Promise<boolean> {
    const now = performance.now();
    const { poll, settle } = this.#times;
    const old = this.#those(({ renewedAt }) => now - renewedAt >= settle.renewMs);
    if (old.length > 0) await this.#kind.renew(old);
    for (const one of old) one.renewedAt = now;
    const due = this.#those((one) => shouldPoll(one, this.#root, now, poll));
    const isRecent = (transaction: T) =>
      transaction.isOwn && now - transaction.takenAt < poll.recentMs;
    for (const history of [false, true]) {
      const some = due.filter((one) => isRecent(one) !== history);
      for (const batch of chunks(some, STATUSES_AT_ONCE)) {
        await pollStatuses(this.#rpc, batch, { history });
        for (const one of batch) await this.#seen(one);
      }
    }
    return this.#settleable().length > 0;
  }

  /** Settles a batch of final transactions. Resolves with true if more are due. */
  async settle(): Promise<boolean> {
    let payments = 0;
    const batch = this.#settleable().filter(({ size }) => {
      payments += size;
      return payments - size < SETTLED_AT_ONCE;
    });
    if (batch.length === 0) return false;
    this.#takeUntilAgain(batch);
    await this.#kind.settle(batch);
    await this.#recheck(batch.filter((one) => this.#has(one)));
    return this.#settleable().length > 0;
  }

  /**
   * Passes transactions with an expired blockhash to `expire` of their kind: they may be dead, or
   * final at an endpoint that was not polled. Begins with the transactions whose last try to settle
   * is the oldest. Resolves with true if more may be left.
   */
  async expire(): Promise<boolean> {
    const now = performance.now();
    if (now - this.#expiryCheckedAt < this.#times.settle.expiryCheckMs) return false;
    this.#expiryCheckedAt = now;
    const open = this.#those((one) => now >= one.settleAt && this.#isSuspect(one, now));
    open.sort((a, b) => a.settleAt - b.settleAt);
    const signed = open.map((one) => one.signed);
    const expired = await findExpired(this.#rpc, signed);
    const isExpired = (transaction: T) =>
      expired.has(transaction.signature) && this.#has(transaction);
    const batch = open.filter(isExpired).slice(0, STATUSES_AT_ONCE);
    if (batch.length === 0) return false;
    this.#takeUntilAgain(batch);
    const statuses = await this.#kind.expire(batch);
    // A poll asks one endpoint, which may lack the transaction. Here every endpoint was asked.
    for (const one of batch) {
      const status = statuses.get(one.signature);
      if (status === undefined) continue;
      see(one, status, status.slot);
      await this.#seen(one);
    }
    return batch.length === STATUSES_AT_ONCE;
  }

  /**
   * Schedules a later try to settle a transaction of unknown outcome. The delay doubles with each
   * try.
   */
  postpone(transaction: T): void {
    const { againMs, latestMs } = this.#times.settle;
    transaction.settleTries += 1;
    const wait = againMs * 2 ** Math.min(transaction.settleTries - 1, 10);
    transaction.settleAt = performance.now() + Math.min(latestMs, wait);
  }

  /** Schedules a later try to settle a transaction whose data caused an error. */
  fault(transaction: T): void {
    transaction.settleAt = performance.now() + this.#times.settle.faultMs;
  }

  #those(holds: (one: T) => boolean): T[] {
    return [...this.#kind.transactions.values()].filter(holds);
  }

  #has(transaction: T): boolean {
    return this.#kind.transactions.get(transaction.signature) === transaction;
  }

  #settleable(now = performance.now()): T[] {
    return this.#those(
      ({ status, settleAt }) => status?.commitment === 'finalized' && now >= settleAt,
    );
  }

  /** Prevents other loops from handling these transactions while they are settled. */
  #takeUntilAgain(some: readonly T[]): void {
    for (const one of some) one.settleAt = performance.now() + this.#times.settle.againMs;
  }

  /**
   * Whether no endpoint has shown the transaction yet, or it has not become final for a long time.
   */
  #isSuspect({ status, isOwn, takenAt }: T, now: number): boolean {
    const ageMs = now - takenAt;
    if (status === null) return !isOwn || ageMs > this.#times.send.resendMs;
    return status.commitment !== 'finalized' && ageMs >= this.#times.poll.overdueMs;
  }

  async #seen(transaction: T): Promise<void> {
    if (!this.#has(transaction)) return;
    const hasEnded =
      transaction.status?.commitment === 'finalized' && !this.#final.has(transaction);
    if (hasEnded) {
      this.#final.add(transaction);
      // The tries so far determined whether it has landed. Later tries determine its period.
      transaction.settleTries = 0;
    }
    await this.#kind.seen(transaction, hasEnded);
  }

  /**
   * Asks all endpoints about final transactions that could not be settled. The polled endpoint may
   * have been wrong. If none shows a transaction as final, it is followed again.
   */
  async #recheck(unsettled: readonly T[]): Promise<void> {
    if (unsettled.length === 0 || this.#rpc.endpoints() === 1) return;
    const signatures = unsettled.map(({ signature }) => signature);
    const options = { history: true, everywhere: true };
    const { statuses } = await this.#rpc.getSignatureStatuses(signatures, options);
    for (const [index, one] of unsettled.entries()) {
      if (statuses[index]?.commitment === 'finalized') continue;
      this.#final.delete(one);
      [one.status, one.slot] = [null, null];
    }
  }
}
