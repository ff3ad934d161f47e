// The RPC client's methods for blocks, the clock of the cluster and recent fees.
import { isAddress } from './addresses.ts';
import { array, big, inContext, object, text } from './answers.ts';
import type { Failover } from './failover.ts';
import type { Rpc } from './rpc.ts';
import { EndpointFailure } from './rpc-errors.ts';

/** Solana's MAX_PROCESSING_AGE: a transaction can land up to 150 blocks after the block of its blockhash. */
export const BLOCKHASH_LIFE = 150n;

export function blockMethods(
  reads: Failover,
): Pick<
  Rpc,
  | 'getLatestBlockhash'
  | 'getHeight'
  | 'getHeights'
  | 'getBlockHeight'
  | 'getSlot'
  | 'getBlockTime'
  | 'getGenesisHash'
  | 'getRecentPrioritizationFees'
> {
  return {
    async getLatestBlockhash({ commitment = 'confirmed' } = {}) {
      return reads.call('getLatestBlockhash', [{ commitment }], (result) => {
        const { slot, value } = inContext(result, undefined, (found) => object(found, 'blockhash'));
        const lastValidBlockHeight = big(value.lastValidBlockHeight, 'lastValidBlockHeight');
        const blockhash = text(value.blockhash, 'blockhash');
        if (!isAddress(blockhash))
          throw new EndpointFailure('malformed', 'a blockhash that is not Base58 of 32 bytes');
        return {
          blockhash,
          lastValidBlockHeight,
          blockHeight: lastValidBlockHeight - BLOCKHASH_LIFE,
          slot,
        };
      });
    },
    getHeight: ({ commitment = 'confirmed' } = {}) =>
      reads.call('getEpochInfo', [{ commitment }], heightIn),
    getHeights: ({ commitment = 'confirmed' } = {}) =>
      reads.callAll('getEpochInfo', [{ commitment }], heightIn),
    getBlockHeight: ({ commitment = 'confirmed' } = {}) =>
      reads.call('getBlockHeight', [{ commitment }], (result) => big(result, 'block height')),
    getSlot: ({ commitment = 'confirmed' } = {}) =>
      reads.call('getSlot', [{ commitment }], (result) => big(result, 'slot')),
    getBlockTime: (slot) =>
      reads.call('getBlockTime', [Number(slot)], (result) =>
        result === null ? null : big(result, 'block time'),
      ),
    getGenesisHash: () =>
      reads.call('getGenesisHash', [], (result) => text(result, 'genesis hash')),
    getRecentPrioritizationFees: (writable) =>
      reads.call('getRecentPrioritizationFees', [writable], (result) =>
        array(result, 'fees').map((one) =>
          big(object(one, 'fee').prioritizationFee, 'prioritizationFee'),
        ),
      ),
  };
}

function heightIn(result: unknown): { slot: bigint; blockHeight: bigint } {
  const { absoluteSlot, blockHeight } = object(result, 'epoch info');
  return { slot: big(absoluteSlot, 'absoluteSlot'), blockHeight: big(blockHeight, 'blockHeight') };
}
