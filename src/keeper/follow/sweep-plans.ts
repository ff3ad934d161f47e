// Reads the subscription accounts of whole plans for the sweep, with one getProgramAccounts request
// per plan.
import { decodeTerms, subscriptionFilter, TERMS } from '../../chain/program/layouts.ts';
import { RpcError } from '../../chain/rpc/errors.ts';
import { type KeeperSubscription, readSubscriptions } from '../../db/subscriptions/work.ts';
import { accountChanged } from '../../domain/collecting/account-changed.ts';
import type { Context } from '../base/context.ts';

/**
 * Reads all subscription accounts of a plan if at least `from` of its active subscriptions are in
 * `ids`. Returns the `ids` that must still be read one by one: all except the active subscriptions
 * whose account is unchanged. An inactive subscription may wait for a top-up, which only the token
 * account shows, so its id is always returned. If an endpoint refuses getProgramAccounts, returns
 * all `ids`. Throws RpcUnreachable.
 */
export async function readByPlan(
  { sql, rpc, log, programId, onRead }: Context,
  ids: readonly string[],
  from: number,
): Promise<string[]> {
  const rows = await readSubscriptions(sql, [...ids]);
  onRead(rows);
  const plans = new Map<string, KeeperSubscription[]>();
  for (const row of rows) {
    if (row.status !== 'active') continue;
    const some = plans.get(row.planPda) ?? [];
    some.push(row);
    plans.set(row.planPda, some);
  }
  const left = new Set(ids);
  for (const [plan, some] of plans) {
    if (some.length < from) continue;
    try {
      const found = await rpc.getProgramAccounts(programId, subscriptionFilter(plan), {
        slice: TERMS,
      });
      const accounts = new Map(found.map(({ address, account }) => [address, account.data]));
      for (const row of some)
        if (!isChanged(row, accounts.get(row.subscriptionPda))) left.delete(row.id);
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      log.warn({ err: error, plan }, 'getProgramAccounts refused; SWEEP_LIST_FROM should be 0');
      return [...ids];
    }
  }
  return [...left];
}

function isChanged(row: KeeperSubscription, data: Uint8Array | undefined): boolean {
  if (data === undefined) return true;
  try {
    return accountChanged(row, decodeTerms(data));
  } catch {
    return true;
  }
}
