// Produces blocks. A transaction runs immediately, in the block being built. When this block is
// sealed, it gets its blockhash and the next block is opened.
import { createHash } from 'node:crypto';
import { CLOCK_SYSVAR } from '../../chain/program/addresses.ts';
import { blockAt, current, head, noteChange } from './accounts.ts';
import { addressKey, bytesOf, type Key, keyOf } from './keys.ts';
import {
  type Block,
  BLOCKHASH_AGE,
  BLOCKS_KEPT,
  type Chain,
  EPOCH_SLOTS,
  JOURNAL_BLOCKS,
  type Landed,
  SLOT_MS,
  STATUS_BLOCKS,
  TRANSACTIONS_KEPT,
} from './state.ts';

const CLOCK = addressKey(CLOCK_SYSVAR);

/**
 * Returns the time for a block that is opened now, in milliseconds since 1970. The time is never
 * before the time of the last block.
 */
export function chainTime(chain: Chain): number {
  const last = head(chain).time;
  return chain.blockMs === 0 ? last + SLOT_MS : Math.max(last, Date.now() + chain.offset);
}

/**
 * Opens a block on top of `parent` and moves LiteSVM's clock to `slot` and `time`. The caller must
 * have sealed the previous block.
 */
export function openBlock(chain: Chain, parent: Block, slot: number, time: number): void {
  const block: Block = {
    slot,
    parentSlot: parent.slot,
    height: parent.height + 1,
    time,
    hash: '',
    undo: new Map(),
    transactions: [],
  };
  chain.blocks.push(block);
  const before = current(chain, CLOCK);
  const epoch = Math.floor(slot / EPOCH_SLOTS);
  const seconds = Math.floor(time / 1000);
  if (epoch !== chain.epochStart.epoch) chain.epochStart = { epoch, time: seconds };
  chain.vm.setClock({ slot, epoch, epochStart: chain.epochStart.time, time: seconds });
  chain.hot.delete(CLOCK);
  noteChange(chain, CLOCK, before, current(chain, CLOCK));
}

function seal(chain: Chain, block: Block): void {
  const parent = blockAt(chain, block.height - 1);
  block.hash = keyOf(
    createHash('sha256')
      .update(chain.seed)
      .update(bytesOf(parent?.hash ?? ''))
      .update(String(block.slot))
      .digest(),
  );
  chain.store?.append(chain, block);
}

/**
 * Seals the block being built and opens the next block. By default the next block is one slot
 * later, at the time that chainTime() returns.
 */
export function produceBlock(
  chain: Chain,
  slot = head(chain).slot + 1,
  time = chainTime(chain),
): void {
  const sealed = head(chain);
  seal(chain, sealed);
  openBlock(chain, sealed, slot, time);
  forgetOld(chain);
  chain.events.emit('block');
}

function forgetOld(chain: Chain): void {
  const { height } = head(chain);
  const beyond = blockAt(chain, height - JOURNAL_BLOCKS);
  if (beyond !== undefined) {
    beyond.undo = new Map();
    beyond.transactions = [];
  }
  if (chain.blocks.length > BLOCKS_KEPT) chain.blocks.shift();
  forgetTransactions(chain);
}

/**
 * Drops the payloads of all but the newest TRANSACTIONS_KEPT transactions. A transaction without
 * payload also loses its status when it is STATUS_BLOCKS blocks old.
 */
function forgetTransactions(chain: Chain): void {
  const { landed } = chain;
  for (; chain.firstPayload < landed.length - TRANSACTIONS_KEPT; chain.firstPayload += 1) {
    const oldest = landed[chain.firstPayload];
    if (oldest !== undefined) oldest.payload = null;
  }
  const oldestHeight = head(chain).height - STATUS_BLOCKS;
  let forgotten = 0;
  for (; forgotten < chain.firstPayload; forgotten += 1) {
    const oldest = landed[forgotten];
    if (oldest === undefined || oldest.height >= oldestHeight) break;
    chain.byId.delete(oldest.id);
  }
  if (forgotten === 0) return;
  landed.splice(0, forgotten);
  chain.firstPayload -= forgotten;
}

/**
 * Returns the block with this blockhash. Returns undefined when a transaction with this blockhash
 * could not land in the block at `height`, because the blockhash is too old or too new.
 */
export function blockOfHash(chain: Chain, hash: Key, height: number): Block | undefined {
  for (let at = height - 1; at >= height - BLOCKHASH_AGE - 1; at -= 1) {
    const block = blockAt(chain, at);
    if (block === undefined) return undefined;
    if (block.hash === hash) return block.height + BLOCKHASH_AGE >= height ? block : undefined;
  }
  return undefined;
}

/**
 * Returns the transaction with this signature. Returns undefined when the transaction is in no
 * block at `height` or below.
 */
export function landedAt(chain: Chain, id: Key, height: number): Landed | undefined {
  const landed = chain.byId.get(id);
  return landed !== undefined && landed.height <= height ? landed : undefined;
}
