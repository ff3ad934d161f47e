import { head } from './accounts.ts';
import { blockOfHash, produceBlock } from './blocks.ts';
import { execute, hasLiveBlockhash, type Refusal } from './execute.ts';
import type { Chain } from './state.ts';
import type { WireTransaction } from './wire/message.ts';

export interface Submission {
  readonly skipPreflight: boolean;
  /**
   * Height of the newest block whose blockhash preflight accepts. A transaction with a newer
   * blockhash is refused.
   */
  readonly preflightHeight: number;
  /** Whether the transaction's signatures have already been verified. */
  readonly verified: boolean;
}

/**
 * Accepts a transaction as sendTransaction does. With preflight, returns a Refusal if the
 * transaction would fail, or if its blockhash is newer than the block at `preflightHeight`. Without
 * preflight, always returns null, even for a transaction that never lands because it is expired,
 * unsigned or repeated.
 */
export function submit(
  chain: Chain,
  transaction: WireTransaction,
  { skipPreflight, preflightHeight, verified }: Submission,
): Refusal | null {
  chain.events.emit('received', transaction.id);
  if (!skipPreflight && !knownAt(chain, transaction, preflightHeight))
    return { refused: 'BlockhashNotFound', record: null };
  if (chain.held.some(({ transaction: { id } }) => id === transaction.id)) return null;
  const { hold } = chain.faults;
  if (chain.faults.drop > 0 || (hold !== null && hold.count > 0))
    return divert(chain, transaction, skipPreflight);
  const result = execute(chain, transaction, !skipPreflight, verified);
  return skipPreflight || !('refused' in result) ? null : result;
}

/** Returns whether the transaction's blockhash is that of a block at `height` or below. */
function knownAt(chain: Chain, transaction: WireTransaction, height: number): boolean {
  const block = blockOfHash(chain, transaction.message.blockhash, head(chain).height);
  return block !== undefined && block.height <= height;
}

/**
 * Drops or delays a transaction while the fault 'drop' or 'hold' is on. A real node can also lose
 * or delay a transaction that it accepted. Unless `skipPreflight` is set, preflight runs first. If
 * preflight fails, returns its Refusal and does not count this use of the fault.
 */
function divert(
  chain: Chain,
  transaction: WireTransaction,
  skipPreflight: boolean,
): Refusal | null {
  if (!skipPreflight) {
    if (chain.byId.has(transaction.id)) return { refused: 'AlreadyProcessed', record: null };
    const { err, record } = chain.vm.simulate(transaction.bytes, true);
    if (err !== null) return { refused: err, record };
  }
  const { faults } = chain;
  if (faults.drop > 0) {
    faults.drop -= 1;
  } else if (faults.hold !== null) {
    faults.hold.count -= 1;
    chain.held.push({ transaction, height: head(chain).height + faults.hold.blocks });
  }
  return null;
}

/**
 * Seals the block being built and opens the next block. Then runs the delayed transactions (fault
 * 'hold') whose delay ends at the opened block. A delayed transaction whose blockhash has expired
 * never runs.
 */
export function advance(chain: Chain, slot?: number, time?: number): void {
  produceBlock(chain, slot, time);
  if (chain.held.length === 0) return;
  const { height } = head(chain);
  const due = chain.held.filter((held) => held.height <= height);
  chain.held = chain.held.filter((held) => held.height > height);
  for (const { transaction } of due) {
    if (hasLiveBlockhash(chain, transaction, head(chain).height))
      execute(chain, transaction, false);
  }
}
