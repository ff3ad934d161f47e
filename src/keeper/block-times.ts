// When blocks were made, by slot. Their times are whole seconds and never go back: all blocks between two of one second are of that second, so that a
// batch of payments asks for a few blocks and not for each.
import type { Rpc } from '../chain/rpc.ts';

const KEPT = 4096;

/** Finds the times (Unix seconds) of blocks by `rpc`; those that no endpoint tells are missing. Throws as the RPC client does. */
export function createBlockTimes(rpc: Pick<Rpc, 'getBlockTime'>): (slots: readonly bigint[]) => Promise<ReadonlyMap<bigint, bigint>> {
  const known = new Map<bigint, bigint>();

  async function timeOf(slot: bigint, learnt: Map<bigint, bigint>): Promise<bigint | null> {
    const time = learnt.get(slot) ?? known.get(slot) ?? (await rpc.getBlockTime(slot));
    if (time !== null) learnt.set(slot, time);
    return time;
  }

  /** Learns all of some slots in their order. */
  async function learn(slots: readonly bigint[], learnt: Map<bigint, bigint>): Promise<void> {
    const [first, last] = [slots[0], slots.at(-1)];
    if (first === undefined || last === undefined) return;
    const [from, to] = await Promise.all([timeOf(first, learnt), slots.length === 1 ? null : timeOf(last, learnt)]);
    if (slots.length <= 2) return;
    if (from !== null && from === to) {
      for (const slot of slots) learnt.set(slot, from);
      return;
    }
    const middle = Math.floor(slots.length / 2);
    await learn(slots.slice(0, middle), learnt);
    await learn(slots.slice(middle), learnt);
  }

  return async (slots) => {
    const learnt = new Map<bigint, bigint>();
    await learn(
      [...new Set(slots)].sort((a, b) => (a < b ? -1 : 1)),
      learnt,
    );
    // Batches learn at the same time: what one forgets, another may still want.
    if (known.size >= KEPT) known.clear();
    for (const [slot, time] of learnt) known.set(slot, time);
    return learnt;
  };
}
