// Reads the chain for several database rows. Each row has a slot and needs chain state of this slot
// or a later slot. If no endpoint has reached the slot of one row, the chain is still read for the
// other rows.
import { RpcUnreachable } from './errors.ts';
import { newestSlot } from './responses.ts';
import type { ReadOptions, Rpc } from './rpc.ts';

/**
 * Calls `read` for chain state at least as new as `minSlot` and all `slots`. If no endpoint has
 * such new state, calls `read` again without the `slots` that no endpoint has reached. The caller
 * then skips the rows with these slots. Throws RpcUnreachable or RpcError.
 */
export async function readReachable<T>(
  rpc: Pick<Rpc, 'getSlot'>,
  slots: readonly bigint[],
  { commitment = 'confirmed', minSlot = 0n }: ReadOptions,
  read: (options: ReadOptions) => Promise<T>,
): Promise<T> {
  const readAt = (some: readonly bigint[]) => {
    const slot = newestSlot([minSlot, ...some]);
    return read({ commitment, ...(slot > 0n && { minSlot: slot }) });
  };
  try {
    return await readAt(slots);
  } catch (error) {
    const isBehind =
      error instanceof RpcUnreachable && error.failures.some(({ fault }) => fault === 'behind');
    if (!isBehind) throw error;
    const reach = await rpc.getSlot({ commitment, everywhere: true });
    const reached = slots.filter((slot) => slot <= reach);
    if (reached.length === slots.length) throw error;
    return readAt(reached);
  }
}
