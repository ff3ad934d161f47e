// When blocks were made, by slot. Their times are whole seconds and never go back: all blocks between two of one second are of that second, so that a
// batch of payments asks for a few blocks and not for each.
import type { Rpc } from '../chain/rpc.ts';

const KEPT = 4096;

/** Finds the times (Unix seconds) of blocks by `rpc`; those that no endpoint tells are missing. Throws as the RPC client does. */
export function createBlockTimes(rpc: Pick<Rpc, 'getBlockTime'>): (slots: readonly bigint[]) => Promise<ReadonlyMap<bigint, bigint>> {
  const known = new Map<bigint, bigint>();

  async function timeOf(slot: bigint): Promise<bigint | null> {
    const time = known.get(slot) ?? (await rpc.getBlockTime(slot));
    if (time !== null) known.set(slot, time);
    return time;
  }

  /** Learns all of some slots in their order. */
  async function learn(slots: readonly bigint[]): Promise<void> {
    const [first, last] = [slots[0], slots.at(-1)];
    if (first === undefined || last === undefined) return;
    const [from, to] = await Promise.all([timeOf(first), slots.length === 1 ? null : timeOf(last)]);
    if (slots.length <= 2) return;
    if (from !== null && from === to) {
      for (const slot of slots) known.set(slot, from);
      return;
    }
    const middle = Math.floor(slots.length / 2);
    await learn(slots.slice(0, middle));
    await learn(slots.slice(middle));
  }

  return async (slots) => {
    if (known.size >= KEPT) known.clear();
    await learn([...new Set(slots)].sort((a, b) => (a < b ? -1 : 1)));
    return known;
  };
}
