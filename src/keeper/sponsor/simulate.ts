// Simulates the transaction of a signed offer before the sponsor signs it. If an endpoint wrongly
// reports a failure, the sponsor does not sign. No money moves then, and the buyer needs a new
// offer.
import type { Rpc } from '../../chain/rpc/rpc.ts';
import type { SignedSponsoredOffer } from '../../db/offers/signed-offers.ts';

const UNKNOWN_BLOCKHASH = 'BlockhashNotFound';

/**
 * Returns whether an endpoint is past the last block height of the offer's transaction. The API
 * wrote this height. A wrong height can only refuse the offer too early; nothing is signed then.
 */
export async function hasLapsed(
  rpc: Pick<Rpc, 'getHeights'>,
  { lastValidBlockHeight }: Pick<SignedSponsoredOffer, 'lastValidBlockHeight'>,
): Promise<boolean> {
  const heights = await rpc.getHeights({ commitment: 'processed' });
  return heights.some(({ blockHeight }) => blockHeight > lastValidBlockHeight);
}

type Simulator = Pick<Rpc, 'simulateTransaction' | 'getSlot' | 'getHeights'>;

/**
 * Returns what the transaction would do. `lapsed`: its blockhash has expired. `later`: the
 * responding endpoints do not know its blockhash yet. Throws if the chain is unreachable.
 */
export async function simulateOffer(
  rpc: Simulator,
  offer: Pick<SignedSponsoredOffer, 'signed' | 'lastValidBlockHeight'>,
  readsFromSlot: bigint | undefined,
): Promise<'lands' | 'would_fail' | 'lapsed' | 'later'> {
  const since = async (minSlot: bigint | undefined) => {
    const settings = { commitment: 'processed', ownBlockhash: true, minSlot } as const;
    return (await rpc.simulateTransaction(offer.signed, settings)).err;
  };
  let err = await since(readsFromSlot);
  // A lagging endpoint does not know a new blockhash, so an endpoint at the highest slot is asked.
  if (err === UNKNOWN_BLOCKHASH)
    err = await since(await rpc.getSlot({ commitment: 'processed', everywhere: true }));
  if (err === null) return 'lands';
  if (err !== UNKNOWN_BLOCKHASH) return 'would_fail';
  return (await hasLapsed(rpc, offer)) ? 'lapsed' : 'later';
}
