// Sends the transactions of payments within the rate limit, and follows them (follower.ts) until
// each is final. A transaction lands or fails as a whole, but resolve.ts settles each of its
// payments separately.
//
//   committed -> sent -> seen (processed, confirmed) -> final: landed | failed
//   sent, never seen or not final -> blockhash expired -> expired | unexplained | landed
//   committed, one of its payments cancelled -> not sent, then like "sent, never seen"
import { setTimeout as pause } from 'node:timers/promises';
import { RpcUnreachable } from '../../chain/rpc/errors.ts';
import { isSentAgain } from '../../chain/rpc/follow.ts';
import type { SignatureStatus } from '../../chain/rpc/responses.ts';
import { releaseClaims, renewLeases } from '../../db/subscriptions/leases.ts';
import { LEASE_SECONDS } from '../../domain/collecting/settlement.ts';
import { type Loop, startLoop } from '../../loop.ts';
import type { Context } from '../base/context.ts';
import { splitBatch } from '../base/split-batch.ts';
import type { PendingAttempt } from './attempt-outcome.ts';
import { Follower } from './follower.ts';
import {
  InFlight,
  type InFlightPayment,
  type InFlightTransaction,
  type Queue,
} from './in-flight.ts';
import { reportSettled, reportTransaction } from './reports.ts';
import type { Resolver, ResolveResult } from './resolve.ts';
import { SENT_AT_ONCE, sendAll } from './send.ts';

const MAX_IN_FLIGHT = 8192;
/**
 * Maximum number of payments that are signed but not sent yet. At the limit, the collect loops wait
 * until half of the limit is free again. The limit is low because the blockhash of a waiting
 * transaction ages, and no other keeper can send the transaction.
 */
const MAX_UNSENT = 1024;
/**
 * Limit of the send queue in seconds. If sends have a rate limit, the queue is full when sending
 * all its transactions would take this time. A longer wait would use up too much of the life of the
 * blockhash, which is 150 blocks (60 s at 400 ms per block).
 */
const MAX_UNSENT_SECONDS = 10;
/**
 * Two send loops and two settle loops run at the same time. While one loop of a kind waits for the
 * network, the other uses Postgres.
 */
const [SENDERS, SETTLERS] = [2, 2];
/**
 * Each poll goes through all payments in flight. The time between two polls (ms) is the number of
 * payments divided by POLLED_PER_MS.
 */
const POLLED_PER_MS = 15;

/**
 * Sends, polls, resends and settles transactions. The loops of this class run from construction
 * until `stop`.
 */
export class Tracker implements Queue {
  readonly inFlight = new InFlight();
  /**
   * Called when the collect loops should claim again, because (1) payments can be added again after
   * `room` returned 0, or (2) subscriptions became due again.
   */
  onRoom: () => void = () => undefined;
  readonly #context: Context;
  readonly #resolver: Pick<Resolver, 'landed' | 'expired'>;
  readonly #follower: Follower<InFlightTransaction>;
  readonly #unsent: InFlightTransaction[] = [];
  readonly #senders: Loop[];
  readonly #settlers: Loop[];
  readonly #others: Loop[];
  #scannedAt = -Infinity;
  #isRoomAwaited = false;
  #beingSent = 0;
  #onEmpty: (() => void) | undefined;

  /** Sets the newest root slot that the stream reported (follower.ts). */
  readonly rooted = (slot: bigint) => this.#follower.rooted(slot);

  constructor(context: Context, resolver: Pick<Resolver, 'landed' | 'expired'>) {
    [this.#context, this.#resolver] = [context, resolver];
    const { settle, poll } = context.times;
    this.#follower = new Follower(context.rpc, context.times, {
      transactions: this.inFlight.transactions,
      renew: (old) => this.#renew(old),
      seen(one, hasEnded) {
        if (hasEnded && one.status !== null) reportTransaction(context, one, one.status);
      },
      settle: (final) => this.#settle(final),
      expire: (expired) => this.#expire(expired),
    });
    const loop = (name: string, turn: () => Promise<boolean>, idleMs = () => settle.idleMs) =>
      startLoop({
        name,
        idleMs,
        turn,
        onError(error, failures) {
          if (!(error instanceof RpcUnreachable))
            context.log.error({ err: error, failures, loop: name }, 'keeper loop failed');
        },
      });
    const several = (count: number, name: string, turn: () => Promise<boolean>) =>
      Array.from({ length: count }, () => loop(name, turn));
    this.#senders = several(SENDERS, 'sending', () => this.#send());
    this.#settlers = several(SETTLERS, 'settling', () => this.#follower.settle());
    const pollMs = () => Math.max(poll.leastMs, this.inFlight.size / POLLED_PER_MS);
    this.#others = [
      loop('expiring', () => this.#follower.expire()),
      loop('polling payments', () => this.#poll(), pollMs),
    ];
  }

  /** Returns the number of payments that can still be added. */
  room(): number {
    const room = this.#free();
    this.#isRoomAwaited ||= room <= 0;
    return room;
  }

