// Settles attempts whose end is final: landed, failed or expired. Each batch is one database transaction.
import type { SignatureStatus } from '../chain/answers.ts';
import { createBlockTimes } from '../chain/block-times.ts';
import { ChainDataError } from '../chain/layouts.ts';
import type { ReadOptions } from '../chain/rpc.ts';
import { timeOf, unixSeconds } from '../chain/time.ts';
import { type HeldSubscription, readSubscriptions } from '../db/subscriptions.ts';
import { type AttemptEnd, failedEnd, outcomeOf } from '../domain/attempt-end.ts';
import type { Pull, View } from '../domain/chain-view.ts';
import { sameInstance } from '../domain/decide.ts';
import type { OpenAttempt } from '../domain/in-flight.ts';
import { asSigned, landedPull } from '../domain/landed-pull.ts';
import { hasUnknownPull, pullsIn } from '../domain/pulls.ts';
import { settleRows } from '../domain/settlement.ts';
import { each } from '../each.ts';
import type { Fees } from './fees.ts';
import { report } from './metrics.ts';
import type { Context } from './preflight.ts';
import { findPulls, partiesOf, readListed } from './pull-history.ts';
import { readSnapshot, type Snapshot } from './snapshot.ts';

/** An attempt to settle. */
export interface Unsettled extends OpenAttempt {
  /** How often its end was unknown before, 0 unless given. */
  readonly settleTries?: number;
}

/** An attempt that is final on chain. */
export interface Landed extends Unsettled {
  readonly status: SignatureStatus;
}

/** What became of a batch. */
export interface Ends {
  /** Settled, or held by another keeper by now. */
  readonly done: OpenAttempt[];
  /** Their end is unknown as yet: a transaction is unreadable, or the history is incomplete. They are settled later. */
  readonly unknown: OpenAttempt[];
  /** Some are due again at once. */
  readonly isDue: boolean;
}

export interface Resolver {
  /** Settles attempts that are final on chain, landed or failed. */
  landed(batch: readonly Landed[]): Promise<Ends>;
  /** Settles those of some unseen attempts, of at most 256 transactions, that can never land any more. The others are in neither list. */
  expired(batch: readonly Unsettled[]): Promise<Ends>;
  /** Settles attempts whose transaction was never sent, and will not be. */
  unsent(batch: readonly OpenAttempt[]): Promise<Ends>;
}

/** Tries that a payment which landed in a later period waits for a complete history of the periods between: some five minutes. */
const PATIENT_TRIES = 6;
/** Transactions of a batch looked up at once. */
const LOOKUPS_AT_ONCE = 16;

