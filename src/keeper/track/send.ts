// Sends signed transactions. Right before each send, the subscription rows of its payments are
// read. If a subscription was cancelled or another keeper claimed it, nothing is sent. The
// transaction stays open until its blockhash expires, because an earlier send may still land.
import { setTimeout as pause } from 'node:timers/promises';
import { RpcError, RpcUnreachable } from '../../chain/rpc/errors.ts';
import { markSent } from '../../chain/rpc/follow.ts';
import { newestSlot } from '../../chain/rpc/responses.ts';
import { timeOf } from '../../chain/time.ts';
import {
  type KeeperSubscription,
  readCollectable,
  readSubscriptions,
} from '../../db/subscriptions/work.ts';
import type { ChainView } from '../../domain/collecting/chain-view.ts';
import { registeredAccount } from '../../domain/collecting/decide.ts';
import { rowByRow, settleRows } from '../../domain/collecting/settlement.ts';
import { applyCancelSeen, updateOf, isLive } from '../../domain/collecting/transitions.ts';
import { isInterrupted } from '../../domain/invoices/closing.ts';
import type { Context } from '../base/context.ts';
import { isReached, readSnapshot } from '../read/snapshot.ts';
import type { Tracked } from './follower.ts';
import type { InFlightTransaction, InFlightPayment } from './in-flight.ts';

/** Maximum number of transactions that are checked and sent together. */
export const SENT_AT_ONCE = 64;
const CHECKS = 3;

/**
 * Sends each transaction once if it may be sent. If a transaction could not be sent in time, its
 * `sentAt` is set to -Infinity, so that a later call sends it. Throws when the chain or the
 * database cannot be reached.
 */
export async function sendAll(
  context: Context,
  ready: readonly InFlightTransaction[],
): Promise<void> {
  let left = ready;
  for (let tries = 0; left.length > 0 && tries < CHECKS; tries += 1) {
    const checkedAt = performance.now();
    const counts = await notificationCounts(context, left);
    const verdicts = left.map((one) => ({ one, verdict: verdictOf(one, counts) }));
    const allowed = verdicts.filter(({ verdict }) => verdict === 'send').map(({ one }) => one);
    const unread = verdicts.filter(({ verdict }) => verdict === 'read').map(({ one }) => one);
    // If Postgres responded slowly, the rows are too old for a send, so the loop reads them again.
    const withinMs = context.times.send.checkedMs - (performance.now() - checkedAt);
    const isFresh = withinMs > 0;
    if (isFresh) await sendRound(context, allowed, checkedAt);
    if (unread.length > 0) await recheck(context, unread);
    left = isFresh ? unread : [...allowed, ...unread];
  }
  for (const one of left) one.sentAt = -Infinity;
}

/**
 * Returns the counter `notices` of each subscription by id. The result omits a subscription if this
 * keeper has lost its claim, or if nothing may be collected from it any more.
 */
async function notificationCounts(
  { sql }: Context,
  some: readonly InFlightTransaction[],
): Promise<Map<string, number>> {
  const payments = some.flatMap((one) => [...one.payments.values()]);
  const rows = await readCollectable(sql, payments);
  return new Map(rows.map(({ id, notices }) => [id, notices]));
}

/**
 * Decides whether a transaction may be sent. `stop`: a subscription was cancelled, another keeper
 * claimed a payment, or the last read of the chain forbids a payment. `read`: the chain must be
 * read first, because a subscription has changed or another process signed the transaction.
 */
function verdictOf(
  { payments, size }: InFlightTransaction,
  notices: ReadonlyMap<string, number>,
): 'send' | 'read' | 'stop' {
  const all = [...payments.values()];
  if (all.length < size || all.some(({ id }) => !notices.has(id))) return 'stop';
  if (all.some(({ id, checked }) => notices.get(id) !== checked)) return 'read';
  return all.some(({ isStopped }) => isStopped) ? 'stop' : 'send';
}

