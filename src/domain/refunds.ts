// A merchant gives back what a payment brought it: the service builds the transfer, the merchant's wallet signs it, a keeper records it once it is final.
//
//   pending -> succeeded (the transfer is final)        pending -> expired (not within five minutes) -> succeeded (it was after all)
import { randomBytes } from 'node:crypto';
import bs58 from 'bs58';
import { tokenAccountIn } from '../chain/accounts.ts';
import { tokenAccountAddress } from '../chain/addresses.ts';
import { refundTransaction } from '../chain/refund.ts';
import type { Transaction } from '../db/connect.ts';
import { insertRefund, readRefundable, type RefundRow } from '../db/refunds.ts';
import { ServiceError } from '../errors.ts';
import { type ChainReader, readAccounts, readBlockhash, type Unsigned } from './network.ts';

export interface RefundablePayment {
  id: string;
  appId: string;
  subscriptionId: string;
  subscriberWallet: string;
  status: string;
}

/** What is known of the wallets before the refund's amount is. */
export interface RefundGround {
  readonly mint: string;
  readonly merchant: string;
  /** Base units that the merchant's token account holds. */
  readonly funds: bigint;
  readonly hasTokenAccount: boolean;
  readonly blockhash: string;
  readonly lastValidBlockHeight: bigint;
}

/** Reads both token accounts. Throws INTERNAL_ERROR when the chain is out of reach. */
export async function readRefundGround(
  chain: ChainReader,
  { mint, merchant, subscriber }: { mint: string; merchant: string; subscriber: string },
): Promise<RefundGround> {
  const [{ accounts }, blockhash] = await Promise.all([
    readAccounts(
      chain,
      [merchant, subscriber].map((owner) => tokenAccountAddress(owner, mint).address),
    ),
    readBlockhash(chain),
  ]);
  const [own = null, other = null] = accounts;
  return {
    mint,
    merchant,
    funds: tokenAccountIn(own)?.amount ?? 0n,
    hasTokenAccount: other !== null,
    ...blockhash,
  };
}

/**
 * Stores a refund of `amount` base units, of all that is left where it is null, and builds its transfer. Throws CONFLICT when nothing is left to refund or
 * the merchant's token account holds less, VALIDATION_ERROR when it is more than what is left.
 */
export async function askRefund(
  sql: Transaction,
  payment: RefundablePayment,
  amount: bigint | null,
  ground: RefundGround,
): Promise<{ refund: RefundRow; unsigned: Unsigned }> {
  const left = payment.status === 'succeeded' ? await readRefundable(sql, payment.id) : 0n;
  if (left === 0n) throw new ServiceError('CONFLICT', 'Nothing of this payment is left to refund.');
  const wanted = amount ?? left;
  if (wanted > left) {
    const message = `must be at most ${left}, which is what is left of the net amount`;
    throw new ServiceError('VALIDATION_ERROR', `amount ${message}.`, [{ path: 'amount', message }]);
  }
  if (wanted > ground.funds)
    throw new ServiceError(
      'CONFLICT',
      `Your token account holds ${ground.funds} base units, less than the refund of ${wanted}.`,
    );
  const { id: transactionId, appId, subscriptionId, subscriberWallet: subscriber } = payment;
  const reference = bs58.encode(randomBytes(32));
  const asked = { appId, transactionId, subscriptionId, amount: wanted, reference };
  const refund = await insertRefund(sql, asked);
  const { mint, merchant, blockhash, lastValidBlockHeight } = ground;
  const transfer = { mint, merchant, subscriber, amount: wanted, reference };
  const transaction = refundTransaction(transfer, ground);
  return { refund, unsigned: { transaction, blockhash, lastValidBlockHeight } };
}
