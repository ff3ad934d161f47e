// Compares recorded payments with the chain, for `billing reconcile`.
import { programEvents } from '../../chain/program/events.ts';
import { ChainDataError } from '../../chain/program/layouts.ts';
import type { ConfirmedTransaction, UnreadableTransaction } from '../../chain/rpc/responses.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { RecordedPayment } from '../../db/reconciliation.ts';
import type { Pull } from './chain-view.ts';
import { pullsIn } from './pulls.ts';

export interface Difference {
  kind:
    | 'not_on_chain'
    | 'failed_on_chain'
    | 'other_amounts'
    | 'other_period'
    /** The chain has a keeper's payment that is not recorded in the database. */
    | 'not_recorded'
    /**
     * The chain has an unrecorded keeper's payment in a period that another payment has paid, so
     * the subscriber was charged twice.
     */
    | 'charged_twice'
    | 'no_subscription'
    /** No history shows the end of an attempt, so its payment may be missing in the database. */
    | 'unexplained'
    /** No RPC endpoint returns the transaction in a readable form, so it could not be compared. */
    | 'unreadable';
  signature: string;
  /** Empty when unknown. */
  subscriptionPda: string;
  /** The recorded and the on-chain values, as text. */
  detail: string;
  /** Whether the database was corrected. */
  repaired: boolean;
}

export interface KeeperPull {
  subscriptionPda: string;
  pull: Pull;
}

/**
 * The keepers' pulls in one transaction, for all subscriptions. Returns an unreadable transaction
 * when an event cannot be decoded.
 */
export function keeperPullsIn(
  transaction: ConfirmedTransaction,
  {
    programId,
    keepers,
    treasuries,
  }: { programId: string; keepers: readonly string[]; treasuries: readonly string[] },
): KeeperPull[] | UnreadableTransaction {
  return decoded(transaction.signature, () => {
    const transfers = programEvents(transaction, programId).filter(
      (event) => event.kind === 'transfer',
    );
    const pdas = new Set(transfers.map(({ subscription }) => subscription));
    return [...pdas].flatMap((subscriptionPda) =>
      pullsIn(transaction, { programId, keepers, treasuries, subscriptionPda })
        .filter(({ source }) => source === 'keeper')
        .map((pull) => ({ subscriptionPda, pull })),
    );
  });
}

/** The decoded value, or an unreadable transaction when decoding fails. */
export function decoded<T>(signature: string, decode: () => T): T | UnreadableTransaction {
  try {
    return decode();
  } catch (error) {
    if (error instanceof ChainDataError) return { signature, unreadable: 'undecodable' };
    throw error;
  }
}

/** The difference to report for a recorded payment whose transaction is unreadable. */
export const unreadableRecord = ({
  unreadable,
}: UnreadableTransaction): Pick<Difference, 'kind' | 'detail'> => ({
  kind: 'unreadable',
  detail: `recorded, and on chain, but no RPC endpoint returns the transaction readable (${unreadable})`,
});

/**
 * The difference between a recorded payment and its transaction; undefined when they agree. Pure.
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
  // When the merchant is also a treasury, the chain does not separate fee and net.
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
