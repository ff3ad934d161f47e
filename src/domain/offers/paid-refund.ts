// Prevents a refund from being paid twice. A merchant may sign one refund twice, with different
// priority fees, and send the first transfer without the relay. So before the relay sends a refund,
// it looks for a transfer that has paid this refund. With several endpoints, two of them must show
// no such transfer, because one may lag or be wrong.
import { isWitnessed } from '../../chain/rpc/expiry.ts';
import type { Rpc } from '../../chain/rpc/rpc.ts';
import { paysRefund, type RefundTransfer } from '../../chain/transactions/refund.ts';
import { findRefundOfOffer } from '../../db/money/refunds.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { ServiceError } from '../../errors.ts';
import { readWitnessed } from '../chain-reads.ts';
import type { SignedOffer } from './relay.ts';

/**
 * Maximum number of transactions read for a reference, oldest first. The reference is secret until
 * a transfer is sent, so the transfer is among its first transactions.
 */
const MAX_READ = 10;

const UNSEEN =
  'It cannot be seen just now whether another transaction has paid this refund, so nothing was sent: too few Solana nodes answer. Try again in a moment.';

type RefundReader = Pick<Rpc, 'endpoints' | 'getHistoriesEverywhere' | 'getTransactionEverywhere'>;

/**
 * Throws CONFLICT if another transaction has paid the refund, or if the refund has expired. Does
 * not throw if the signed transaction itself has paid it. Throws INTERNAL_ERROR when too few
 * endpoints answer.
 */
export async function refusePaidRefund(
  sql: Queryable,
  chain: RefundReader,
  { offer, signature }: Pick<SignedOffer, 'offer' | 'signature'>,
): Promise<void> {
  const refund = await findRefundOfOffer(sql, offer.id);
  if (refund === undefined) throw new Error(`the offer ${offer.id} has no refund`);
  const { status, txSignature, merchantWallet: merchant, subscriberWallet: subscriber } = refund;
  if (txSignature === signature) return;
  if (txSignature !== null) throw paidBy(txSignature);
  if (status === 'expired')
    throw new ServiceError('CONFLICT', 'This refund has expired: ask for another one.');
  // A refund keeps its blockhash, so none of its transfers landed before the slot of that
  // blockhash.
  const sought = { transfer: { ...refund, merchant, subscriber }, since: offer.blockhashSlot };
  const found = await readWitnessed(UNSEEN, () => findPayment(chain, sought, signature));
  if (found !== null && found !== signature) throw paidBy(found);
}

/**
 * Returns the signature of a transaction that has paid the refund, preferably `ownSignature`.
 * Returns null if there is none. Returns undefined while too few endpoints have answered or have
 * returned a transaction that names the reference.
 */
async function findPayment(
  chain: RefundReader,
  { transfer, since }: { transfer: RefundTransfer; since: bigint },
  ownSignature: string,
): Promise<string | null | undefined> {
  const options = { minSlot: since, since, commitment: 'confirmed' } as const;
  const histories = await chain.getHistoriesEverywhere(transfer.reference, options);
  const listed = histories.flatMap((one) => one.listed.filter(({ err }) => err === null));
  listed.sort((a, b) => Number(a.slot - b.slot));
  const signatures = [...new Set(listed.map((one) => one.signature))];
  if (signatures.includes(ownSignature)) return ownSignature;
  let isProven = isWitnessed(chain, histories.filter(({ isWhole }) => isWhole).length);
  for (const other of signatures.slice(0, MAX_READ)) {
    const { copies, witnesses } = await chain.getTransactionEverywhere(other, {
      commitment: 'confirmed',
    });
    if (copies.some((copy) => paysRefund(copy, transfer))) return other;
    isProven &&= isWitnessed(chain, witnesses);
  }
  return isProven ? null : undefined;
}

const paidBy = (signature: string) =>
  new ServiceError(
    'CONFLICT',
    `Another transaction has paid this refund: ${signature}. Ask for another refund to return more.`,
  );
