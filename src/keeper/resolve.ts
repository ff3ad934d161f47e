// Settles attempts whose end is final: landed, failed or expired. Each batch is one database transaction.
import { newestSlot, type SignatureStatus } from '../chain/answers.ts';
import { createBlockTimes } from '../chain/block-times.ts';
import type { Fees } from '../chain/fees.ts';
import { ChainDataError, type SubscriptionAccount } from '../chain/layouts.ts';
import { timeOf, unixSeconds } from '../chain/time.ts';
import { type HeldSubscription, readSubscriptions } from '../db/subscriptions.ts';
import { type AttemptEnd, failedEnd, isCharged, outcomeOf } from '../domain/attempt-end.ts';
import type { Pull, View } from '../domain/chain-view.ts';
import { sameInstance } from '../domain/decide.ts';
import type { OpenAttempt } from '../domain/in-flight.ts';
import { asSigned, landedPull } from '../domain/landed-pull.ts';
import { hasUnknownPull } from '../domain/pulls.ts';
import { settleRows } from '../domain/settlement.ts';
import { each } from '../each.ts';
import type { Context } from './preflight.ts';
import { findPulls, partiesOf, type PullHistory, pullOfLanded } from './pull-history.ts';
import { report } from './reports.ts';
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

/** Tries that a payment which landed in a later period waits for a complete history of the periods between: 75 s. */
const PATIENT_TRIES = 4;
/** Transactions of a batch looked up at once. */
const LOOKUPS_AT_ONCE = 16;

/** What settling needs. */
interface Parts {
  readonly context: Context;
  /** Learns of expired and landed payments, and of exceeded compute limits. */
  readonly fees: Fees;
  /** Gets subscriptions as they were written. */
  readonly onWritten: (rows: readonly HeldSubscription[]) => void;
  readonly blockTimes: ReturnType<typeof createBlockTimes>;
}

/** Creates a resolver. `fees` learns of exceeded compute limits, `onWritten` of subscriptions as they were written. */
export function createResolver(
  context: Context,
  fees: Fees,
  onWritten: (rows: readonly HeldSubscription[]) => void = () => undefined,
): Resolver {
  const blockTimes = createBlockTimes(context.rpc);
  const parts = { context, fees, onWritten, blockTimes };
  return {
    landed: (batch) => settleLanded(parts, batch),
    expired: (batch) => settleExpired(parts, batch),
    unsent: (batch) => settleUnsent(parts, batch),
  };
}