/** Creates a resolver. `fees` learns of exceeded compute limits, `onWritten` of subscriptions as they were written. */
export function createResolver(
  context: Context,
  fees: Fees,
  onWritten: (rows: readonly HeldSubscription[]) => void = () => undefined,
): Resolver {
  const { sql, rpc, log, metrics, rules, programId } = context;
  const blockTimes = createBlockTimes(rpc);
  /**
   * What a landed transaction moved: from the account where that is certain, else from the transaction's events, and where no endpoint returns the
   * transaction, from its block time. Undefined while none of them shows it.
   */
  async function pullOf(
    one: Landed,
    row: HeldSubscription,
    view: View,
    times: ReadonlyMap<bigint, bigint>,
  ): Promise<Pull | undefined> {
    const { attempt, status, periodEnd } = one;
    const at = times.get(status.slot) ?? null;
    const account = view instanceof Error ? null : sameInstance(row, view.subscription);
    const seen = { view, account, at };
    if (periodEnd !== null) {
      const pull = landedPull(attempt, seen, periodEnd);
      if (pull !== undefined) return pull;
    }
    const found = await readListed(rpc, attempt.signature);
    try {
      const pull = 'unreadable' in found ? undefined : pullsIn(found, partiesOf(context, row))[0];
      if (pull !== undefined) return asSigned(pull, attempt);
    } catch (error) {
      if (!(error instanceof ChainDataError)) throw error;
    }
    const unreadable = 'unreadable' in found ? found.unreadable : 'undecodable';
    context.reportUnreadable([{ signature: attempt.signature, unreadable }]);
    return landedPull(attempt, seen);
  }

  /** For a landed payment only the period matters; a failure needs the other accounts too. */
  async function readAfter(
    batch: readonly Landed[],
    rows: ReadonlyMap<string, HeldSubscription>,
    options: ReadOptions,
  ): Promise<Snapshot> {
    const failed = new Set(batch.flatMap(({ id, status }) => (status.err === null ? [] : [id])));
    const some = [...rows.values()].filter(({ id }) => failed.has(id));
    const others = [...rows.values()].filter(({ id }) => !failed.has(id));
    if (some.length === 0) return readSnapshot(context, others, { ...options, periodsOnly: true });
    if (others.length === 0) return readSnapshot(context, some, options);
    const [all, periods] = await Promise.all([
      readSnapshot(context, some, options),
      readSnapshot(context, others, { ...options, periodsOnly: true }),
    ]);
    return {
      ...(all.now < periods.now ? all : periods),
      of: (row) => (failed.has(row.id) ? all : periods).of(row),
    };
  }

  /**
   * The end of a payment that landed. If it landed in a later period than it was signed for, others may have pulled the periods between, which only
   * the history shows. Undefined while that history is incomplete, for a limited number of tries.
   */
  async function paid(
    { attempt, settleTries = 0 }: Unsettled,
    row: HeldSubscription,
    pull: Pull,
  ): Promise<AttemptEnd | undefined> {
    const signedFor = unixSeconds(attempt.periodStart);
    if (pull.periodStart <= signedFor) return { kind: 'paid', pull, earlier: [] };
    const { pulls, unreadable } = (await findPulls(rpc, partiesOf(context, row), signedFor)) ?? {
      pulls: [],
      unreadable: [],
    };
    context.reportUnreadable(unreadable);
    const isOwn = ({ signature }: { signature: string }) => signature === attempt.signature;
    // A transaction of the period in which this payment landed pulled nothing of a period before.
    const earliest = unreadable.filter(({ blockTime: at }) => at === null || at < pull.periodStart);
    const isComplete = earliest.every(isOwn) && [...pulls, ...unreadable].some(isOwn);
    if (!isComplete && settleTries < PATIENT_TRIES) return undefined;
    const earlier = pulls.filter(({ periodStart }) => periodStart < pull.periodStart).reverse();
    return { kind: 'paid', pull, earlier };
  }

  async function conclude(
    batch: readonly OpenAttempt[],
    snapshot: Pick<Snapshot, 'now' | 'of'>,
    ends: ReadonlyMap<string, AttemptEnd>,
  ): Promise<Ends> {
    const byId = new Map(batch.map((one) => [one.id, one]));
    const { written, left, queued } = await settleRows(
      sql,
      batch.filter(({ id }) => ends.has(id)),
      timeOf(snapshot.now),
      (row, isRecorded) => {
        const [one, end] = [byId.get(row.id), ends.get(row.id)];
        const seen = { view: snapshot.of(row), now: snapshot.now, isRecorded };
        return one && end && outcomeOf(rules, row, one, end, seen);
      },
    );
    context.deliveries.notify(queued);
    onWritten(written.map(({ row, draft }) => ({ ...row, ...draft.state })));
    for (const { draft, alert } of written) report(context, draft, alert);
    for (const [id, end] of ends) tellOf(byId.get(id), end);
    const isLeft = new Set(left.map(({ id }) => id));
    return {
      done: batch.filter(({ id }) => ends.has(id) && !isLeft.has(id)),
      unknown: batch.filter(({ id }) => !ends.has(id) || isLeft.has(id)),
      isDue: [...ends.values()].some(({ kind }) => kind === 'spared' || kind === 'unsent'),
    };
  }

  function tellOf(one: OpenAttempt | undefined, end: AttemptEnd): void {
    if (one === undefined) return;
    if (end.kind === 'paid') fees.landed(one.id);
    if (end.kind === 'expired') {
      fees.expired(one.id);
      metrics.payments.inc({ outcome: 'expired', source: 'keeper' });
    }
    const isOurs = end.kind === 'failed' && end.failure.kind === 'ours';
    if (isOurs && end.failure.reason === 'compute_budget') fees.exceeded();
  }

  return {
    async landed(batch) {
      const rows = new Map(batch.map(({ row }) => [row.id, row]));
      const minSlot = batch.reduce(
        (highest, { status }) => (status.slot > highest ? status.slot : highest),
        0n,
      );
      const [snapshot, times] = await Promise.all([
        readAfter(batch, rows, { commitment: 'finalized', minSlot }),
        blockTimes(batch.flatMap(({ status }) => (status.err === null ? [status.slot] : []))),
      ]);
      const ends = new Map<string, AttemptEnd>();
      await each(batch, LOOKUPS_AT_ONCE, async (one) => {
        const { row } = one;
        const view = snapshot.of(row);
        if (one.status.err === null) {
          const pull = await pullOf(one, row, view, times);
          const end = pull && (await paid(one, row, pull));
          if (end === undefined)
            log.warn(
              { signature: one.attempt.signature, tries: one.settleTries },
              'final payment waits: its transaction or the history before it is unreadable',
            );
          else ends.set(one.id, end);
          return;
        }
        ends.set(one.id, failedEnd(programId, one, one.status.err, view));
      });
      return conclude(batch, snapshot, ends);
    },

    async expired(batch) {
      // Order matters: first the finalized height, after which these cannot land, then their signatures.
      const { slot, blockHeight } = await rpc.getHeight({ commitment: 'finalized' });
      const past = batch.filter(({ attempt }) => attempt.lastValidBlockHeight < blockHeight);
      if (past.length === 0) return { done: [], unknown: [], isDue: false };
      const signatures = [...new Set(past.map(({ attempt }) => attempt.signature))];
      const { statuses } = await rpc.getSignatureStatuses(signatures, {
        history: true,
        everywhere: true,
        minSlot: slot,
      });
      const seen = new Set(signatures.filter((_, place) => statuses[place] !== null));
      const unknown = past.filter(({ attempt }) => !seen.has(attempt.signature));
      if (unknown.length === 0) return { done: [], unknown: [], isDue: false };
      const rows = new Map(
        (
          await readSubscriptions(
            sql,
            unknown.map(({ id }) => id),
          )
        ).map((row) => [row.id, row]),
      );
      const snapshot = await readSnapshot(context, [...rows.values()], {
        commitment: 'finalized',
        minSlot: slot,
      });
      const ends = new Map<string, AttemptEnd>();
      await each(unknown, LOOKUPS_AT_ONCE, async (one) => {
        const row = rows.get(one.id);
        const end = row && (await endOfUnknown(one, row, snapshot.of(row)));
        if (end !== undefined) ends.set(one.id, end);
      });
      return conclude(unknown, snapshot, ends);
    },

    async unsent(batch) {
      const { unixTimestamp: now } = await rpc.getClock();
      const unread = new ChainDataError('not read');
      const ends = batch.map(({ id }): [string, AttemptEnd] => [id, { kind: 'unsent' }]);
      return conclude(batch, { now, of: () => unread }, new Map(ends));
    },
  };

  /**
   * The end of an attempt whose signature no endpoint knows, after its blockhash has expired. Expired when the account shows that nothing was pulled, or
   * when others pulled all that it shows; landed when any endpoint's history lists it. Undefined while neither is certain.
   */
  async function endOfUnknown(
    one: Unsettled,
    row: HeldSubscription,
    view: View,
  ): Promise<AttemptEnd | undefined> {
    if (view instanceof Error) return undefined;
    const { attempt } = one;
    const signedFor = unixSeconds(attempt.periodStart);
    const account = sameInstance(row, view.subscription);
    if (account !== null && !hasUnknownPull(row, account)) return { kind: 'expired' };
    const history = await findPulls(rpc, partiesOf(context, row), signedFor);
    if (history === undefined) return undefined;
    context.reportUnreadable(history.unreadable);
    const { pulls, unreadable } = history;
    const isOwn = ({ signature }: { signature: string }) => signature === attempt.signature;
    const ours = pulls.find(isOwn);
    if (ours !== undefined) return paid(one, row, asSigned(ours, attempt));
    const unread = unreadable.find(isOwn);
    if (unread !== undefined) {
      const pull = landedPull(attempt, { view, account, at: unread.blockTime });
      return pull && paid(one, row, pull);
    }
    // An account that counts an earlier period shows that the attempt did not land: it would have moved the account on.
    const { subscriptionPda: pda } = row;
    if (account === null)
      return (await context.absence.gone([pda])).has(pda) ? { kind: 'expired' } : undefined;
    if (account.periodStart < signedFor) return { kind: 'expired' };
    const explained = pulls.reduce(
      (sum, { periodStart, gross }) => (periodStart === account.periodStart ? sum + gross : sum),
      0n,
    );
    const isExplained =
      unreadable.length === 0 ? pulls.length > 0 : explained >= account.amountPulled;
    if (isExplained) return { kind: 'expired' };
    log.warn(
      { signature: attempt.signature, unreadable: unreadable.length },
      'expired payment waits: the account shows a pull that no RPC endpoint explains',
    );
    return undefined;
  }
}
