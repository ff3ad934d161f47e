// The result of one check of `billing doctor`.
import { RpcError, RpcUnreachable } from '../../../chain/rpc/errors.ts';
import { describeDatabase } from '../../../config/postgres-url.ts';
import { outageOf } from '../../../db/postgres/outage.ts';
import { messageOf, OperatorError } from '../../../errors.ts';

export interface Check {
  name: string;
  /**
   * `todo`: there is a fault, and `detail` tells the operator what to do. `unchecked`: the check
   * was not possible.
   */
  state: 'ok' | 'todo' | 'unchecked';
  detail: string;
}

/**
 * Runs one check. `work` returns the detail of a good result. For a fault, `work` throws an
 * OperatorError that says what to do.
 */
export async function check(name: string, work: () => Promise<string>): Promise<Check> {
  try {
    return { name, state: 'ok', detail: await work() };
  } catch (error) {
    if (error instanceof OperatorError) return { name, state: 'todo', detail: error.message };
    if (error instanceof RpcUnreachable || error instanceof RpcError)
      return { name, state: 'todo', detail: `${messageOf(error)}. Check SOLANA_RPC_URL.` };
    throw error;
  }
}

/** Runs one check of Postgres. An outage or a refused connection is also a fault. */
export function checkDatabase(
  name: string,
  url: string,
  work: () => Promise<string>,
): Promise<Check> {
  return check(name, async () => {
    try {
      return await work();
    } catch (error) {
      const outage = outageOf(error);
      if (outage === undefined) throw error;
      throw new OperatorError(`Postgres at ${describeDatabase(url)} ${outage}`, 1, {
        cause: error,
      });
    }
  });
}

export const unchecked = (name: string, detail: string): Check => ({
  name,
  state: 'unchecked',
  detail,
});
