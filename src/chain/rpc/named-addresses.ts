// Collects the addresses in the instructions of a batch of transactions.
import { each } from '../../each.ts';
import type { UnreadableTransaction } from './responses.ts';
import type { Rpc } from './rpc.ts';

const AT_ONCE = 8;

export interface Named {
  /** The distinct addresses in the instructions of the transactions. */
  addresses: string[];
  /**
   * Transactions that no endpoint returned in a readable form. Some of them may not have reached
   * any endpoint yet.
   */
  unreadable: UnreadableTransaction[];
}

/**
 * Reads the transactions and collects the addresses in their instructions. An unreadable
 * transaction does not stop the other reads. Throws RpcUnreachable when no endpoint responds.
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
