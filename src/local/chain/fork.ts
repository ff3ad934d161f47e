import { blockAt, head, heightOf } from './accounts.ts';
import { chainTime, openBlock } from './blocks.ts';
import { execute } from './execute.ts';
import type { Key } from './keys.ts';
import { type Chain, EPOCH_SLOTS, type Landed, SLOT_MS } from './state.ts';
import { advance } from './submit.ts';
import type { AccountState } from './vm.ts';
import { decodeTransaction } from './wire/decode.ts';

/** Thrown when the chain cannot do what its caller asks for. The message has the reason. */
export class ChainRefusal extends Error {}

function transactionsAbove(chain: Chain, target: number): Landed[] {
  const forgotten: Landed[] = [];
  for (let height = target + 1; height <= head(chain).height; height += 1)
    forgotten.push(...(blockAt(chain, height)?.transactions ?? []));
  return forgotten;
}

/**
 * Starts a new fork: drops the block being built and the last `count` sealed blocks, and undoes
 * their account changes. With `replay`, dropped transactions run again if their blockhash still
 * exists. Returns the number of dropped transactions. Throws ChainRefusal for a finalized block.
 */
export function forgetBlocks(chain: Chain, count: number, replay: boolean): number {
  const last = head(chain);
  const target = last.height - 1 - count;
  const parent = blockAt(chain, target);
  if (parent === undefined || target < heightOf(chain, 'finalized')) {
    throw new ChainRefusal(
      `only blocks that are not final can be forgotten: at most ${last.height - 1 - heightOf(chain, 'finalized')} now`,
    );
  }
  // The finalized height is computed from the newest height, and a fork lowers the newest height.
  // Blocks that are finalized now must stay finalized, so `floor` stores the finalized height.
  chain.floor = heightOf(chain, 'finalized');
  const forgotten = transactionsAbove(chain, target);
  const restored = new Map<Key, AccountState | null>();
  for (let height = last.height; height > target; height -= 1) {
    for (const [key, before] of blockAt(chain, height)?.undo ?? []) restored.set(key, before);
  }
  for (const [key, before] of restored) {
    chain.vm.write(key, before);
    chain.hot.delete(key);
  }
  for (const { id } of forgotten) chain.byId.delete(id);
  chain.landed.length -= forgotten.length;
  chain.firstPayload = Math.min(chain.firstPayload, chain.landed.length);
  chain.transactionCount -= forgotten.length;
  const time = chainTime(chain);
  chain.blocks.length -= last.height - target;
  chain.store?.appendFork(target, restored);
  openBlock(chain, parent, last.slot + 1, time);
  chain.events.emit('forked', target);
  chain.events.emit('block');
  if (replay) {
    for (const { payload } of forgotten)
      if (payload !== null) execute(chain, decodeTransaction(payload.bytes), false);
  }
  return forgotten.length;
}

/**
 * The destination of time travel: milliseconds since 1970, a slot or an epoch. Callers set exactly
 * one field. Surfpool's surfnet_timeTravel has the same field names.
 */
export interface Destination {
  readonly absoluteTimestamp?: number;
  readonly absoluteSlot?: number;
  readonly absoluteEpoch?: number;
}

/**
 * Moves the chain forward in time: seals the block being built and opens the next block at the
 * destination. The slot rises by one per SLOT_MS of skipped time. The block height rises only by
 * one, so no blockhash expires. Throws ChainRefusal for a destination in the past.
 */
export function timeTravel(
  chain: Chain,
  { absoluteTimestamp, absoluteSlot, absoluteEpoch }: Destination,
): void {
  const { slot: nowSlot, time } = head(chain);
  const now = chain.blockMs === 0 ? time : chainTime(chain);
  if (absoluteTimestamp !== undefined) {
    if (absoluteTimestamp < now)
      throw new ChainRefusal(
        `absoluteTimestamp ${absoluteTimestamp} is in the past: the chain is at ${now} ms`,
      );
    jump(
      chain,
      nowSlot + Math.max(1, Math.floor((absoluteTimestamp - now) / SLOT_MS)),
      absoluteTimestamp,
    );
    return;
  }
  const target = absoluteSlot ?? (absoluteEpoch ?? 0) * EPOCH_SLOTS;
  if (target <= nowSlot)
    throw new ChainRefusal(`slot ${target} is in the past: the chain is at slot ${nowSlot}`);
  jump(chain, target, now + (target - nowSlot) * SLOT_MS);
}

function jump(chain: Chain, slot: number, time: number): void {
  if (chain.blockMs !== 0) chain.offset = time - Date.now();
  advance(chain, slot, time);
}