async function settleLanded(parts: Parts, batch: readonly Landed[]): Promise<Ends> {
  const { context } = parts;
  const { log, programId } = context;
  const rows = batch.map(({ row }) => row);
  const charged = new Set(
    batch
      .filter((one) => one.status.err !== null && isCharged(programId, one, one.status.err))
      .map(({ id }) => id),
  );
  const minSlot = newestSlot(batch.map(({ status }) => status.slot));
  const [snapshot, times] = await Promise.all([
    // For a landed payment only the period matters; the one that failed needs the other accounts too.
    readSnapshot(context, rows, {
      periodsOnly: ({ id }) => !charged.has(id),
      commitment: 'finalized',
      minSlot,
    }),
    parts.blockTimes(batch.flatMap(({ status }) => (status.err === null ? [status.slot] : []))),
  ]);
  const ends = new Map<string, AttemptEnd>();
  await each(batch, LOOKUPS_AT_ONCE, async (one) => {
    const { row } = one;
    const view = snapshot.of(row);
    if (one.status.err === null) {
      const at = times.get(one.status.slot) ?? null;
      const pull = await pullOfLanded(context, one, row, { view, at });
      const end = pull && (await paid(context, one, row, pull));
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
  return conclude(parts, batch, snapshot, ends);
}

/**
 * The end of a payment that landed. If it landed in a later period than it was signed for, others may have pulled the periods between, which only
 * the history shows. Undefined while that history is incomplete, for a limited number of tries.
 */
async function paid(
  context: Context,
  { attempt, settleTries = 0 }: Unsettled,
  row: HeldSubscription,
  pull: Pull,
): Promise<AttemptEnd | undefined> {
  const signedFor = unixSeconds(attempt.periodStart);
  if (pull.periodStart <= signedFor) return { kind: 'paid', pull, earlier: [] };
  const history = await findPulls(context.rpc, partiesOf(context, row), signedFor);
  const { pulls, unreadable } = history ?? { pulls: [], unreadable: [] };
  context.reportUnreadable(unreadable);
  const isOwn = ({ signature }: { signature: string }) => signature === attempt.signature;
  // A transaction of the period in which this payment landed pulled nothing of a period before.
  const earliest = unreadable.filter(({ blockTime: at }) => at === null || at < pull.periodStart);
  const isComplete = earliest.every(isOwn) && [...pulls, ...unreadable].some(isOwn);
  if (!isComplete && settleTries < PATIENT_TRIES) return undefined;
  const earlier = pulls.filter(({ periodStart }) => periodStart < pull.periodStart).reverse();
  return { kind: 'paid', pull, earlier };
}

async function settleExpired(parts: Parts, batch: readonly Unsettled[]): Promise<Ends> {
  const { context } = parts;
  const { rpc, sql } = context;
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
  const ids = unknown.map(({ id }) => id);
  const rows = new Map((await readSubscriptions(sql, ids)).map((row) => [row.id, row]));
  const snapshot = await readSnapshot(context, [...rows.values()], {
    commitment: 'finalized',
    minSlot: slot,
  });
  const ends = new Map<string, AttemptEnd>();
  await each(unknown, LOOKUPS_AT_ONCE, async (one) => {
    const row = rows.get(one.id);
    const end = row && (await endOfUnknown(context, one, row, snapshot.of(row)));
    if (end !== undefined) ends.set(one.id, end);
  });
  return conclude(parts, unknown, snapshot, ends);
}

/**
 * The end of an attempt whose signature no endpoint knows, after its blockhash has expired. Expired when the account shows that nothing was pulled, when
 * others pulled all that it shows, or when the account is gone; landed when any endpoint's history lists it. Undefined while neither is certain.
 */
async function endOfUnknown(
  context: Context,
  one: Unsettled,
  row: HeldSubscription,
  view: View,
): Promise<AttemptEnd | undefined> {
  if (view instanceof Error) return undefined;
  const { attempt } = one;
  const signedFor = unixSeconds(attempt.periodStart);
  const account = sameInstance(row, view.subscription);
  if (account !== null && !hasUnknownPull(row, account)) return { kind: 'expired' };
  const history = await findPulls(context.rpc, partiesOf(context, row), signedFor);
  if (history === undefined) return undefined;
  context.reportUnreadable(history.unreadable);
  const { pulls, unreadable } = history;
  const isOwn = ({ signature }: { signature: string }) => signature === attempt.signature;
  const ours = pulls.find(isOwn);
  if (ours !== undefined) return paid(context, one, row, asSigned(ours, attempt));
  const unread = unreadable.find(isOwn);
  if (unread !== undefined) {
    const pull = landedPull(attempt, { view, account, at: unread.blockTime });
    return pull && paid(context, one, row, pull);
  }
  // An account that counts an earlier period shows that the attempt did not land: it would have moved the account on.
  if (account === null)
    return (await isOver(context, row, view.subscription, history))
      ? { kind: 'expired' }
      : undefined;
  if (account.periodStart < signedFor) return { kind: 'expired' };
  const explained = pulls.reduce(
    (sum, { periodStart, gross }) => (periodStart === account.periodStart ? sum + gross : sum),
    0n,
  );
  const isExplained =
    unreadable.length === 0 ? pulls.length > 0 : explained >= account.amountPulled;
  if (isExplained) return { kind: 'expired' };
  context.log.warn(
    { signature: attempt.signature, unreadable: unreadable.length },
    'expired payment waits: the account shows a pull that no RPC endpoint explains',
  );
  return undefined;
}

/**
 * Whether the account of an attempt is gone for sure. A new one in its place shows that by itself, but the history has to reach up to the new one: the
 * attempt could only land before.
 */
async function isOver(
  { absence }: Context,
  { subscriptionPda: pda }: HeldSubscription,
  other: SubscriptionAccount | null,
  { newestAt }: PullHistory,
): Promise<boolean> {
  if (other !== null) return newestAt !== null && newestAt >= other.periodStart;
  return (await absence.gone([pda])).has(pda);
}

async function settleUnsent(parts: Parts, batch: readonly OpenAttempt[]): Promise<Ends> {
  const { unixTimestamp: now } = await parts.context.rpc.getClock();
  const unread = new ChainDataError('not read');
  const ends = batch.map(({ id }): [string, AttemptEnd] => [id, { kind: 'unsent' }]);
  return conclude(parts, batch, { now, of: () => unread }, new Map(ends));
}

async function conclude(
  parts: Parts,
  batch: readonly OpenAttempt[],
  snapshot: Pick<Snapshot, 'now' | 'of'>,
  ends: ReadonlyMap<string, AttemptEnd>,
): Promise<Ends> {
  const { context, onWritten } = parts;
  const byId = new Map(batch.map((one) => [one.id, one]));
  const { written, left, queued } = await settleRows(
    context.sql,
    batch.filter(({ id }) => ends.has(id)),
    timeOf(snapshot.now),
    (row, isRecorded) => {
      const [one, end] = [byId.get(row.id), ends.get(row.id)];
      const seen = { view: snapshot.of(row), now: snapshot.now, isRecorded };
      return one && end && outcomeOf(context.rules, row, one, end, seen);
    },
  );
  context.deliveries.notify(queued);
  onWritten(written.map(({ row, draft }) => ({ ...row, ...draft.state })));
  for (const { draft, alert } of written) report(context, draft, alert);
  for (const [id, end] of ends) tell(parts, byId.get(id), end);
  const isLeft = new Set(left.map(({ id }) => id));
  return {
    done: batch.filter(({ id }) => ends.has(id) && !isLeft.has(id)),
    unknown: batch.filter(({ id }) => !ends.has(id) || isLeft.has(id)),
    isDue: [...ends.values()].some(({ kind }) => kind === 'spared' || kind === 'unsent'),
  };
}

function tell(
  { fees, context: { metrics } }: Parts,
  one: OpenAttempt | undefined,
  end: AttemptEnd,
): void {
  if (one === undefined) return;
  if (end.kind === 'paid') fees.landed(one.id);
  if (end.kind === 'expired') {
    fees.expired({ subscription: one.id, periodStart: unixSeconds(one.attempt.periodStart) });
    metrics.payments.inc({ outcome: 'expired', source: 'keeper' });
  }
  const isOurs = end.kind === 'failed' && end.failure.kind === 'ours';
  if (isOurs && end.failure.reason === 'compute_budget') fees.exceeded();
}
