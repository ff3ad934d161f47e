// Settles attempts whose transaction has landed, failed or expired for good. Each batch is one
// database transaction.
import type { SubscriptionAccount } from '../chain/program/layouts.ts';
import { periodSeconds } from '../chain/program/period.ts';
import { createBlockTimes } from '../chain/rpc/block-times.ts';
import type { SignatureStatus } from '../chain/rpc/responses.ts';
import { timeOf, unixSeconds } from '../chain/time.ts';
import { readLandedTogether } from '../db/payment-attempts.ts';
import type { Queryable } from '../db/postgres/connect.ts';
import { type KeeperSubscription, readSubscriptions } from '../db/subscription-work.ts';
import {
  type AttemptEnd,
  failedEnd,
  isCharged,
  outcomeOf,
} from '../domain/collecting/attempt-end.ts';
import type { ChainView, Pull } from '../domain/collecting/chain-view.ts';
import { registeredAccount } from '../domain/collecting/decide.ts';
import { hasUnknownPull } from '../domain/collecting/pulls.ts';
import { rowByRow, settleRows } from '../domain/collecting/settlement.ts';
import { each } from '../each.ts';
import type { Context } from './context.ts';
import { findDead } from './dead.ts';
import type { InFlightPayment } from './in-flight.ts';
import { asSigned, landedPull } from './landed-pull.ts';
import { findPulls, partiesOf, type PullHistory, pullOfLanded } from './pull-history.ts';
import { report } from './reports.ts';
import { isReached, readSnapshot, type Snapshot } from './snapshot.ts';

/** An attempt that is to be settled. */
export interface PendingAttempt extends InFlightPayment {
  /**
   * Number of times that the attempt could not be settled because its outcome was unknown. A
   * missing value means 0.
   */
  readonly settleTries?: number;
}

/** An attempt whose transaction is finalized on chain. */
export interface FinalAttempt extends PendingAttempt {
  readonly status: SignatureStatus;
}

export interface ResolveResult {
  /** Payments that are settled or are now claimed by another keeper. */
  readonly done: InFlightPayment[];
  /**
   * Payments whose outcome is still unknown, because a transaction is unreadable or a history is
   * incomplete. Settling these payments is tried again later.
   */
  readonly unknown: InFlightPayment[];
  /** Whether a subscription of this batch is due again at once. */
  readonly isDue: boolean;
}

/**
 * If the account is no longer in the attempt's period, its history decides the outcome. An
 * endpoint's history may lack new transactions. Therefore the history is trusted only after this
 * many tries (75 s in total).
 */
const PATIENT_TRIES = 4;
/**
 * Number of failed look-ups of the history (15 minutes in total) after which an attempt may end as
 * unexplained.
 */
const MAX_SETTLE_TRIES = 8;
/** Maximum number of attempts of a batch that are looked up concurrently. */
const LOOKUPS_AT_ONCE = 16;

/** Settles attempts and reports their outcome. */
export class Resolver {
  readonly #context: Context;
  readonly #blockTimes: ReturnType<typeof createBlockTimes>;

  constructor(context: Context) {
    this.#context = context;
    this.#blockTimes = createBlockTimes(context.rpc);
  }

