// Simulates the transaction of a signed offer before the sponsor signs it. If an endpoint wrongly
// reports a failure, the sponsor does not sign. No money moves then, and the buyer needs a new
// offer.
import type { Rpc } from '../chain/rpc/rpc.ts';
import type { SignedSponsoredOffer } from '../db/sponsored-offers.ts';

const UNKNOWN_BLOCKHASH = 'BlockhashNotFound';

type Simulator = Pick<Rpc, 'simulateTransaction' | 'getSlot' | 'getHeights'>;

/**
 * Returns what the transaction would do. `lapsed`: its blockhash has expired. `later`: the
 * responding endpoints do not know its blockhash yet. Throws if the chain is unreachable.
 */
export async function simulateOffer(
  rpc: Simulator,
  { signed, lastValidBlockHeight }: Pick<SignedSponsoredOffer, 'signed' | 'lastValidBlockHeight'>,
  readsFromSlot: bigint | undefined,
): Promise<'lands' | 'would_fail' | 'lapsed' | 'later'> {
  const since = async (minSlot: bigint | undefined) => {
    const settings = { commitment: 'processed', ownBlockhash: true, minSlot } as const;
    return (await rpc.simulateTransaction(signed, settings)).err;
  };
  let err = await since(readsFromSlot);
  // A lagging endpoint does not know a new blockhash, so an endpoint at the highest slot is asked.
  if (err === UNKNOWN_BLOCKHASH)
    err = await since(await rpc.getSlot({ commitment: 'processed', everywhere: true }));
  if (err === null) return 'lands';
  if (err !== UNKNOWN_BLOCKHASH) return 'would_fail';
  const heights = await rpc.getHeights({ commitment: 'processed' });
  const isDead = heights.some(({ blockHeight }) => blockHeight > lastValidBlockHeight);
  return isDead ? 'lapsed' : 'later';
}
