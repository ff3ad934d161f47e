// The RPC client's methods for slots, block heights, blockhashes, block times and recent fees.
import { each } from '../../each.ts';
import { isAddress } from '../program/addresses.ts';
import { EndpointFailure, RpcError } from './errors.ts';
import type { Ask, Failover } from './failover.ts';
import { perHost } from './hosts.ts';
import {
  array,
  big,
  type Commitment,
  inContext,
  newestSlot,
  object,
  oldestSlot,
  text,
  truth,
} from './responses.ts';
import type { Lifetime, LifetimeResponse, Rpc } from './rpc.ts';

/**
 * Solana's MAX_PROCESSING_AGE: a transaction can land up to 150 blocks after the block of its
 * blockhash.
 */
export const BLOCKHASH_LIFE = 150n;
/**
 * Maximum number of blockhashes that one call checks at one endpoint. A call rarely has more,
 * because many transactions share a blockhash.
 */
const MAX_BLOCKHASHES = 64;
const BLOCKHASHES_AT_ONCE = 8;
/**
 * After this many slots an endpoint is asked about a blockhash even if its last valid block height
 * is not reached. A wrong height therefore only delays the check.
 */
const MAX_LIFE_SLOTS = 600n;

function heightIn(result: unknown): { slot: bigint; blockHeight: bigint } {
  const { absoluteSlot, blockHeight } = object(result, 'epoch info');
  return { slot: big(absoluteSlot, 'absoluteSlot'), blockHeight: big(blockHeight, 'blockHeight') };
}

/**
 * Asks one endpoint which blockhashes have expired. An endpoint that has not finalized the block of
 * a blockhash reports even a valid blockhash as invalid, and the slot of that block comes from a
 * single endpoint and may be too low. A blockhash therefore counts as expired only if it is invalid
 * (1) at commitment finalized, at that slot or later, and (2) at the endpoint's newest block.
 */
async function askLifetimes(ask: Ask, lifetimes: readonly Lifetime[]): Promise<LifetimeResponse> {
  const { slot, blockHeight } = await ask('getEpochInfo', [{ commitment: 'finalized' }], heightIn);
  const isPast = ({ lastValidBlockHeight, slot: since }: Lifetime) =>
    blockHeight > lastValidBlockHeight || (since > 0n && slot > since + MAX_LIFE_SLOTS);
  const ends = lifetimes.map((one): LifetimeResponse['ends'][number] =>
    isPast(one) ? undefined : 'live',
  );
  const past = [...lifetimes.entries()].filter(([index]) => ends[index] === undefined);
  await each(past.slice(0, MAX_BLOCKHASHES), BLOCKHASHES_AT_ONCE, async ([index, one]) => {
    const { blockhash, slot: since } = one;
    const isValidAt = (commitment: Commitment) => {
      const config = { commitment, ...(since > 0n && { minContextSlot: Number(since) }) };
      return ask('isBlockhashValid', [blockhash, config], (result) =>
        inContext(result, since, (value) => truth(value, 'validity')),
      );
    };
    try {
      const { value, slot: seenAt } = await isValidAt('finalized');
      const isLive = value || (await isValidAt('processed')).value;
      ends[index] = isLive ? 'live' : seenAt;
    } catch (error) {
      if (!(error instanceof EndpointFailure || error instanceof RpcError)) throw error;
    }
  });
  return { slot, ends };
}

/**
 * Merges the responses of two URLs of one host. A blockhash that is valid at one URL counts as
 * valid at the host.
 */
function mergeLifetimes(one: LifetimeResponse, other: LifetimeResponse): LifetimeResponse {
  const merged = one.ends.map((end, index) => {
    const otherEnd = other.ends[index];
    if (end === 'live' || otherEnd === 'live') return 'live';
    if (end === undefined || otherEnd === undefined) return end ?? otherEnd;
    return end < otherEnd ? end : otherEnd;
  });
  return { slot: oldestSlot([one, other]), ends: merged };
}

export function blockMethods(
  reads: Failover,
): Pick<
  Rpc,
  | 'getLatestBlockhash'
  | 'getLifetimesEverywhere'
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
    async getLifetimesEverywhere(lifetimes) {
      const answers = await reads.callEach('isBlockhashValid', async (ask, host) => ({
        host,
        value: await askLifetimes(ask, lifetimes),
      }));
      return [...perHost(answers, mergeLifetimes)];
    },
    getHeight: ({ commitment = 'confirmed' } = {}) =>
      reads.call('getEpochInfo', [{ commitment }], heightIn),
    getHeights: ({ commitment = 'confirmed' } = {}) =>
      reads.callAll('getEpochInfo', [{ commitment }], heightIn),
    getBlockHeight: ({ commitment = 'confirmed' } = {}) =>
      reads.call('getBlockHeight', [{ commitment }], (result) => big(result, 'block height')),
    async getSlot({ commitment = 'confirmed', everywhere = false } = {}) {
      const read = (result: unknown) => big(result, 'slot');
      return everywhere
        ? newestSlot(await reads.callAll('getSlot', [{ commitment }], read))
        : reads.call('getSlot', [{ commitment }], read);
    },
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
