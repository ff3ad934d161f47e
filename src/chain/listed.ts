// Reads transactions that an account's history lists.
import type { FoundTransaction } from './answers.ts';
import { RpcUnreachable } from './rpc-errors.ts';
import type { Rpc } from './rpc.ts';

/**
 * Looks up a finalized transaction from a history. An HTTP error or a malformed response makes it unreadable too, since the listing has shown that the
 * endpoint is up. Throws RpcUnreachable when no endpoint answers.
 */
export async function readListed(
  rpc: Pick<Rpc, 'getTransaction'>,
  signature: string,
): Promise<FoundTransaction> {
  try {
    return await rpc.getTransaction(signature, { commitment: 'finalized' });
  } catch (error) {
    const isAnswered =
      error instanceof RpcUnreachable &&
      error.failures.some(({ fault }) => fault === 'http' || fault === 'malformed');
    if (!isAnswered) throw error;
    return { signature, unreadable: 'refused' };
  }
}
