// Sends transactions, polls their statuses and resends them until each transaction is final. The
// same bytes are sent every 2 s until an endpoint has seen the transaction, and again if a fork
// drops the transaction's block. A transaction lands or fails as a whole, but resolve.ts settles
// each of its payments separately.
//
//   committed -> sent -> seen (processed, confirmed) -> final: landed | failed
//   sent, never seen or not final -> blockhash expired -> expired | unexplained | landed
//   committed, one of its payments cancelled -> not sent, then like "sent, never seen"
import { setTimeout as pause } from 'node:timers/promises';
import { RpcUnreachable } from '../../chain/rpc/errors.ts';
import type { SignatureStatus } from '../../chain/rpc/responses.ts';
import { STATUSES_AT_ONCE } from '../../chain/rpc/transactions.ts';
import { renewed, releaseClaims, renewLeases } from '../../db/subscriptions/leases.ts';
import { LEASE_SECONDS } from '../../domain/collecting/settlement.ts';
import { chunks } from '../../each.ts';
import { type Loop, startLoop } from '../../loop.ts';
import type { Context } from '../base/context.ts';
import { splitBatch } from '../base/split-batch.ts';
import { findExpired } from '../read/dead.ts';
import type { PendingAttempt } from './attempt-outcome.ts';
import {
  InFlight,
  type InFlightPayment,
  type InFlightTransaction,
  type Queue,
} from './in-flight.ts';
import { isOverdue, isSentAgain, type Root, shouldPoll } from './poll-schedule.ts';
import { reportSettled, reportTransaction } from './reports.ts';
import type { FinalAttempt, Resolver, ResolveResult } from './resolve.ts';
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
 * Each poll goes through all payments in flight. The more payments there are, the longer is the
 * time between two polls: the number of payments divided by POLLED_PER_MS, in milliseconds.
 */