  /** Adds committed payments and sends their transactions. */
  add(taken: readonly InFlightPayment[]): void {
    this.#unsent.push(...this.inFlight.add(taken));
    this.#context.metrics.inFlight.set(this.inFlight.size);
    for (const sender of this.#senders) sender.wake();
  }

  /**
   * Waits up to `ms` milliseconds until no payment is in flight. Then stops the loops and releases
   * the claims of the remaining payments.
   */
  async stop(ms: number): Promise<void> {
    if (this.inFlight.size > 0) {
      const empty = new AbortController();
      this.#onEmpty = () => empty.abort();
      await pause(ms, undefined, { signal: empty.signal }).catch(() => undefined);
    }
    const loops = [...this.#senders, ...this.#settlers, ...this.#others];
    await Promise.all(loops.map((loop) => loop.stop()));
    const { sql, log, metrics } = this.#context;
    if (this.inFlight.size > 0) {
      log.info({ payments: this.inFlight.size }, 'payments in flight are left to the next keeper');
      await releaseClaims(sql, [...this.inFlight.transactions.values()].flatMap(paymentsOf));
    }
    this.inFlight.clear();
    this.#unsent.length = 0;
    metrics.inFlight.set(0);
  }

  /** Sends the transactions that are due, within the rate limit. */
  async #send(): Promise<boolean> {
    const { allowed } = this.#context.rpc.sendRate();
    // The transactions that the other send loop is sending are subtracted, because the rate limit
    // may not count them yet.
    const ready = this.#takeUnsent(Math.min(SENT_AT_ONCE, allowed - this.#beingSent));
    this.#reportRoom();
    if (ready.length > 0) {
      this.#beingSent += ready.length;
      await sendAll(this.#context, ready).finally(() => (this.#beingSent -= ready.length));
    } else if (this.#unsent.length > 0) await pause(this.#context.times.send.pauseMs);
    return this.#unsent.length > 0;
  }

  /**
   * Takes up to `most` transactions to send now. Transactions that were sent before come first,
   * because their blockhashes expire first.
   */
  #takeUnsent(most: number): InFlightTransaction[] {
    const now = performance.now();
    const { resendMs, resendScanMs } = this.#context.times.send;
    if (now - this.#scannedAt >= resendScanMs) {
      this.#scannedAt = now;
      const again = this.#follower.due(now).filter((one) => !this.#unsent.includes(one));
      this.#unsent.unshift(...again);
    }
    const ready: InFlightTransaction[] = [];
    while (ready.length < most && this.#unsent.length > 0) {
      const one = this.#unsent.shift();
      if (one && this.inFlight.has(one) && isSentAgain(one, now, resendMs)) ready.push(one);
    }
    for (const one of ready) one.sentAt = now;
    return ready;
  }

  async #poll(): Promise<boolean> {
    if (await this.#follower.poll()) for (const settler of this.#settlers) settler.wake();
    return false;
  }

  /**
   * Renews the leases of the payments in these transactions. If the claim of a payment was lost
   * through a cancellation or an expired lease, the payment is removed from `inFlight`.
   */
  async #renew(old: readonly InFlightTransaction[]): Promise<void> {
    const payments = old.flatMap(paymentsOf);
    const held = await renewLeases(this.#context.sql, payments, LEASE_SECONDS);
    this.#forget(payments.filter(({ id }) => !held.has(id)));
  }

  async #settle(final: readonly InFlightTransaction[]): Promise<void> {
    const batch = final.flatMap((one) => {
      const { status } = one;
      return status === null ? [] : pendingOf(one).map((each) => ({ ...each, status }));
    });
    await this.#split(batch, async (some) => {
      const ends = await this.#resolver.landed(some);
      reportSettled(this.#context, this.inFlight, ends.done);
      return ends;
    });
  }

  async #expire(
    expired: readonly InFlightTransaction[],
  ): Promise<ReadonlyMap<string, SignatureStatus>> {
    const seen = new Map<string, SignatureStatus>();
    await this.#split(expired.flatMap(pendingOf), async (some) => {
      const ends = await this.#resolver.expired(some);
      for (const [signature, status] of ends.seen) seen.set(signature, status);
      return ends;
    });
    return seen;
  }

  /** Settles payments. Those with an unknown outcome or with faulty data stay in flight. */
  async #split<T extends InFlightPayment>(
    batch: readonly T[],
    settle: (some: readonly T[]) => Promise<ResolveResult>,
  ): Promise<void> {
    const work = async (some: readonly T[]) => {
      const { done, unknown, isDue } = await settle(some);
      this.#forget(done);
      for (const one of new Set(unknown.map(({ id }) => this.inFlight.transactionOf(id))))
        if (one !== undefined) this.#follower.postpone(one);
      if (isDue) this.onRoom();
    };
    await splitBatch(batch, work, (one, error) => this.#fault(one, error));
  }

  #fault({ id, attempt }: InFlightPayment, error: unknown): void {
    const one = this.inFlight.transactionOf(id);
    if (one !== undefined) this.#follower.fault(one);
    this.#context.metrics.alerts.inc({ reason: 'cannot_be_settled' });
    this.#context.log.error(
      { err: error, subscription: id, signature: attempt.signature },
      'payment cannot be settled; run "billing reconcile"',
    );
  }

  #forget(done: Iterable<InFlightPayment>): void {
    this.inFlight.forget(done);
    this.#context.metrics.inFlight.set(this.inFlight.size);
    if (this.inFlight.size === 0) this.#onEmpty?.();
    this.#reportRoom();
  }

  #free(): number {
    const unsent = this.#unsent.reduce((sum, { size }) => sum + size, 0);
    const { perSecond } = this.#context.rpc.sendRate();
    const isLong = this.#unsent.length >= perSecond * MAX_UNSENT_SECONDS;
    return isLong ? 0 : Math.min(MAX_IN_FLIGHT - this.inFlight.size, MAX_UNSENT - unsent);
  }

  #reportRoom(): void {
    if (!this.#isRoomAwaited || this.#free() < MAX_UNSENT / 2) return;
    this.#isRoomAwaited = false;
    this.onRoom();
  }
}

const paymentsOf = ({ payments }: InFlightTransaction) => [...payments.values()];

const pendingOf = (one: InFlightTransaction): PendingAttempt[] =>
  paymentsOf(one).map((payment) => ({ ...payment, settleTries: one.settleTries }));
