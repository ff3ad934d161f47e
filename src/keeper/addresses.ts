// Whom transactions that were heard of are about.
import type { Rpc } from '../chain/rpc.ts';
import { each } from '../each.ts';

const AT_ONCE = 8;

export interface Named {
  /** Every address that the transactions name, each once. */
  addresses: string[];
  /** Transactions that no endpoint has (yet). */
  missing: string[];
}

/** Reads the transactions. Throws as the RPC client does. */
export async function addressesIn(rpc: Pick<Rpc, 'getTransaction'>, signatures: readonly string[]): Promise<Named> {
  const addresses = new Set<string>();
  const missing: string[] = [];
  await each(signatures, AT_ONCE, async (signature) => {
    const transaction = await rpc.getTransaction(signature, { commitment: 'confirmed' });
    if (transaction === null) {
      missing.push(signature);
      return;
    }
    for (const { accounts } of [...transaction.instructions, ...[...transaction.inner.values()].flat()]) {
      for (const address of accounts) addresses.add(address);
    }
  });
  return { addresses: [...addresses], missing };
}
