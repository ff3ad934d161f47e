import type { ChainAccount } from '../program/accounts.ts';
import { ACCOUNTS_AT_ONCE } from './accounts.ts';
import type { ReadOptions, Rpc } from './rpc.ts';

/**
 * The accounts of a group, in the order of the group's addresses. All accounts of the group were
 * read at `slot`.
 */
export interface AccountGroup {
  readonly slot: bigint;
  readonly accounts: readonly (ChainAccount | null)[];
}

/**
 * Reads groups of accounts. All accounts of a group come from one request and therefore from one
 * slot. Groups share a request of up to 100 addresses. Throws a RangeError for a group of more than
 * 100 addresses. Throws RpcUnreachable or RpcError.
 */
export async function readAccountGroups(
  rpc: Pick<Rpc, 'getMultipleAccounts'>,
  groups: readonly (readonly string[])[],
  options?: ReadOptions,
): Promise<AccountGroup[]> {
  const read = batches(groups).map(async (batch) => {
    const addresses = [...new Set(batch.flat())];
    const { slot, accounts } = await rpc.getMultipleAccounts(addresses, options);
    const found = new Map(addresses.map((address, index) => [address, accounts[index] ?? null]));
    return batch.map((group) => ({
      slot,
      accounts: group.map((address) => found.get(address) ?? null),
    }));
  });
  return (await Promise.all(read)).flat();
}

/** Splits the groups, in order, into batches whose distinct addresses fit one request. */
function batches(groups: readonly (readonly string[])[]): (readonly string[])[][] {
  const all: { groups: (readonly string[])[]; addresses: Set<string> }[] = [];
  for (const group of groups) {
    const last = all.at(-1);
    const added = new Set(group.filter((address) => last?.addresses.has(address) !== true));
    if (last !== undefined && last.addresses.size + added.size <= ACCOUNTS_AT_ONCE) {
      last.groups.push(group);
      for (const address of added) last.addresses.add(address);
    } else {
      const addresses = new Set(group);
      if (addresses.size > ACCOUNTS_AT_ONCE)
        throw new RangeError(`a group has at most 100 accounts, not ${addresses.size}`);
      all.push({ groups: [group], addresses });
    }
  }
  return all.map((batch) => batch.groups);
}
