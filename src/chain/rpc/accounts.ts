// The RPC client's methods that read accounts.
import { chunks } from '../../each.ts';
import type { ChainAccount } from '../program/accounts.ts';
import { CLOCK_SYSVAR } from '../program/addresses.ts';
import { type ClockAccount, decodeClock } from '../program/layouts.ts';
import { EndpointFailure } from './errors.ts';
import type { Failover } from './failover.ts';
import { accounts, big, inContext, oldestSlot, programAccounts } from './responses.ts';
import type { ReadOptions, Rpc } from './rpc.ts';
import { createTrustedClock, type TrustedClockOptions } from './trusted-clock.ts';

/** Maximum number of addresses in one getMultipleAccounts request. */
export const ACCOUNTS_AT_ONCE = 100;

const readConfig = ({ commitment = 'confirmed', minSlot }: ReadOptions) => ({
  commitment,
  ...(minSlot !== undefined && { minContextSlot: Number(minSlot) }),
});

/**
 * Creates a decoder for the Clock account that an endpoint returns. For an implausible time the
 * decoder throws an EndpointFailure, so that the failover tries another endpoint.
 */
function clockReader(reads: Failover, clock: TrustedClockOptions | undefined) {
  const readClocks = () =>
    reads.callAll(
      'getMultipleAccounts',
      [[CLOCK_SYSVAR], { commitment: 'confirmed', encoding: 'base64' }],
      (result) =>
        inContext(result, undefined, (value) => {
          const [found] = accounts(value, 1);
          return found ? decodeClock(found.data) : null;
        }).value,
    );
  const believes = clock === undefined ? () => true : createTrustedClock(readClocks, clock);
  return (account: ChainAccount | null | undefined): ClockAccount => {
    if (!account) throw new EndpointFailure('malformed', 'the Clock sysvar has no account');
    const read = decodeClock(account.data);
    if (!believes(read.unixTimestamp))
      throw new EndpointFailure('malformed', 'its clock is over 10 minutes off');
    return read;
  };
}

function listConfig(
  filters: readonly object[],
  { commitment = 'confirmed', slice }: Parameters<Rpc['getProgramAccounts']>[2] = {},
) {
  return {
    commitment,
    encoding: 'base64',
    filters: filters.map((memcmp) => ({ memcmp })),
    ...(slice !== undefined && { dataSlice: slice }),
  };
}

export function accountMethods(
  reads: Failover,
  clock: TrustedClockOptions | undefined,
): Pick<
  Rpc,
  | 'getMultipleAccounts'
  | 'getAccountsEverywhere'
  | 'getClock'
  | 'getBalance'
  | 'getMinimumBalanceForRentExemption'
  | 'getProgramAccounts'
> {
  const clockOf = clockReader(reads, clock);

  async function accountsAt<T>(
    addresses: readonly string[],
    options: ReadOptions,
    read: (found: (ChainAccount | null)[]) => T,
  ): Promise<{ slot: bigint; value: T }> {
    const config = { ...readConfig(options), encoding: 'base64' };
    return reads.call('getMultipleAccounts', [addresses, config], (result) =>
      inContext(result, options.minSlot, (value) => {
        const found = accounts(value, addresses.length);
        const place = addresses.indexOf(CLOCK_SYSVAR);
        if (place >= 0) clockOf(found[place]);
        return read(found);
      }),
    );
  }

  return {
    async getMultipleAccounts(addresses, read = {}) {
      const batches = [...chunks(addresses, ACCOUNTS_AT_ONCE)];
      const responses = await Promise.all(
        batches.map((batch) => accountsAt(batch, read, (found) => found)),
      );
      return {
        slot: oldestSlot(responses),
        accounts: responses.flatMap(({ value }) => value),
      };
    },
    async getAccountsEverywhere(addresses, { commitment = 'confirmed' } = {}) {
      const responses = await reads.callAll(
        'getMultipleAccounts',
        [addresses, { commitment, encoding: 'base64' }],
        (result) => inContext(result, undefined, (value) => accounts(value, addresses.length)),
      );
      return responses.map(({ slot, value }) => ({ slot, accounts: value }));
    },
    async getClock(read = {}) {
      const { value } = await accountsAt([CLOCK_SYSVAR], read, ([found]) => clockOf(found));
      return value;
    },
    async getBalance(address, read = {}) {
      const response = await reads.call('getBalance', [address, readConfig(read)], (result) =>
        inContext(result, read.minSlot, (value) => big(value, 'balance')),
      );
      return response.value;
    },
    getProgramAccounts: (programId, filters, options) =>
      reads.call('getProgramAccounts', [programId, listConfig(filters, options)], programAccounts),
    getMinimumBalanceForRentExemption: (length) =>
      reads.call('getMinimumBalanceForRentExemption', [length], (result) =>
        big(result, 'rent exemption'),
      ),
  };
}