async function sendRound(
  context: Context,
  some: readonly InFlightTransaction[],
  checkedAt: number,
): Promise<void> {
  if (some.length === 0) return;
  const { checkedMs, roundMs } = context.times.send;
  const sends = some.map(async (one) => {
    const withinMs = checkedMs - (performance.now() - checkedAt);
    const error = withinMs > 0 ? await sendOnce(context, one, { withinMs }) : undefined;
    if (withinMs <= 0) one.sentAt = -Infinity;
    if (error instanceof RpcError) context.versions.refused(error);
  });
  await Promise.race([Promise.all(sends), pause(roundMs, undefined, { ref: false })]);
}

/**
 * Sends a transaction. Returns the error if the send failed. Even then the transaction may have
 * reached the network, which only its status shows. It is sent again later.
 */
export async function sendOnce(
  { rpc, log, metrics }: Context,
  transaction: Pick<Tracked, 'signature' | 'bytes' | 'sends' | 'sentAt'>,
  options: { withinMs?: number } = {},
): Promise<RpcError | RpcUnreachable | undefined> {
  markSent(transaction);
  try {
    await rpc.sendTransaction(transaction.bytes, options);
    metrics.sends.inc({ outcome: transaction.sends === 1 ? 'first' : 'again' });
    return undefined;
  } catch (error) {
    metrics.sends.inc({ outcome: 'failed' });
    const { signature } = transaction;
    if (error instanceof RpcError)
      log.warn({ signature, reason: error.message }, 'RPC endpoint refused a transaction');
    else if (!(error instanceof RpcUnreachable)) throw error;
    // All endpoints were at their rate limit or out of connections, so the transaction was not
    // sent. The next round sends it.
    else if (error.failures.every(({ fault }) => fault === 'rate_limited' || fault === 'busy'))
      transaction.sentAt = -Infinity;
    return error;
  }
}

/**
 * Whether a payment may still be sent. The on-chain subscription must be the registered account and
 * not cancelled, and the subscription not paused since the invoice was drawn up.
 */
function mayBeSent(
  { attempt: { invoice } }: InFlightPayment,
  row: KeeperSubscription,
  view: ChainView | Error,
): boolean {
  if (view instanceof Error) return false;
  if (isInterrupted(row, invoice)) return false;
  return registeredAccount(row, view.subscription)?.expiresAt === 0n;
}

/**
 * Reads the chain again and marks which of these payments may be sent. If a subscription was
 * cancelled on chain, the cancellation is recorded and the payment is not sent, although the
 * program would allow the pull until the period ends. Throws RpcUnreachable or RpcError.
 */
async function recheck(
  context: Context,
  transactions: readonly InFlightTransaction[],
): Promise<void> {
  const payments = new Map<string, InFlightPayment>(
    transactions.flatMap((one) => [...one.payments]),
  );
  const rows = await readSubscriptions(context.sql, [...payments.keys()]);
  // The accounts must be at least as new as the accounts from which the payments were decided.
  const slotOf = ({ id, observedSlot }: KeeperSubscription) =>
    newestSlot([observedSlot, payments.get(id)?.row.observedSlot ?? 0n]);
  const snapshot = await readSnapshot(context, rows, { commitment: 'confirmed', slotOf });
  // If no endpoint has reached the slot of a row, the accounts of this row are read again before
  // the next send.
  const read = rows.filter((row) => isReached(snapshot.of(row), slotOf(row)));
  for (const row of read) {
    const payment = payments.get(row.id);
    if (payment === undefined) continue;
    payment.checked = row.notices;
    payment.isStopped = !mayBeSent(payment, row, snapshot.of(row));
  }
  const cancelled = read.filter(
    (row) => payments.has(row.id) && isCancelled(row, snapshot.of(row)),
  );
  if (cancelled.length === 0) return;
  const { queued } = await settleRows(context.sql, cancelled, {
    chainNow: timeOf(snapshot.now),
    assess: rowByRow([...payments.values()], (row) => {
      if (!isLive(row) || row.cancelRequestedAt !== null || row.observedSlot > snapshot.slot)
        return undefined;
      const update = updateOf(row);
      applyCancelSeen(update, snapshot.now);
      update.state.observedSlot = snapshot.slot;
      return { update, keepsLease: true };
    }),
  });
  context.deliveries.notify(queued);
}

function isCancelled(row: KeeperSubscription, view: ChainView | Error): boolean {
  if (view instanceof Error) return false;
  const account = registeredAccount(row, view.subscription);
  return account !== null && account.expiresAt !== 0n;
}
