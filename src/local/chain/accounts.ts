// Reads accounts as they are now, or as they were at the end of an earlier block. LiteSVM has only
// the newest state of an account. Each block therefore keeps the previous state of every account
// that the block changed (`undo`).
import type { Key } from './keys.ts';
import { ACCOUNTS_CACHED, type Block, type Chain, FINALITY_BLOCKS } from './state.ts';
import type { AccountState } from './vm.ts';

export type Commitment = 'processed' | 'confirmed' | 'finalized';

/** Returns the block that is being built. */
export function head(chain: Chain): Block {
  const block = chain.blocks.at(-1);
  if (block === undefined) throw new Error('a chain has at least one block');
  return block;
}

/**
 * Returns the block at a height. Returns undefined when the chain has no block at this height, or
 * has dropped that block because of its age.
 */
export function blockAt(chain: Chain, height: number): Block | undefined {
  const first = chain.blocks[0];
  return first === undefined ? undefined : chain.blocks[height - first.height];
}

/**
 * Returns the height of the newest block at a commitment: for processed the block being built, for
 * confirmed the last sealed block, for finalized the block FINALITY_BLOCKS below the block being
 * built. `lag` is subtracted from this height. The result is never below `chain.floor`.
 */
export function heightOf(chain: Chain, commitment: Commitment, lag = 0): number {
  const back = commitment === 'processed' ? 0 : commitment === 'confirmed' ? 1 : FINALITY_BLOCKS;
  return Math.max(chain.floor, head(chain).height - lag - back);
}

/** Returns the newest state of an account, or null when the account does not exist. */
export function current(chain: Chain, key: Key): AccountState | null {
  const hot = chain.hot.get(key);
  if (hot !== undefined) return hot;
  const state = chain.vm.read(key);
  remember(chain, key, state);
  return state;
}

function remember(chain: Chain, key: Key, state: AccountState | null | undefined): void {
  if (chain.hot.size >= ACCOUNTS_CACHED) chain.hot.clear();
  chain.hot.set(key, state);
}

/**
 * Returns an account as it was at the end of the block at `height`. If that block is still being
 * built, returns the newest state.
 */
export function accountAt(chain: Chain, key: Key, height: number): AccountState | null {
  for (let later = height + 1, last = head(chain).height; later <= last; later += 1) {
    const before = blockAt(chain, later)?.undo.get(key);
    if (before !== undefined) return before;
  }
  return current(chain, key);
}

/** Returns the accounts that `program` owned at the end of the block at `height`. */
export function programAccountsAt(
  chain: Chain,
  program: Key,
  height: number,
): Map<Key, AccountState> {
  const accounts = chain.vm.accountsOf(program);
  for (let later = head(chain).height; later > height; later -= 1) {
    for (const [key, before] of blockAt(chain, later)?.undo ?? []) {
      if (before?.owner === program) accounts.set(key, before);
      else accounts.delete(key);
    }
  }
  return accounts;
}

/**
 * Records in the block being built that an account has changed. `before` and `after` are the states
 * of the account. When `after` is undefined, a later read gets the new state from LiteSVM.
 */
export function noteChange(
  chain: Chain,
  key: Key,
  before: AccountState | null,
  after: AccountState | null | undefined,
): void {
  const { undo } = head(chain);
  if (!undo.has(key)) undo.set(key, before);
  remember(chain, key, after);
}

/**
 * Replaces an account without a transaction, in the block being built, and notifies subscribers. A
 * `state` of null removes the account.
 */
export function overwrite(chain: Chain, key: Key, state: AccountState | null): void {
  const before = current(chain, key);
  chain.vm.write(key, state);
  chain.hot.delete(key);
  noteChange(chain, key, before, current(chain, key));
  chain.events.emit('changed', [key], null);
}
