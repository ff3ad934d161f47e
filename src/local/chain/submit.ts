import { head } from './accounts.ts';
import { blockOfHash, produceBlock } from './blocks.ts';
import { execute, hasLiveBlockhash, type Refusal } from './execute.ts';
import type { Chain } from './state.ts';
import type { WireTransaction } from './wire/message.ts';

export interface Submission {
  readonly skipPreflight: boolean;
  /** The height of the block that preflight checks the blockhash against. */
  readonly preflightHeight: number;
  /** The signatures are known to be good. */
  readonly verified: boolean;
}

/**
 * Accepts a transaction. Preflight runs on the newest state and returns a refusal; the blockhash
 * must be known at the preflight commitment. Without preflight the result is null, as with a
 * validator: an expired, unsigned or repeated transaction never lands.
 */
export function submit(
  chain: Chain,
  transaction: WireTransaction,
  { skipPreflight, preflightHeight, verified }: Submission,
): Refusal | null {
  chain.events.emit('received', transaction.id);
  if (!skipPreflight && !knownAt(chain, transaction, preflightHeight))
    return { refused: 'BlockhashNotFound', record: null };
  const { hold } = chain.faults;
  if (chain.faults.drop > 0 || (hold !== null && hold.count > 0))
    return divert(chain, transaction, skipPreflight);
  const result = execute(chain, transaction, !skipPreflight, verified);
  return skipPreflight || !('refused' in result) ? null : result;
}

/** Whether the block with the transaction's blockhash is at `height` or below. */
function knownAt(chain: Chain, transaction: WireTransaction, height: number): boolean {
  const block = blockOfHash(chain, transaction.message.blockhash, head(chain).height);
  return block !== undefined && block.height <= height;
}

/** Drops or delays a transaction after preflight, as a node that accepted it may do. */
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
 * Makes a block, then runs the held transactions whose height is reached, unless their blockhash
 * has expired.
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