  /** Settles attempts whose transaction is finalized on chain, as landed or as failed. */
  async landed(batch: readonly FinalAttempt[]): Promise<ResolveResult> {
    const { log, programId } = this.#context;
    const rows = batch.map(({ row }) => row);
    const charged = new Set(
      batch
        .filter((one) => one.status.err !== null && isCharged(programId, one, one.status.err))
        .map(({ id }) => id),
    );
    const slots = new Map(batch.map(({ id, status }) => [id, status.slot]));
    const [snapshot, times] = await Promise.all([
      // For a landed payment, only the accounts that show its period are needed. For a failed
      // payment, all accounts are needed to find the reason of the failure.
      readSnapshot(this.#context, rows, {
        periodsOnly: ({ id }) => !charged.has(id),
        commitment: 'finalized',
        slotOf: ({ id }) => slots.get(id) ?? 0n,
      }),
      this.#blockTimes(batch.flatMap(({ status }) => (status.err === null ? [status.slot] : []))),
    ]);
    const ends = new Map<string, AttemptEnd>();
    await each(batch, LOOKUPS_AT_ONCE, async (one) => {
      const { row, status } = one;
      const view = snapshot.of(row);
      if (!isReached(view, status.slot)) {
        log.warn(
          { signature: one.attempt.signature, slot: status.slot.toString() },
          'final payment waits: no endpoint has finalized its slot',
        );
        return;
      }
      if (status.err !== null) {
        ends.set(one.id, failedEnd(programId, one, status.err, view));
        return;
      }
      const at = times.get(status.slot) ?? null;
      const pull = await pullOfLanded(this.#context, one, row, { view, at });
      const end = pull && (await paid(this.#context, one, row, pull));
      if (end !== undefined) ends.set(one.id, end);
      else
        log.warn(
          { signature: one.attempt.signature, tries: one.settleTries },
          'final payment waits: its transaction or the history before it is unreadable',
        );
    });
    return this.#conclude(batch, snapshot, ends);
  }

  /**
   * Settles the attempts that no endpoint has seen and that can never land any more. Attempts that
   * may still land are neither in `done` nor in `unknown`. Takes at most 256 transactions.
   */
  async expired(batch: readonly PendingAttempt[]): Promise<ResolveResult> {
    const { rpc, sql } = this.#context;
    const { dead, slot, isConfirmed } = await findDead(rpc, batch);
    if (dead.length === 0) return { done: [], unknown: [], isDue: false };
    const ids = dead.map(({ id }) => id);
    const rows = new Map((await readSubscriptions(sql, ids)).map((row) => [row.id, row]));
    const snapshot = await readSnapshot(this.#context, [...rows.values()], {
      commitment: 'finalized',
      minSlot: slot,
    });
    const ends = new Map<string, AttemptEnd>();
    const unclear: Unclear[] = [];
    await each(dead, LOOKUPS_AT_ONCE, async (one) => {
      const row = rows.get(one.id);
      if (row === undefined) return;
      const view = snapshot.of(row);
      if (view instanceof Error) return;
      const since = unixSeconds(one.attempt.periodStart);
      const account = registeredAccount(row, view.subscription);
      if (account !== null && account.periodStart <= since && !hasUnknownPull(row, account)) {
        ends.set(one.id, { kind: 'expired' });
        return;
      }
      const history = await findPulls(rpc, partiesOf(this.#context, row), since);
      // Asked at every try, because the answer of a single endpoint counts only after a while.
      const isGone = view.subscription === null && (await isAbsent(this.#context, row));
      unclear.push({ one, row, view, account, history, isGone, isConfirmed });
    });
    const landed = await findLanded(sql, unclear);
    await each(unclear, LOOKUPS_AT_ONCE, async (seen) => {
      const end = await endOfUnclear(this.#context, seen, landed.get(seen.one.attempt.signature));
      if (end !== undefined) ends.set(seen.one.id, end);
    });
    return this.#conclude(dead, snapshot, ends);
  }

  async #conclude(
    batch: readonly InFlightPayment[],
    snapshot: Snapshot,
    ends: ReadonlyMap<string, AttemptEnd>,
  ): Promise<ResolveResult> {
    const { sql, rules, deliveries, onRead } = this.#context;
    const byId = new Map(batch.map((one) => [one.id, one]));
    const settleable = batch.filter(({ id }) => ends.has(id));
    const { written, left, queued } = await settleRows(
      sql,
      settleable.map(({ row }) => row),
      {
        chainNow: timeOf(snapshot.now),
        assess: rowByRow(settleable, (row, mark) => {
          const [one, end] = [byId.get(row.id), ends.get(row.id)];
          const seen = { view: snapshot.of(row), now: snapshot.now, mark };
          return one && end && outcomeOf(rules, row, one, end, seen);
        }),
      },
    );
    deliveries.notify(queued);
    onRead(written.map(({ row, update }) => ({ ...row, ...update.state })));
    for (const { row, update, alert } of written)
      report(this.#context, update, alert, byId.get(row.id)?.attempt.signature);
    for (const [id, end] of ends) this.#reportEnd(byId.get(id), end);
    const isLeft = new Set(left);
    const isDone = ({ id }: InFlightPayment) => ends.has(id) && !isLeft.has(id);
    return {
      done: batch.filter(isDone),
      unknown: batch.filter((one) => !isDone(one)),
      isDue: [...ends.values()].some(({ kind }) => kind === 'signed_again'),
    };
  }

  #reportEnd(one: InFlightPayment | undefined, end: AttemptEnd): void {
    const { fees, metrics } = this.#context;
    if (one === undefined) return;
    if (end.kind === 'paid') fees.landed(one.id);
    if (end.kind === 'expired') {
      fees.expired({ subscription: one.id, periodStart: unixSeconds(one.attempt.periodStart) });
      metrics.payments.inc({ outcome: 'expired', source: 'keeper' });
    }
    const isOurs = end.kind === 'failed' && end.failure.kind === 'ours';
    if (isOurs && end.failure.reason === 'compute_budget') fees.exceeded();
  }
}

/**
 * Returns the outcome of a landed payment. If the payment paid a later period than the signed
 * period, other pulls may have paid the periods in between, and only the history shows these pulls.
 * If the history is incomplete, returns undefined for the first PATIENT_TRIES tries.
 */
async function paid(
  context: Context,
  { attempt, settleTries = 0 }: PendingAttempt,
  row: KeeperSubscription,
  pull: Pull,
): Promise<AttemptEnd | undefined> {
  const signedFor = unixSeconds(attempt.periodStart);
  if (pull.periodStart <= signedFor) return { kind: 'paid', pull, earlier: [] };
  const history = await findPulls(context.rpc, partiesOf(context, row), signedFor);
  const { pulls, unreadable } = history ?? { pulls: [], unreadable: [] };
  context.reportUnreadable(unreadable);
  const isOwn = ({ signature }: { signature: string }) => signature === attempt.signature;
  // An unreadable transaction may contain a pull of an earlier period only if its block time is
  // before the period of this payment or is unknown.
  const earliest = unreadable.filter(({ blockTime: at }) => at === null || at < pull.periodStart);
  const isComplete = earliest.every(isOwn) && [...pulls, ...unreadable].some(isOwn);
  if (!isComplete && settleTries < PATIENT_TRIES) return undefined;
  const earlier = pulls.filter(({ periodStart }) => periodStart < pull.periodStart).reverse();
  return { kind: 'paid', pull, earlier };
}

/**
 * An attempt whose signature no endpoint knows and whose blockhash has expired, with what the chain
 * shows about it.
 */
interface Unclear {
  readonly one: PendingAttempt;
  readonly row: KeeperSubscription;
  readonly view: ChainView;
  /** The registered account. Null when it is gone; another account may have replaced it. */
  readonly account: SubscriptionAccount | null;
  /** Undefined when reading it took too long. */
  readonly history: PullHistory | undefined;
  /** Whether there is no account at the subscription's address any more. */
  readonly isGone: boolean;
  /** Whether two endpoints, or the only one, do not know the signature. */
  readonly isConfirmed: boolean;
}

/** A transaction that has landed. */
interface Landed {
  /** Its block time in Unix seconds. Null when no RPC endpoint returns it. */
  readonly at: bigint | null;
}

/**
 * Returns the transactions that have landed, by signature: the history of any of their payments
 * lists them, or another of their payments is booked.
 */
async function findLanded(
  sql: Queryable,
  unclear: readonly Unclear[],
): Promise<ReadonlyMap<string, Landed>> {
  const attempts = unclear.map(({ one }) => one.attempt);
  const packed = attempts.filter(({ payments }) => payments > 1).map(({ id }) => id);
  const together = await readLandedTogether(sql, packed);
  const landed = new Map<string, Landed>();
  for (const { id, signature } of attempts) {
    const times = unclear.map(({ history }) => history?.listed.get(signature));
    const isListed = times.some((time) => time !== undefined);
    if (isListed || together.has(id))
      landed.set(signature, { at: times.find((time) => typeof time === 'bigint') ?? null });
  }
  return landed;
}

/**
 * Returns the outcome of an attempt, or undefined while it is uncertain. After MAX_SETTLE_TRIES
 * tries, if the period can no longer be collected, returns `unexplained`.
 */
async function endOfUnclear(
  context: Context,
  seen: Unclear,
  landed: Landed | undefined,
): Promise<AttemptEnd | undefined> {
  const { one, row, view, history, isGone, isConfirmed } = seen;
  const { attempt, settleTries = 0 } = one;
  const end = history && (await endInHistory(context, seen, history, landed));
  if (end !== undefined) return end;
  const signedFor = unixSeconds(attempt.periodStart);
  const isOver =
    isGone ||
    view.now >= signedFor + periodSeconds(BigInt(row.periodHours)) ||
    (view.subscription?.periodStart ?? 0n) > signedFor;
  if (isOver && settleTries >= MAX_SETTLE_TRIES && (landed !== undefined || isConfirmed))
    return { kind: 'unexplained' };
  context.log.warn(
    { signature: attempt.signature, unreadable: history?.unreadable.length, tries: settleTries },
    'expired payment waits: no RPC endpoint shows whether it landed',
  );
  return undefined;
}

/**
 * Uses the account's history to find the outcome of an attempt. An attempt that has landed is paid,
 * once its period is known. Otherwise the attempt expired if (1) the account is still in an earlier
 * period, or (2) other pulls explain the whole amount that the account counts as pulled, or the
 * account is gone. If the account is no longer in the attempt's period, the history must also be
 * proof that the attempt did not land.
 */
async function endInHistory(
  context: Context,
  { one, row, view, account, isGone, isConfirmed }: Unclear,
  { pulls, unreadable, newestAt, oldestSlot }: PullHistory,
  landed: Landed | undefined,
): Promise<AttemptEnd | undefined> {
  context.reportUnreadable(unreadable);
  const { attempt, settleTries = 0 } = one;
  const ownPull = pulls.find(({ signature }) => signature === attempt.signature);
  if (ownPull !== undefined) return paid(context, one, row, asSigned(ownPull, attempt));
  if (landed !== undefined) {
    const pull = landedPull(attempt, { view, account, at: landed.at });
    return pull && paid(context, one, row, pull);
  }
  const signedFor = unixSeconds(attempt.periodStart);
  // A landed attempt would have moved the account to the attempt's period or a later one.
  if (account !== null && account.periodStart < signedFor) return { kind: 'expired' };
  // An account in a later period, and one that is gone or replaced, does not show whether the
  // attempt landed. A history without the attempt is proof once the endpoints had time to list it,
  // if it reaches back to the attempt's blockhash.
  const reachesBack = oldestSlot !== null && oldestSlot <= attempt.blockhashSlot;
  const isProof = settleTries >= PATIENT_TRIES && reachesBack && isConfirmed;
  if (account?.periodStart !== signedFor && !isProof) return undefined;
  const other = view.subscription;
  if (other === null) return isGone ? { kind: 'expired' } : undefined;
  // If a new account has replaced the old account at the subscription's address, the attempt may
  // have landed on the old account. Only a history that reaches the start of the new account can
  // show such a landing.
  const isRead = account !== null || (newestAt !== null && newestAt >= other.periodStart);
  // The account was read at the view's slot, and does not count later pulls.
  const counted = pulls.filter(({ slot }) => slot <= view.slot);
  return isRead && explains(counted, other) ? { kind: 'expired' } : undefined;
}

async function isAbsent({ absence }: Context, { subscriptionPda }: KeeperSubscription) {
  return (await absence.gone([subscriptionPda])).has(subscriptionPda);
}

/**
 * Whether these pulls explain the whole amount that the account counts as pulled in its current
 * period.
 */
function explains(pulls: readonly Pull[], account: SubscriptionAccount): boolean {
  const found = pulls.reduce(
    (sum, { periodStart, gross }) => (periodStart === account.periodStart ? sum + gross : sum),
    0n,
  );
  return found >= account.amountPulled;
}
