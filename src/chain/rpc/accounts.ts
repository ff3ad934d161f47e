// The RPC client's methods that read accounts.
import { chunks } from '../../each.ts';
import type { ChainAccount } from '../program/accounts.ts';
import { CLOCK_SYSVAR } from '../program/addresses.ts';
import { type ClockAccount, decodeClock } from '../program/layouts.ts';
import { EndpointFailure, RpcError } from './errors.ts';
import type { Ask, Failover } from './failover.ts';
import { perHost } from './hosts.ts';
import {
  accounts,
  big,
  type Commitment,
  inContext,
  oldestSlot,
  programAccounts,
} from './responses.ts';
import type { ReadOptions, Rpc } from './rpc.ts';
import { createTrustedClock, type TrustedClockOptions } from './trusted-clock.ts';

/** Maximum number of addresses in one getMultipleAccounts request. */
export const ACCOUNTS_AT_ONCE = 100;

const readConfig = ({ commitment = 'confirmed', minSlot }: ReadOptions) => ({
  commitment,
  ...(minSlot !== undefined && { minContextSlot: Number(minSlot) }),
});

/**
 * Creates a decoder for the Clock account of an endpoint, and a check of times. For an implausible
 * time both throw an EndpointFailure, so that the failover tries another endpoint.
 */
function clockReader(reads: Failover, clock: TrustedClockOptions | undefined) {
  const readClocks = async () => {
    const answers = await accountsEverywhere(reads, [CLOCK_SYSVAR], 'confirmed');
    return answers.map(({ accounts: [found] }) => (found ? decodeClock(found.data) : null));
  };
  const believes = clock === undefined ? () => true : createTrustedClock(readClocks, clock);
  const believed = (seconds: bigint): bigint => {
    if (!believes(seconds))
      throw new EndpointFailure('malformed', 'its clock is over 10 minutes off');
    return seconds;
  };
  const clockOf = (account: ChainAccount | null | undefined): ClockAccount => {
    if (!account) throw new EndpointFailure('malformed', 'the Clock sysvar has no account');
    const read = decodeClock(account.data);
    believed(read.unixTimestamp);
    return read;
  };
  return { clockOf, believed };
}

/**
 * Reads the time (Unix seconds) of one endpoint: its Clock account, or the time of its newest block
 * if it does not return the account.
 */
async function timeAt(ask: Ask, { clockOf, believed }: ReturnType<typeof clockReader>) {
  const config = { commitment: 'confirmed', encoding: 'base64' };
  try {
    return await ask('getMultipleAccounts', [[CLOCK_SYSVAR], config], (result) => {
      const { value } = inContext(result, undefined, (list) => accounts(list, 1));
      return clockOf(value[0]).unixTimestamp;
    });
  } catch (error) {
    if (!(error instanceof EndpointFailure || error instanceof RpcError)) throw error;
    const slot = await ask('getSlot', [config], (found) => big(found, 'slot'));
    return ask('getBlockTime', [Number(slot)], (found) => believed(big(found, 'block time')));
  }
}

interface AccountsAnswer {
  readonly slot: bigint;
  readonly accounts: (ChainAccount | null)[];
}

/**
 * Reads accounts from every endpoint that is up. Returns one result per host. An account that any
 * URL of a host returns counts as present at the host. `check` throws an EndpointFailure for an
 * implausible response.
 */
async function accountsEverywhere(
  reads: Failover,
  addresses: readonly string[],
  commitment: Commitment,
  check: (found: readonly (ChainAccount | null)[]) => void = () => undefined,
): Promise<AccountsAnswer[]> {
  const params = [addresses, { commitment, encoding: 'base64' }];
  const answers = await reads.callEach('getMultipleAccounts', async (ask, host) => {
    const { slot, value } = await ask('getMultipleAccounts', params, (result) =>
      inContext(result, undefined, (list) => {
        const found = accounts(list, addresses.length);
        check(found);
        return found;
      }),
    );
    return { host, value: { slot, accounts: value } };
  });
  const merge = (one: AccountsAnswer, other: AccountsAnswer) => ({
    slot: oldestSlot([one, other]),
    accounts: one.accounts.map((account, index) => account ?? other.accounts[index] ?? null),
  });
  return [...perHost(answers, merge)];
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
  | 'getTimesEverywhere'
  | 'getBalance'
  | 'getMinimumBalanceForRentExemption'
  | 'getProgramAccounts'
> {
  const clocks = clockReader(reads, clock);
  const { clockOf } = clocks;
  /** If the Clock account is among the accounts, checks its time. */
  const checkClock =
    (addresses: readonly string[]) => (found: readonly (ChainAccount | null)[]) => {
      const index = addresses.indexOf(CLOCK_SYSVAR);
      if (index >= 0) clockOf(found[index]);
    };

  async function accountsAt<T>(
    addresses: readonly string[],
    options: ReadOptions,
    read: (found: (ChainAccount | null)[]) => T,
  ): Promise<{ slot: bigint; value: T }> {
    const config = { ...readConfig(options), encoding: 'base64' };
    return reads.call('getMultipleAccounts', [addresses, config], (result) =>
      inContext(result, options.minSlot, (value) => {
        const found = accounts(value, addresses.length);
        checkClock(addresses)(found);
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
    getAccountsEverywhere: (addresses, { commitment = 'confirmed' } = {}) =>
      accountsEverywhere(reads, addresses, commitment, checkClock(addresses)),
    async getClock(read = {}) {
      const { value } = await accountsAt([CLOCK_SYSVAR], read, ([found]) => clockOf(found));
      return value;
    },
    getTimesEverywhere: () => reads.callEach('getMultipleAccounts', (ask) => timeAt(ask, clocks)),
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
