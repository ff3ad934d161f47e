// If an earlier attempt for the same period failed on chain, the payment is simulated before it is
// committed. If the simulation fails, the payment is not sent, which saves the network fee.
import {
  classifyPullError,
  describeTransactionError,
  type SubscriberReason,
} from '../../chain/program/errors.ts';
import { RpcError, RpcUnreachable } from '../../chain/rpc/errors.ts';
import { transferPlaces } from '../../chain/transactions/collection.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import { registeredAccount } from '../../domain/collecting/decide.ts';
import type { Collectable, Decision } from '../../domain/collecting/decision.ts';
import { refuse } from '../../domain/collecting/refusal.ts';
import { each } from '../../each.ts';
import type { Context } from '../base/context.ts';
import type { Snapshot } from '../read/snapshot.ts';

const AT_ONCE = 8;

interface Decided<Row> {
  readonly row: Row;
  readonly decision: Decision;
}

/**
 * Simulates each payment whose period already has a payment that failed on chain because of the
 * subscriber (`isDoubted`). If the payment fails in the simulation or cannot be simulated, replaces
 * its decision by a decision that does not collect. Returns the decisions of all rows, also of the
 * rows without a simulation. `signed` has the signed transactions by subscription id.
 */
export async function afterSimulation<Row extends KeeperSubscription>(
  context: Context,
  decided: readonly Decided<Row>[],
  snapshot: Snapshot,
  signed: ReadonlyMap<string, { readonly transaction: Uint8Array }> | undefined,
): Promise<Decided<Row>[]> {
  const refused = new Map<Row, Decision>();
  const doubted = decided.filter(({ decision }) => decision.collect?.isDoubted === true);
  await each(doubted, AT_ONCE, async ({ row, decision: { update, collect, alert } }) => {
    const view = snapshot.of(row);
    const account = view instanceof Error ? null : registeredAccount(row, view.subscription);
    const bytes = signed?.get(row.id)?.transaction;
    if (!collect || !bytes || view instanceof Error || account === null) return;
    const reason = await simulate(context, { row, collect, bytes }, view.slot);
    if (reason === undefined) return;
    const again = refuse({ update, collect, reason }, view, account, context.rules);
    refused.set(row, { ...again, ...(alert && { alert }) });
  });
  return decided.map(({ row, decision }) => ({ row, decision: refused.get(row) ?? decision }));
}

/**
 * Simulates a payment on the chain state at `minSlot` or later. Resolves with (1) undefined when
 * the payment would succeed, (2) a reason when the payment would fail because of the subscriber,
 * and (3) null when the payment would fail for another reason or could not be simulated.
 */
async function simulate(
  { rpc, programId, versions, log }: Context,
  { row, collect, bytes }: { row: KeeperSubscription; collect: Collectable; bytes: Uint8Array },
  minSlot: bigint,
): Promise<SubscriberReason | null | undefined> {
  try {
    // Commitment `processed` includes the subscriber's newest transactions, which decide whether
    // the payment succeeds.
    const { err, logs } = await rpc.simulateTransaction(bytes, {
      commitment: 'processed',
      minSlot,
    });
    if (err === null) return undefined;
    const failure = classifyPullError(err, {
      layout: { pulls: transferPlaces(bytes, programId, row.subscriptionPda) },
      logs,
      gross: collect.amounts.gross,
      // The simulation does not return the subscriber's token account. If only that account shows
      // the reason of the failure, the keeper finds the reason when it next reads the accounts.
      subscriberAccount: undefined,
    });
    if (failure.kind === 'subscriber') return failure.reason;
    const error = describeTransactionError(err);
    log.warn({ subscription: row.id, error }, 'payment not sent: its simulation failed');
  } catch (error) {
    if (error instanceof RpcError) versions.refused(error);
    else if (!(error instanceof RpcUnreachable)) throw error;
    log.warn({ err: error, subscription: row.id }, 'payment not sent: it was not simulated');
  }
  return null;
}
