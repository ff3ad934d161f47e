// Reads block times by slot. Block times are whole seconds and never decrease. When two blocks have
// the same time, all blocks between them have this time too and are not requested. Many payments of
// a batch land in the same second, so a batch needs few requests.
import { lacksData, RpcError, RpcUnreachable } from './errors.ts';
import type { Rpc } from './rpc.ts';

const MAX_KNOWN = 4096;

/**
 * Block times (Unix seconds) by slot, found in one batch. `isCut` is true once no endpoint can be
 * reached.
 */
interface Learnt {
  readonly times: Map<bigint, bigint>;
  isCut: boolean;
}

/**
 * Creates a function that reads block times (Unix seconds). A slot is missing from the result when
 * no endpoint returns the slot's time.
 */
export function createBlockTimes(
  rpc: Pick<Rpc, 'getBlockTime'>,
): (slots: readonly bigint[]) => Promise<ReadonlyMap<bigint, bigint>> {
  const timeBySlot = new Map<bigint, bigint>();

  /**
   * Returns the time of the block in this slot, or null when no endpoint returns the time. If no
   * endpoint can be reached, sets `learnt.isCut`, so that the batch requests no further slots.
   */
  async function ask(slot: bigint, learnt: Learnt): Promise<bigint | null> {
    if (learnt.isCut) return null;
    try {
      return await rpc.getBlockTime(slot);
    } catch (error) {
      if (error instanceof RpcUnreachable)
        learnt.isCut ||= error.failures.some(({ fault }) => !lacksData(fault));
      else if (!(error instanceof RpcError)) throw error;
      return null;
    }
  }

  async function timeOf(slot: bigint, learnt: Learnt): Promise<bigint | null> {
    const time = learnt.times.get(slot) ?? timeBySlot.get(slot) ?? (await ask(slot, learnt));
    if (time !== null) learnt.times.set(slot, time);
    return time;
  }

  /** Finds the block times of slots by bisection. `slots` is in ascending order. */
  async function learn(slots: readonly bigint[], learnt: Learnt): Promise<void> {
    const [first, last] = [slots[0], slots.at(-1)];
    if (first === undefined || last === undefined) return;
    const [from, to] = await Promise.all([
      timeOf(first, learnt),
      slots.length === 1 ? null : timeOf(last, learnt),
    ]);
    if (slots.length <= 2) return;
    if (from !== null && from === to) {
      for (const slot of slots) learnt.times.set(slot, from);
      return;
    }
    const middle = Math.floor(slots.length / 2);
    await learn(slots.slice(0, middle), learnt);
    await learn(slots.slice(middle), learnt);
  }

  return async (slots) => {
    const learnt: Learnt = { times: new Map(), isCut: false };
    await learn(
      [...new Set(slots)].sort((a, b) => (a < b ? -1 : 1)),
      learnt,
    );
    // Concurrent batches share the cache `timeBySlot`. Clearing the cache here is safe, because
    // each batch keeps its own copy of the times that it needs.
    if (timeBySlot.size >= MAX_KNOWN) timeBySlot.clear();
    for (const [slot, time] of learnt.times) timeBySlot.set(slot, time);
    return learnt.times;
  };
}
