// Block production. A transaction runs at once, in the block being built. Sealing that block gives
// it a hash and opens the next.
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

/** The time, in ms, of a block that is opened now. It is never before the last block's. */
export function chainTime(chain: Chain): number {
  const last = head(chain).time;
  return chain.blockMs === 0 ? last + SLOT_MS : Math.max(last, Date.now() + chain.offset);
}

/** Opens a block on top of `parent` (the head must be sealed) and moves LiteSVM's clock to it. */
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
 * Seals the block being built and opens the next one, by default a slot later and at the chain's
 * time.
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
 * Drops the payloads of all but the newest TRANSACTIONS_KEPT transactions, and the statuses of
 * those without a payload when STATUS_BLOCKS have passed.
 */
function forgetTransactions(chain: Chain): void {
  const { landed } = chain;
  for (; chain.firstPayload < landed.length - TRANSACTIONS_KEPT; chain.firstPayload += 1) {
    const oldest = landed[chain.firstPayload];
    if (oldest !== undefined) oldest.payload = null;
  }
  const oldestHeight = head(chain).height - STATUS_BLOCKS;
  let gone = 0;
  for (; gone < chain.firstPayload; gone += 1) {
    const oldest = landed[gone];
    if (oldest === undefined || oldest.height >= oldestHeight) break;
    chain.byId.delete(oldest.id);
  }
  if (gone === 0) return;
  landed.splice(0, gone);
  chain.firstPayload -= gone;
}

/**
 * The block with this hash; undefined when the hash is too old, or too new, for a transaction in a
 * block of height `height`.
 */
export function blockOfHash(chain: Chain, hash: Key, height: number): Block | undefined {
  for (let at = height - 1; at >= height - BLOCKHASH_AGE - 1; at -= 1) {
    const block = blockAt(chain, at);
    if (block === undefined) return undefined;
    if (block.hash === hash) return block.height + BLOCKHASH_AGE >= height ? block : undefined;
  }
  return undefined;
}

/** The transaction with this signature, if its block is at `height` or below. */
export function landedAt(chain: Chain, id: Key, height: number): Landed | undefined {
  const landed = chain.byId.get(id);
  return landed !== undefined && landed.height <= height ? landed : undefined;
}
