// Reads the addresses that the instructions of a batch of transactions name.
import { each } from '../../each.ts';
import type { UnreadableTransaction } from './responses.ts';
import type { Rpc } from './rpc.ts';

const AT_ONCE = 8;

export interface Named {
  /** The distinct addresses in the transactions. */
  addresses: string[];
  /**
   * Transactions that no endpoint returned in a readable form, including those that no endpoint has
   * yet.
   */
  unreadable: UnreadableTransaction[];
}

/**
 * Reads the transactions and collects the addresses. An unreadable transaction does not block the
 * others. Throws RpcUnreachable.
 */
export async function addressesIn(
  rpc: Pick<Rpc, 'getTransaction'>,
  signatures: readonly string[],
): Promise<Named> {
  const addresses = new Set<string>();
  const unreadable: UnreadableTransaction[] = [];
  await each(signatures, AT_ONCE, async (signature) => {
    const transaction = await rpc.getTransaction(signature, { commitment: 'confirmed' });
    if ('unreadable' in transaction) {
      unreadable.push(transaction);
      return;
    }
    for (const { accounts } of [
      ...transaction.instructions,
      ...[...transaction.inner.values()].flat(),
    ]) {
      for (const address of accounts) addresses.add(address);
    }
  });
  return { addresses: [...addresses], unreadable };
}
