// Decides how an attempt ended, from what the chain shows: its pull has landed, it can never land,
// or its outcome stays unknown.
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { periodSeconds } from '../../chain/program/period.ts';
import { RpcError, RpcUnreachable } from '../../chain/rpc/errors.ts';
import type { Landing } from '../../chain/rpc/landing.ts';
import { unixSeconds } from '../../chain/time.ts';
import { readLandedTogether } from '../../db/money/payment-attempts.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import type { AttemptEnd } from '../../domain/collecting/attempt-end.ts';
import type { ChainView, Pull, ViewOrError } from '../../domain/collecting/chain-view.ts';
import type { Context } from '../base/context.ts';
import { asSigned, landedPull } from '../read/landed-pull.ts';
import { findPulls, partiesOf, type PullHistory, pullOfLanded } from '../read/pull-history.ts';
import type { InFlightPayment } from './in-flight.ts';

/** An attempt that is to be settled. */
export interface PendingAttempt extends InFlightPayment {
  /**
   * Number of times that the attempt could not be settled because its outcome was unknown. A
   * missing value means 0.
   */
  readonly settleTries?: number;
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
/** Seconds by which a fork may move the block of a transaction that lands again. */
export const FORK_SECONDS = 60n;

/**
 * Returns the outcome of a payment whose transaction is finalized without an error, or undefined
 * while its period is uncertain. After MAX_SETTLE_TRIES tries, if the period can no longer be
 * collected, returns `unexplained`.
 */
export async function endOfLanded(
  context: Context,
  payment: PendingAttempt,
  { view, at }: { view: ViewOrError; at: bigint | null },
): Promise<AttemptEnd | undefined> {
  const { row, settleTries = 0 } = payment;
  const pull = await pullOfLanded(context, payment, row, { view, at });
  if (pull !== undefined) return paid(context, payment, row, pull);
  if (view instanceof Error || settleTries < MAX_SETTLE_TRIES) return undefined;
  const isGone = view.subscription === null && (await isAbsent(context, row));
  return isOver(payment, row, { view, isGone }) ? { kind: 'unexplained' } : undefined;
}

/** Whether the period that the attempt was signed for can no longer be collected. */
function isOver(
  { attempt }: PendingAttempt,
  { periodHours }: KeeperSubscription,
  { view, isGone }: Pick<Unclear, 'view' | 'isGone'>,
): boolean {
  const signedFor = unixSeconds(attempt.periodStart);
  return (
    isGone ||
    view.now >= signedFor + periodSeconds(BigInt(periodHours)) ||
    (view.subscription?.periodStart ?? 0n) > signedFor
  );
}

/**
 * Returns the outcome of a landed payment. If the payment paid a later period than the signed
 * period, other pulls may have paid the periods in between, and only the history shows these pulls.
 * If the history is incomplete or cannot be read, returns undefined for the first PATIENT_TRIES
 * tries.
 */
async function paid(
  context: Context,
  { attempt, settleTries = 0 }: PendingAttempt,
  row: KeeperSubscription,
  pull: Pull,
): Promise<AttemptEnd | undefined> {
  const signedFor = unixSeconds(attempt.periodStart);
  if (pull.periodStart <= signedFor) return { kind: 'paid', pull, earlier: [] };
  const history = await findPulls(context.rpc, partiesOf(context, row), signedFor).catch(
    (error: unknown) => {
      if (error instanceof RpcError || error instanceof RpcUnreachable) return undefined;
      throw error;
    },
  );
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
export interface Unclear {
  readonly one: PendingAttempt;
  readonly row: KeeperSubscription;
  readonly view: ChainView;
  /** The registered account. Null when it is gone; another account may have replaced it. */
  readonly account: SubscriptionAccount | null;
  /** Undefined if reading the history took too long. */
  readonly history: PullHistory | undefined;
  /** Whether the subscription's address no longer has an account. */
  readonly isGone: boolean;
  /** The determined outcome of the transaction: `dead` or `unknown`. */
  readonly landing: Landing;
}

/** A transaction that has landed. */
interface Landed {
  /** Its block time in Unix seconds. Null when no RPC endpoint returns it. */
  readonly at: bigint | null;
}

/**
 * Returns the transactions that have landed, by signature: a history of one of their payments lists
 * them, or another of their payments is recorded.
 */
export async function findLanded(
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
export async function endOfUnclear(
  context: Context,
  seen: Unclear,
  landed: Landed | undefined,
): Promise<AttemptEnd | undefined> {
  const { one, row, history, landing } = seen;
  const { attempt, settleTries = 0 } = one;
  const end = history && (await endInHistory(context, seen, history, landed));
  if (end !== undefined) return end;
  const isKnown = landed !== undefined || landing.isAnswered;
  if (settleTries >= MAX_SETTLE_TRIES && isKnown && isOver(one, row, seen))
    return { kind: 'unexplained' };
  context.log.warn(
    { signature: attempt.signature, unreadable: history?.unreadable.length, tries: settleTries },
    'expired payment waits: no RPC endpoint shows whether it landed',
  );
  return undefined;
}

/**
 * Uses the account's history to find the outcome of an attempt. An attempt that has landed is paid,
 * once its period is known. Otherwise, if the transaction is dead, the attempt expired if (1) the
 * account is still in an earlier period, or (2) other pulls explain the whole amount that the
 * account counts as pulled, or the account is gone. If the account is no longer in the attempt's
 * period, the history must also be proof that the attempt did not land.
 */
async function endInHistory(
  context: Context,
  { one, row, view, account, isGone, landing }: Unclear,
  { pulls, unreadable, newestAt, oldestSlot, openedAt, hasClosing }: PullHistory,
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
  if (landing.verdict !== 'dead') return undefined;
  const signedFor = unixSeconds(attempt.periodStart);
  // A landed attempt would have moved the account to the attempt's period or a later one.
  if (account !== null && account.periodStart < signedFor) return { kind: 'expired' };
  // An account in a later period, and one that is gone or replaced, does not show whether the
  // attempt landed. A history that lacks the attempt proves that it did not land if (1) the
  // endpoints had time to list it, and (2) the history reaches back to the attempt's blockhash, or
  // to the opening of the account, which may be later than the blockhash of a first payment, and
  // (3) the history shows how an account that is gone was closed. Otherwise it lacks what landed
  // last. An account that opened FORK_SECONDS apart or less is the one that was signed for, after a
  // fork: only with the merchant's signature is one closed and opened again as soon.
  const other = view.subscription;
  const isForked =
    account === null && other?.periodStart === openedAt && isNear(openedAt, signedFor);
  const reachesBack =
    (oldestSlot !== null && oldestSlot <= attempt.blockhashSlot) ||
    (openedAt !== null && openedAt <= signedFor);
  const isWhole = isForked || (reachesBack && (account !== null || hasClosing));
  const isProof = settleTries >= PATIENT_TRIES && isWhole && landing.isProven;
  if (account?.periodStart !== signedFor && !isProof) return undefined;
  if (other === null) return isGone ? { kind: 'expired' } : undefined;
  // If a new account has replaced the old account at the subscription's address, the attempt may
  // have landed on the old account. Only a history that reaches the start of the new account can
  // show such a landing.
  const isRead = account !== null || (newestAt !== null && newestAt >= other.periodStart);
  // The account was read at the view's slot, so it does not include later pulls.
  const counted = pulls.filter(({ slot }) => slot <= view.slot);
  return isRead && explains(counted, other) ? { kind: 'expired' } : undefined;
}

/** Whether an account that opened at `openedAt` may be the one of `signedFor`, after a fork. */
function isNear(openedAt: bigint | null, signedFor: bigint): boolean {
  const apart = openedAt === null ? FORK_SECONDS : openedAt - signedFor;
  return apart < FORK_SECONDS && apart > -FORK_SECONDS;
}

export async function isAbsent({ absence }: Context, { subscriptionPda }: KeeperSubscription) {
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
