// Reads of rows that each need the chain as of a slot. One row whose slot no endpoint has reached
// must not stop the others.
import { RpcUnreachable } from './errors.ts';
import { newestSlot } from './responses.ts';
import type { ReadOptions, Rpc } from './rpc.ts';

/**
 * Reads as of the newest of these slots. When no endpoint has reached it, reads as of the newest
 * slot that one has reached: the caller leaves the rows alone that need a newer state than they
 * got. No state is older than `minSlot`. Throws as the RPC client does.
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
