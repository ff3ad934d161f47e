// Compares recorded payments with on-chain transactions, for `billing reconcile`.
import { programEvents } from '../../chain/program/events.ts';
import { ChainDataError } from '../../chain/program/layouts.ts';
import type { ConfirmedTransaction, UnreadableTransaction } from '../../chain/rpc/responses.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { RecordedPayment } from '../../db/operating/reconciliation.ts';
import type { Pull } from './chain-view.ts';
import { pullsIn, type PullParties } from './transaction-pulls.ts';

export interface Difference {
  kind:
    | 'not_on_chain'
    | 'failed_on_chain'
    | 'other_amounts'
    | 'other_period'
    /** A payment that a keeper or another puller collected is missing in the database. */
    | 'not_recorded'
    /**
     * A keeper's on-chain payment is missing in the database, and another payment has paid the same
     * period. The subscriber was charged twice.
     */
    | 'charged_twice'
    /**
     * A keeper's on-chain payment is missing in the database. Its subscription has ended, and no
     * attempt of the payment was committed before the end. The database may have lost a newer
     * registration of the account.
     */
    | 'after_end'
    | 'no_subscription'
    /** No RPC history shows how an attempt ended, so its payment may be missing in the database. */
    | 'unexplained'
    /** The credit of a customer does not add up (listCreditFaults). */
    | 'credits_differ'
    /** The journal has other sums of a transaction than the chain (reconcile/journal.ts). */
    | 'journal_differs'
    /** A refund is recorded, but the chain has no such transfer. */
    | 'refund_not_on_chain'
    /** The recorded transfer of a refund moved more than was left of its payment. */
    | 'refund_excess'
    /** A payment's refunded sum in the database differs from the sum of its refunds. */
    | 'refunds_differ'
    /** The sums of a day in an app's statement differ from the sums on chain. */
    | 'statement_differs'
    /** No RPC endpoint returns the transaction in a readable form, so nothing could be compared. */
    | 'unreadable';
  /** Signature of the transaction. Empty for `credits_differ` and `statement_differs`. */
  signature: string;
  /** Address of the on-chain subscription. Empty when it is unknown. */
  subscriptionPda: string;
  /** The values in the database and on chain, as text. */
  detail: string;
  /** Whether `billing reconcile` has corrected the database. */
  repaired: boolean;
}

/** A payment that a keeper or another puller collected on chain. */
export interface PlanPull {
  subscriptionPda: string;
  planPda: string;
  pull: Pull;
}

/**
 * Returns the payments that were collected in one transaction. If an event of the transaction
 * cannot be decoded, returns the transaction as unreadable.
 */
export function planPullsIn(
  transaction: ConfirmedTransaction,
  parties: Omit<PullParties, 'subscriptionPda'>,
): PlanPull[] | UnreadableTransaction {
  return decoded(transaction.signature, () => {
    const transfers = programEvents(transaction, parties.programId).filter(
      (event) => event.kind === 'transfer',
    );
    const plans = new Map(transfers.map(({ subscription, plan }) => [subscription, plan]));
    return [...plans].flatMap(([subscriptionPda, planPda]) =>
      pullsIn(transaction, { ...parties, subscriptionPda }).map((pull) => ({
        ...{ subscriptionPda, planPda, pull },
      })),
    );
  });
}

/** Returns the result of `decode`. If decoding fails, returns the transaction as unreadable. */
export function decoded<T>(signature: string, decode: () => T): T | UnreadableTransaction {
  try {
    return decode();
  } catch (error) {
    if (error instanceof ChainDataError) return { signature, unreadable: 'undecodable' };
    throw error;
  }
}

/** Builds the difference for a recorded payment whose transaction cannot be read. */
export const unreadableRecord = ({
  unreadable,
}: UnreadableTransaction): Pick<Difference, 'kind' | 'detail'> => ({
  kind: 'unreadable',
  detail: `recorded, and on chain, but no RPC endpoint returns the transaction readable (${unreadable})`,
});

/**
 * Returns the difference between a recorded payment and its transaction, or undefined when the two
 * agree. Pure.
 */
export function differenceOf(
  payment: RecordedPayment,
  transaction: Pick<ConfirmedTransaction, 'err'> | null,
  { pulls, treasuries }: { pulls: readonly Pull[]; treasuries: readonly string[] },
): Pick<Difference, 'kind' | 'detail'> | undefined {
  if (transaction === null)
    return { kind: 'not_on_chain', detail: 'recorded, but no RPC endpoint has the transaction' };
  if (transaction.err !== null)
    return { kind: 'failed_on_chain', detail: 'recorded as paid, but the transaction failed' };
  if (pulls.length === 0)
    return {
      kind: 'not_on_chain',
      detail: 'recorded, but the transaction moved nothing under this subscription',
    };
  const pull = pulls.find(({ periodStart }) => periodStart === unixSeconds(payment.periodStart));
  if (pull?.periodEnd !== unixSeconds(payment.periodEnd)) {
    const periods = pulls.map(
      ({ periodStart, periodEnd }) =>
        `${timeOf(periodStart).toISOString()} to ${timeOf(periodEnd).toISOString()}`,
    );
    return {
      kind: 'other_period',
      detail: `recorded ${payment.periodStart.toISOString()} to ${payment.periodEnd.toISOString()}, the chain has ${periods.join(', ')}`,
    };
  }
  // If the merchant's wallet is also a treasury, fee and net amount go to the same wallet. The
  // chain then shows only their sum.
  const isOneWallet = treasuries.includes(payment.merchantWallet);
  const of = (gross: bigint, fee: bigint, net: bigint) =>
    isOneWallet ? gross.toString() : `${gross.toString()} = ${fee.toString()} + ${net.toString()}`;
  const books = of(payment.amountGross, payment.platformFee, payment.amountNet);
  const chain = of(pull.gross, pull.fee, pull.net);
  if (books !== chain)
    return { kind: 'other_amounts', detail: `recorded ${books}, the chain moved ${chain}` };
  if (pull.source !== payment.source)
    return {
      kind: 'other_amounts',
      detail: `recorded as ${payment.source}, pulled by ${pull.source}`,
    };
  return undefined;
}
