// Settles attempts whose transaction has landed, failed or expired for good. Each batch is one
// database transaction.
import { createBlockTimes } from '../../chain/rpc/block-times.ts';
import { RpcError, RpcUnreachable } from '../../chain/rpc/errors.ts';
import type { SignatureStatus } from '../../chain/rpc/responses.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { readSubscriptions } from '../../db/subscriptions/work.ts';
import {
  type AttemptEnd,
  failedEnd,
  isCharged,
  outcomeOf,
} from '../../domain/collecting/attempt-end.ts';
import { registeredAccount } from '../../domain/collecting/decide.ts';
import { hasUnknownPull } from '../../domain/collecting/pulls.ts';
import { rowByRow, settleRows } from '../../domain/collecting/settlement.ts';
import { each } from '../../each.ts';
import type { Context } from '../base/context.ts';
import { findDead } from '../read/dead.ts';
import { findPulls, partiesOf } from '../read/pull-history.ts';
import { isReached, readSnapshot, type Snapshot } from '../read/snapshot.ts';
import {
  endOfLanded,
  endOfUnclear,
  findLanded,
  FORK_SECONDS,
  isAbsent,
  type PendingAttempt,
  type Unclear,
} from './attempt-outcome.ts';
import type { InFlightPayment } from './in-flight.ts';
import { report } from './reports.ts';

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

export interface ExpiryResult extends ResolveResult {
  /** Statuses of the transactions that an endpoint has after all, by signature. */
  readonly seen: ReadonlyMap<string, SignatureStatus>;
}

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
      const end = await endOfLanded(this.#context, one, { view, at });
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
   * Settles the unseen attempts (no endpoint has their transaction) that can never land any more.
   * Attempts that may still land, or whose history cannot be read, are neither in `done` nor in
   * `unknown`. Takes at most 256 transactions.
   */
  async expired(batch: readonly PendingAttempt[]): Promise<ExpiryResult> {
    const { rpc, sql, log } = this.#context;
    const { dead, unproven, slot, landings, seen } = await findDead(rpc, batch);
    const unseen = [...dead, ...unproven];
    if (unseen.length === 0) return { done: [], unknown: [], isDue: false, seen };
    const ids = unseen.map(({ id }) => id);
    const rows = new Map((await readSubscriptions(sql, ids)).map((row) => [row.id, row]));
    const snapshot = await readSnapshot(this.#context, [...rows.values()], {
      commitment: 'finalized',
      minSlot: slot,
    });
    const ends = new Map<string, AttemptEnd>();
    const unclear: Unclear[] = [];
    const unread = new Set<string>();
    await each(unseen, LOOKUPS_AT_ONCE, async (one) => {
      const [row, landing] = [rows.get(one.id), landings.get(one)];
      if (row === undefined || landing === undefined) return;
      const view = snapshot.of(row);
      if (view instanceof Error) return;
      const since = unixSeconds(one.attempt.periodStart);
      const account = registeredAccount(row, view.subscription);
      const isUntouched =
        account !== null && account.periodStart <= since && !hasUnknownPull(row, account);
      if (landing.verdict === 'dead' && isUntouched) {
        ends.set(one.id, { kind: 'expired' });
        return;
      }
      try {
        const from = since - FORK_SECONDS;
        const history = await findPulls(rpc, partiesOf(this.#context, row), from);
        // Checked at every try, because with one endpoint an account counts as closed only after it
        // was missing for some time (chain/rpc/absence.ts).
        const isGone = view.subscription === null && (await isAbsent(this.#context, row));
        unclear.push({ one, row, view, account, history, isGone, landing });
      } catch (error) {
        // The other attempts of the batch do not wait for the history of one address. This attempt
        // is looked up again, and the look-up does not count as a try.
        if (!(error instanceof RpcError || error instanceof RpcUnreachable)) throw error;
        unread.add(one.id);
        log.warn(
          { err: error, signature: one.attempt.signature },
          'expired payment waits: its history cannot be read',
        );
      }
    });
    const landed = await findLanded(sql, unclear);
    await each(unclear, LOOKUPS_AT_ONCE, async (found) => {
      const end = await endOfUnclear(this.#context, found, landed.get(found.one.attempt.signature));
      if (end !== undefined) ends.set(found.one.id, end);
    });
    const lookedUp = unseen.filter(({ id }) => !unread.has(id));
    return { ...(await this.#conclude(lookedUp, snapshot, ends)), seen };
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
          const attemptView = { view: snapshot.of(row), now: snapshot.now, mark };
          return one && end && outcomeOf(rules, row, one, end, attemptView);
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

  #reportEnd(payment: InFlightPayment | undefined, end: AttemptEnd): void {
    const { fees, metrics } = this.#context;
    if (payment === undefined) return;
    if (end.kind === 'paid') fees.landed(payment.id);
    if (end.kind === 'expired') {
      fees.expired({
        subscription: payment.id,
        periodStart: unixSeconds(payment.attempt.periodStart),
      });
      metrics.payments.inc({ outcome: 'expired', source: 'keeper' });
    }
    const isOurs = end.kind === 'failed' && end.failure.kind === 'ours';
    if (isOurs && end.failure.reason === 'compute_budget') fees.exceeded();
  }
}
