// The RPC methods that read slots, blockhashes, epochs and fees.
import { head } from '../accounts.ts';
import { blockOfHash } from '../blocks.ts';
import { takesV1 } from '../cluster-settings.ts';
import { offerOf } from '../fee.ts';
import { base58, type Key } from '../keys.ts';
import { BLOCKHASH_AGE, type Block, type Chain, EPOCH_SLOTS } from '../state.ts';
import { decodeMessage, decodeTransaction } from '../wire/decode.ts';
import { isWritable, type WireMessage } from '../wire/message.ts';
import { WireError } from '../wire/reader.ts';
import { reportedHeight } from './faults.ts';
import {
  API_VERSION,
  integer,
  type LocalEndpoint,
  publicKey,
  required,
  settings,
  type View,
  viewOf,
} from './params.ts';
import { invalidParams, RpcError } from './rpc-error.ts';

const FEATURE_SET = 3_640_012_085;
const MAX_FEE_ACCOUNTS = 128;

/**
 * Returns the block whose blockhash getLatestBlockhash reports for a request that reads the state
 * at `block`. The block being built has no blockhash yet, so its parent is returned instead.
 */
function latestHash(chain: Chain, block: Block): Block {
  return block === head(chain) ? (chain.blocks.at(-2) ?? block) : block;
}

function getLatestBlockhash(params: readonly unknown[], endpoint: LocalEndpoint) {
  const view = viewOf(endpoint, settings(params, 0));
  const { hash, height } = latestHash(endpoint.chain, view.block);
  return {
    context: view.context,
    value: {
      blockhash: base58(hash),
      lastValidBlockHeight: reportedHeight(endpoint, height + BLOCKHASH_AGE),
    },
  };
}

/**
 * Returns whether a transaction with the blockhash `hash` could land in the block after the block
 * that the request reads. `height` is the height of the block that the request reads.
 */
const isLive = (chain: Chain, hash: Key, { height }: View) =>
  blockOfHash(chain, hash, Math.min(height + 1, head(chain).height)) !== undefined;

function isBlockhashValid(params: readonly unknown[], endpoint: LocalEndpoint) {
  const hash = publicKey(required(params, 0));
  const view = viewOf(endpoint, settings(params, 1));
  return { context: view.context, value: isLive(endpoint.chain, hash, view) };
}

function getBlockTime(params: readonly unknown[], { chain }: LocalEndpoint) {
  const slot = integer(required(params, 0), 'slot', 0);
  const { blocks } = chain;
  const last = head(chain);
  if (slot > last.slot) throw new RpcError(-32004, `Block not available for slot ${slot}`);
  const first = blocks[0];
  if (first !== undefined && slot < first.slot) {
    throw new RpcError(
      -32001,
      `Block ${slot} cleaned up, does not exist on node. First available block: ${first.slot}`,
    );
  }
  const block = blocks.findLast((one) => one.slot <= slot);
  if (block?.slot !== slot)
    throw new RpcError(
      -32007,
      `Slot ${slot} was skipped, or missing due to ledger jump to recent snapshot`,
    );
  return Math.floor(block.time / 1000);
}

/** Builds the response of getEpochInfo for a request that reads the state at this block. */
export function epochInfo(chain: Chain, { slot, height }: Block) {
  return {
    absoluteSlot: slot,
    blockHeight: height,
    epoch: Math.floor(slot / EPOCH_SLOTS),
    slotIndex: slot % EPOCH_SLOTS,
    slotsInEpoch: EPOCH_SLOTS,
    transactionCount: chain.transactionCount,
  };
}

function messageOf(chain: Chain, value: unknown): WireMessage {
  if (typeof value !== 'string')
    throw invalidParams('Invalid params: invalid type, expected a string');
  try {
    return decodeMessage(Buffer.from(value, 'base64'), takesV1(chain));
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    throw invalidParams(
      `failed to deserialize solana_message::versions::VersionedMessage: ${error.message}`,
    );
  }
}

function getFeeForMessage(params: readonly unknown[], endpoint: LocalEndpoint) {
  const message = messageOf(endpoint.chain, required(params, 0));
  const view = viewOf(endpoint, settings(params, 1));
  return {
    context: view.context,
    value: isLive(endpoint.chain, message.blockhash, view) ? offerOf(message).fee : null,
  };
}

function getRecentPrioritizationFees(params: readonly unknown[], { chain }: LocalEndpoint) {
  const keys = params[0] ?? [];
  if (!Array.isArray(keys)) throw invalidParams('Invalid params: expected an array of public keys');
  if (keys.length > MAX_FEE_ACCOUNTS)
    throw invalidParams(`Too many inputs provided; max ${MAX_FEE_ACCOUNTS}`);
  const writableKeys = new Set(keys.map(publicKey));
  const oldest = head(chain).height - BLOCKHASH_AGE;
  const least = new Map<number, bigint>();
  for (let index = chain.landed.length - 1; index >= chain.firstPayload; index -= 1) {
    const landed = chain.landed[index];
    if (landed === undefined || landed.height < oldest) break;
    if (landed.payload === null) continue;
    if (writableKeys.size > 0) {
      const { message } = decodeTransaction(landed.payload.bytes);
      if (
        !message.keys.some(
          (key, keyIndex) => writableKeys.has(key) && isWritable(message, keyIndex),
        )
      )
        continue;
    }
    const known = least.get(landed.height);
    if (known === undefined || landed.price < known) least.set(landed.height, landed.price);
  }
  return chain.blocks
    .slice(-BLOCKHASH_AGE - 1, -1)
    .map(({ slot, height }) => ({ slot, prioritizationFee: least.get(height) ?? 0n }));
}

export const blockMethods = {
  getHealth: () => 'ok',
  getVersion: () => ({ 'feature-set': FEATURE_SET, 'solana-core': API_VERSION }),
  getGenesisHash: (_: readonly unknown[], { chain }: LocalEndpoint) => base58(chain.genesisHash),
  getSlot: (params: readonly unknown[], endpoint: LocalEndpoint) =>
    viewOf(endpoint, settings(params, 0)).block.slot,
  getBlockHeight: (params: readonly unknown[], endpoint: LocalEndpoint) =>
    reportedHeight(endpoint, viewOf(endpoint, settings(params, 0)).height),
  getTransactionCount: (params: readonly unknown[], endpoint: LocalEndpoint) => {
    viewOf(endpoint, settings(params, 0));
    return endpoint.chain.transactionCount;
  },
  getFirstAvailableBlock: (_: readonly unknown[], { chain }: LocalEndpoint) =>
    chain.blocks[0]?.slot ?? 0,
  getBlockTime,
  getLatestBlockhash,
  isBlockhashValid,
  getEpochInfo: (params: readonly unknown[], endpoint: LocalEndpoint) => {
    const { block } = viewOf(endpoint, settings(params, 0));
    return {
      ...epochInfo(endpoint.chain, block),
      blockHeight: reportedHeight(endpoint, block.height),
    };
  },
  getEpochSchedule: () => ({
    firstNormalEpoch: 0,
    firstNormalSlot: 0,
    leaderScheduleSlotOffset: EPOCH_SLOTS,
    slotsPerEpoch: EPOCH_SLOTS,
    warmup: false,
  }),
  getFeeForMessage,
  getRecentPrioritizationFees,
};
