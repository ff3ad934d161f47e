// Step 3 of collecting (chain.md): one signed transaction for each payment.
import { tokenAccountAddress } from '../chain/addresses.ts';
import type { Blockhash } from '../chain/rpc.ts';
import type { PullLayout } from '../chain/errors.ts';
import { type Collection, collectionInstructions, signTransaction, type SignedTransaction } from '../chain/transactions.ts';
import type { AttemptRow } from '../db/payment-attempts.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import type { Collectable } from '../domain/decision.ts';
import type { Context } from './context.ts';
import type { Fees, Shape } from './fees.ts';

/** What all payments of a batch are signed with. */
export interface SigningTerms {
  readonly blockhash: Blockhash;
  readonly microLamportsPerUnit: bigint;
}

function collectionOf(
  { programId, mint, keypair }: Context,
  row: HeldSubscription,
  collectable: Collectable,
): Omit<Collection, 'computeUnits' | 'microLamportsPerUnit'> {
  const { amounts, periodStart, createAccountsFor } = collectable;
  return {
    programId,
    mint,
    keeper: keypair.address,
    subscriber: row.subscriberWallet,
    plan: row.planPda,
    subscription: row.subscriptionPda,
    merchant: row.merchantWallet,
    treasury: row.treasury,
    net: amounts.net,
    fee: amounts.fee,
    // Two tries of one period with one blockhash are two transactions.
    reference: `billing ${row.id} ${periodStart.toString()} ${row.failedAttempts + row.setbacks}`,
    createAccountsFor,
  };
}

/** What the transaction of a payment costs depends on. */
function shapeOf({ mint }: Context, row: HeldSubscription, { amounts, createAccountsFor }: Collectable): Shape {
  return {
    pulls: [amounts.net, amounts.fee].filter((amount) => amount > 0n).length,
    creations: createAccountsFor.length,
    tries: triesOf(row.subscriberWallet, mint),
  };
}

/** Bump seeds are tried from 255 down. */
const triesOf = (wallet: string, mint: string) => 255 - tokenAccountAddress(wallet, mint).bump;

/** Signs the transaction of a payment. Throws a RangeError when it would be too long for the network. */
export function signCollection(
  context: Context,
  row: HeldSubscription,
  collectable: Collectable,
  fees: Fees,
  terms: SigningTerms,
): SignedTransaction {
  const { instructions } = collectionInstructions({
    computeUnits: fees.units(shapeOf(context, row, collectable)),
    microLamportsPerUnit: terms.microLamportsPerUnit,
    ...collectionOf(context, row, collectable),
  });
  return signTransaction(context.keypair, instructions, terms.blockhash.blockhash);
}

/** Blockhash and priority fee for a batch, and compute limits for its shapes. Throws as the RPC client does. */
export async function signingTerms(
  context: Context,
  fees: Fees,
  batch: { row: HeldSubscription; collectable: Collectable }[],
): Promise<SigningTerms> {
  const writable = [context.keypair.address, ...new Set(batch.map(({ row }) => tokenAccountAddress(row.treasury, context.mint).address))];
  const [blockhash, microLamportsPerUnit] = await Promise.all([context.rpc.getLatestBlockhash(), fees.price(writable.slice(0, 16))]);
  const terms = { blockhash, microLamportsPerUnit };
  for (const { row, collectable } of batch) {
    const shape = shapeOf(context, row, collectable);
    if (fees.wantsSample(shape)) await fees.sample(shape, signCollection(context, row, collectable, fees, terms).bytes);
  }
  return terms;
}

/** What is where in a committed transaction: limit, price, account creations, pulls, memo. Throws a RangeError for other bytes. */
export function anatomyOf({ transaction, amountNet, platformFee }: Pick<AttemptRow, 'transaction' | 'amountNet' | 'platformFee'>): {
  layout: PullLayout;
  shape: Shape;
} {
  const pulls = [amountNet, platformFee].filter((amount) => amount > 0n).length;
  const memo = instructionCount(transaction) - 1;
  const creations = memo - pulls - 2;
  return {
    layout: { creations: places(2, creations), pulls: places(memo - pulls, pulls) },
    shape: { pulls, creations, tries: 0 },
  };
}

const places = (from: number, count: number) => Array.from({ length: count }, (_, place) => from + place);

/** Of a legacy transaction: signatures, header of 3 bytes, keys, blockhash, instructions; counts are compact-u16, here always one byte. */
function instructionCount(transaction: Buffer): number {
  const keysAt = 1 + 64 * transaction.readUInt8(0) + 3;
  return transaction.readUInt8(keysAt + 1 + 32 * transaction.readUInt8(keysAt) + 32);
}
