import { blockAt, head, heightOf } from './accounts.ts';
import { chainTime, openBlock } from './blocks.ts';
import { execute } from './execute.ts';
import type { Key } from './keys.ts';
import { type Chain, EPOCH_SLOTS, type Landed, SLOT_MS } from './state.ts';
import { advance } from './submit.ts';
import type { AccountState } from './vm.ts';
import { decodeTransaction } from './wire.ts';

/** Refused because the chain cannot do it; the message says why. */
export class ChainRefusal extends Error {}

function forgottenIn(chain: Chain, target: number): Landed[] {
  const forgotten: Landed[] = [];
  for (let height = target + 1; height <= head(chain).height; height += 1)
    forgotten.push(...(blockAt(chain, height)?.transactions ?? []));
  return forgotten;
}

/**
 * Abandons the block being built and the last `count` sealed ones for a new fork: accounts are as before them, their transactions and
 * blockhashes unknown. Slots go on, heights go back. With `replay` their transactions are run again on the new fork, where those that
 * name a forgotten blockhash cannot land. Returns how many were forgotten. Throws ChainRefusal when that would take back a final block.
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
  // Heights are reused on the new fork, but a final block stays final.
  chain.floor = heightOf(chain, 'finalized');
  const forgotten = forgottenIn(chain, target);
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

/** Where time travel goes, in Surfpool's terms: exactly one of them. */
export interface Destination {
  readonly absoluteTimestamp?: number;
  readonly absoluteSlot?: number;
  readonly absoluteEpoch?: number;
}

/**
 * Jumps forward: the block being built is sealed and the next one opens at the destination, a skip of slots, not of blocks (no blockhash
 * expires by it). Time and slots move together, SLOT_MS a slot. Throws ChainRefusal for a destination in the past.
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