const POLLED_PER_MS = 15;
/** Maximum number of payments that are settled in one database transaction. */
const SETTLED_AT_ONCE = 256;

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
  readonly #unsent: InFlightTransaction[] = [];
  readonly #senders: Loop[];
  readonly #settlers: Loop[];
  readonly #others: Loop[];
  #root: Root = { slot: 0n, receivedAt: -Infinity };
  #scannedAt = -Infinity;
  #expiryCheckedAt = -Infinity;
  #isRoomAwaited = false;
  #beingSent = 0;
  #onEmpty: (() => void) | undefined;

  constructor(context: Context, resolver: Pick<Resolver, 'landed' | 'expired'>) {
    this.#context = context;
    this.#resolver = resolver;
    const { settle, poll } = context.times;
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
    this.#settlers = several(SETTLERS, 'settling', () => this.#settle());
    const pollMs = () => Math.max(poll.leastMs, this.inFlight.size / POLLED_PER_MS);
    this.#others = [
      loop('expiring', () => this.#expire()),
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
   * Sets the newest root slot that the stream reported. Transactions in this slot or an earlier
   * slot are finalized or about to be finalized.
   */
  rooted(slot: bigint): void {
    this.#root = { slot, receivedAt: performance.now() };
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
      await releaseClaims(sql, [...this.inFlight.all()].flatMap(paymentsOf));
    }
    this.inFlight.clear();
    this.#unsent.length = 0;
    metrics.inFlight.set(0);
  }

  /**
   * Sends new transactions and resends transactions that no endpoint has seen for a while. Keeps
   * within the rate limit.
   */
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
      const again = (one: InFlightTransaction) =>
        isSentAgain(one, now, resendMs) && !this.#unsent.includes(one);
      this.#unsent.unshift(...[...this.inFlight.all()].filter(again));
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
    const now = performance.now();
    const { poll, settle } = this.#context.times;
    const [old, recent, past]: [
      InFlightTransaction[],
      InFlightTransaction[],
      InFlightTransaction[],
    ] = [[], [], []];
    for (const one of this.inFlight.all()) {
      if (now - one.renewedAt >= settle.renewMs) old.push(one);
      if (shouldPoll(one, this.#root, now, poll))
        (one.isOwn && now - one.takenAt < poll.recentMs ? recent : past).push(one);
    }
    if (old.length > 0) await this.#renew(old, now);
    await this.#readStatuses(recent, false);
    await this.#readStatuses(past, true);
    if (this.inFlight.settleable(performance.now()).length > 0)
      for (const settler of this.#settlers) settler.wake();
    return false;
  }

  /**
   * Renews the leases of the payments in these transactions. If the claim of a payment was lost
   * through a cancellation or an expired lease, the payment is removed from `inFlight`.
   */
  async #renew(old: readonly InFlightTransaction[], now: number): Promise<void> {
    const payments = old.flatMap(paymentsOf);
    const kept = await renewLeases(this.#context.sql, payments, LEASE_SECONDS);
    const versions = new Map(kept.map((one) => [one.id, one]));
    for (const one of old) one.renewedAt = now;
    for (const one of payments) {
      const lease = versions.get(one.id);
      if (lease !== undefined) one.row = renewed(one.row, lease);
    }
    this.#forget(payments.filter(({ id }) => !versions.has(id)));
  }

  async #readStatuses(wanted: readonly InFlightTransaction[], history: boolean): Promise<void> {
    for (const batch of chunks(wanted, STATUSES_AT_ONCE)) {
      const signatures = batch.map(({ signature }) => signature);
      const { statuses } = await this.#context.rpc.getSignatureStatuses(signatures, { history });
      const now = performance.now();
      for (const [place, one] of batch.entries()) {
        one.polledAt = now;
        this.#see(one, statuses[place] ?? null);
      }
    }
  }

  #see(one: InFlightTransaction, status: SignatureStatus | null): void {
    // With a doubted failure, the transaction counts as unseen: it is sent again and may expire.
    one.status = status?.isDoubted === true ? null : status;
    one.slot = one.status?.slot ?? null;
    if (status?.commitment !== 'finalized' || !this.inFlight.ended(one)) return;
    // The tries so far asked whether it has landed. Those to come ask for its period.
    one.settleTries = 0;
    reportTransaction(this.#context, one, status);
  }

  async #settle(): Promise<boolean> {
    const now = performance.now();
    const batch: FinalAttempt[] = [];
    for (const one of this.inFlight.settleable(now)) {
      const { status, settleTries } = one;
      if (status === null || batch.length >= SETTLED_AT_ONCE) continue;
      one.settleAt = now + this.#context.times.settle.againMs;
      batch.push(...paymentsOf(one).map((payment) => ({ ...payment, settleTries, status })));
    }
    const settle = async (some: readonly FinalAttempt[]) => {
      const ends = await this.#resolver.landed(some);
      reportSettled(this.#context, this.inFlight, ends.done);
      this.#conclude(ends);
      await this.#recheck(ends.unknown);
    };
    if (batch.length > 0) await splitBatch(batch, settle, (one, error) => this.#fault(one, error));
    return this.inFlight.settleable(performance.now()).length > 0;
  }

  /**
   * Asks all endpoints about final transactions that could not be settled. The endpoint that was
   * polled may have been wrong: if none shows a transaction as final, it is followed again.
   */
  async #recheck(unknown: readonly InFlightPayment[]): Promise<void> {
    const { rpc } = this.#context;
    if (unknown.length === 0 || rpc.endpoints() === 1) return;
    const signatures = [...new Set(unknown.map(({ attempt }) => attempt.signature))];
    const { statuses } = await rpc.getSignatureStatuses(signatures, {
      history: true,
      everywhere: true,
    });
    for (const [place, signature] of signatures.entries())
      if (statuses[place]?.commitment !== 'finalized') this.inFlight.reopen(signature);
  }

  /**
   * Settles transactions that can never land any more, and finds those that are final at another
   * endpoint than the polled one. Begins with the transactions whose last try to settle is the
   * oldest.
   */
  async #expire(): Promise<boolean> {
    const now = performance.now();
    const { send, poll, settle: times } = this.#context.times;
    if (now - this.#expiryCheckedAt < times.expiryCheckMs) return false;
    this.#expiryCheckedAt = now;
    const isLost = ({ status, isOwn, takenAt }: InFlightTransaction) =>
      status === null && (!isOwn || now - takenAt > send.resendMs);
    const open = [...this.inFlight.all()].filter(
      (one) => now >= one.settleAt && (isLost(one) || isOverdue(one, now, poll.overdueMs)),
    );
    if (open.length === 0) return false;
    open.sort((a, b) => a.settleAt - b.settleAt);
    const attempts = open.flatMap((one) => paymentsOf(one).slice(0, 1));
    const expired = await findExpired(
      this.#context.rpc,
      attempts.map(({ attempt }) => attempt),
    );
    const past = open.filter(({ signature }) => expired.has(signature)).slice(0, STATUSES_AT_ONCE);
    for (const one of past) one.settleAt = now + times.againMs;
    const batch = past.flatMap((one) =>
      paymentsOf(one).map((payment) => ({ ...payment, settleTries: one.settleTries })),
    );
    const settle = async (some: readonly PendingAttempt[]) => {
      const ends = await this.#resolver.expired(some);
      this.#conclude(ends);
      // A poll asks one endpoint, which may lack the transaction. Here every endpoint was asked.
      for (const one of past) {
        const status = ends.seen.get(one.signature);
        if (status !== undefined) this.#see(one, status);
      }
    };
    if (batch.length > 0) await splitBatch(batch, settle, (one, error) => this.#fault(one, error));
    return past.length === STATUSES_AT_ONCE;
  }

  /**
   * Removes settled payments from `inFlight`. A transaction whose outcome is unknown is settled
   * again later, after a delay that doubles with each try.
   */
  #conclude({ done, unknown, isDue }: ResolveResult): void {
    const { againMs, latestMs } = this.#context.times.settle;
    this.#forget(done);
    for (const one of new Set(unknown.map(({ id }) => this.inFlight.transactionOf(id)))) {
      if (one === undefined) continue;
      one.settleTries += 1;
      const wait = againMs * 2 ** Math.min(one.settleTries - 1, 10);
      one.settleAt = performance.now() + Math.min(latestMs, wait);
    }
    if (isDue) this.onRoom();
  }

  #fault({ id, attempt }: InFlightPayment, error: unknown): void {
    const one = this.inFlight.transactionOf(id);
    if (one !== undefined) one.settleAt = performance.now() + this.#context.times.settle.faultMs;
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

const paymentsOf = (one: InFlightTransaction | undefined) => [...(one?.payments.values() ?? [])];
