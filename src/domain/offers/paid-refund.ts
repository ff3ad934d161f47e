// A merchant may sign one refund twice, with another priority fee, and send the first one itself.
// So before the relay sends a refund, it looks for a transfer that has paid this refund.
import { paysRefund } from '../../chain/transactions/refund.ts';
import { findRefundOfOffer } from '../../db/money/refunds.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { ServiceError } from '../../errors.ts';
import { type ChainReader, reaching } from '../chain-reads.ts';
import type { SignedOffer } from './relay.ts';

/**
 * Maximum number of transactions read for a reference, oldest first. The reference is secret until
 * a transfer is sent, so the transfer is among its first transactions.
 */
const MAX_READ = 10;

/**
 * Throws CONFLICT if another transaction has paid the refund, or if the refund has expired. Does
 * not throw if the signed transaction itself has paid it. Throws INTERNAL_ERROR when the chain is
 * unreachable.
 */
export async function refusePaidRefund(
  sql: Queryable,
  chain: Pick<ChainReader, 'getSignaturesForAddress' | 'getTransaction'>,
  { offer, signature }: Pick<SignedOffer, 'offer' | 'signature'>,
): Promise<void> {
  const refund = await findRefundOfOffer(sql, offer.id);
  if (refund === undefined) throw new Error(`the offer ${offer.id} has no refund`);
  const { status, txSignature, reference, merchantWallet: merchant } = refund;
  if (txSignature === signature) return;
  if (txSignature !== null) throw paidBy(txSignature);
  if (status === 'expired')
    throw new ServiceError('CONFLICT', 'This refund has expired: ask for another one.');
  const options = { commitment: 'confirmed', everywhere: true } as const;
  const listed = await reaching(chain.getSignaturesForAddress(reference, options));
  const landed = listed.filter(({ err }) => err === null).map((one) => one.signature);
  if (landed.includes(signature)) return;
  const parties = { ...refund, merchant, subscriber: refund.subscriberWallet };
  for (const other of landed.slice(-MAX_READ).toReversed()) {
    const found = await reaching(chain.getTransaction(other, { commitment: 'confirmed' }));
    // One that cannot be read may be the transfer.
    if ('unreadable' in found || paysRefund(found, parties)) throw paidBy(other);
  }
}

const paidBy = (signature: string) =>
  new ServiceError(
    'CONFLICT',
    `Another transaction has paid this refund: ${signature}. Ask for another refund to return more.`,
  );
