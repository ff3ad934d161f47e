import { head } from './accounts.ts';
import { blockOfHash, produceBlock } from './blocks.ts';
import { execute, hasLiveBlockhash, type Refusal } from './execute.ts';
import type { Chain } from './state.ts';
import type { WireTransaction } from './wire/message.ts';

/** The sender's settings and the state of the node. */
export interface Submission {
  readonly skipPreflight: boolean;
  /** The height of the block that preflight checks the blockhash against. */
  readonly preflightHeight: number;
  /** The signatures are known to be good. */
  readonly verified: boolean;
}

/**
 * Accepts a transaction. Without preflight the sender learns nothing more, as with a validator: an
 * expired, unsigned or repeated one never lands. With preflight a refusal is returned and has no
 * effect. Preflight always runs on the newest state; the blockhash must be known at the preflight
 * commitment.
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

// A hash is known at a block when that block, or one before it, was built on it: the newest hash
// there is that of its parent.
function knownAt(chain: Chain, transaction: WireTransaction, height: number): boolean {
  const block = blockOfHash(chain, transaction.message.blockhash, head(chain).height);
  return block !== undefined && block.height <= height;
}

// The faults that lose or delay a transaction come after preflight: the sender's node has accepted
// it.
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
 * Makes a block, then runs the held transactions whose time has come. Late ones find their
 * blockhash expired, as on a cluster.
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
