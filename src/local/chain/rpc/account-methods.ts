// The RPC methods that read accounts, balances and token supplies.
import bs58 from 'bs58';
import { accountAt, programAccountsAt } from '../accounts.ts';
import { isMint, isTokenAccount, TOKEN_PROGRAMS } from '../execute.ts';
import { base58, type Key } from '../keys.ts';
import type { AccountState } from '../vm.ts';
import { accountEncoding, encodeAccount, tokenAmount } from './encode-account.ts';
import {
  flag,
  integer,
  type LocalEndpoint,
  publicKey,
  required,
  settings,
  type Settings,
  type View,
  viewOf,
} from './params.ts';
import { invalidParams } from './rpc-error.ts';

const MAX_MULTIPLE_ACCOUNTS = 100;
const MAX_FILTERS = 4;
const MAX_MEMCMP_BYTES = 128;

/**
 * A condition that an account must meet to be in the result of getProgramAccounts or in a
 * notification of programSubscribe.
 */
export type Filter = (state: AccountState) => boolean;

function memcmpBytes({ bytes, encoding }: Settings): Buffer {
  const decoded =
    typeof bytes !== 'string'
      ? Array.isArray(bytes)
        ? Buffer.from(bytes as number[])
        : undefined
      : encoding === 'base64'
        ? Buffer.from(bytes, 'base64')
        : bs58.decodeUnsafe(bytes);
  if (decoded === undefined)
    throw invalidParams('Invalid param: memcmp bytes are not valid Base58');
  if (decoded.length > MAX_MEMCMP_BYTES)
    throw invalidParams('Invalid param: memcmp bytes are over 128');
  return Buffer.from(decoded);
}

function filterOf(value: unknown): Filter {
  const { dataSize, memcmp, tokenAccountState } = (value ?? {}) as Settings;
  if (dataSize !== undefined) {
    const size = integer(dataSize, 'dataSize', 0);
    return ({ data }) => data.length === size;
  }
  if (tokenAccountState !== undefined) return isTokenAccount;
  if (typeof memcmp !== 'object' || memcmp === null)
    throw invalidParams('Invalid params: a filter is one of dataSize, memcmp, tokenAccountState');
  const offset = integer((memcmp as Settings)['offset'], 'memcmp.offset', 0);
  const bytes = memcmpBytes(memcmp as Settings);
  return ({ data }) =>
    data.length >= offset + bytes.length &&
    data.subarray(offset, offset + bytes.length).equals(bytes);
}

/**
 * Parses the setting `filters` of a request. Throws -32602 (invalid params) for invalid filters.
 */
export function filtersOf(from: Settings): readonly Filter[] {
  const filters = from['filters'] ?? [];
  if (!Array.isArray(filters)) throw invalidParams('Invalid params: filters should be an array');
  if (filters.length > MAX_FILTERS)
    throw invalidParams(`Too many filters provided; max ${MAX_FILTERS}`);
  return filters.map(filterOf);
}

function getAccountInfo(params: readonly unknown[], endpoint: LocalEndpoint) {
  const key = publicKey(required(params, 0));
  const from = settings(params, 1);
  const encoding = accountEncoding(from);
  const { height, context } = viewOf(endpoint, from);
  return {
    context,
    value: encodeAccount(
      endpoint.chain,
      key,
      accountAt(endpoint.chain, key, height),
      encoding,
      height,
    ),
  };
}

function getMultipleAccounts(params: readonly unknown[], endpoint: LocalEndpoint) {
  const list = required(params, 0);
  if (!Array.isArray(list)) throw invalidParams('Invalid params: expected an array of public keys');
  if (list.length > MAX_MULTIPLE_ACCOUNTS)
    throw invalidParams(`Too many inputs provided; max ${MAX_MULTIPLE_ACCOUNTS}`);
  const keys = list.map(publicKey);
  const from = settings(params, 1);
  const encoding = accountEncoding({ encoding: 'base64', ...from });
  const { height, context } = viewOf(endpoint, from);
  return {
    context,
    value: keys.map((key) =>
      encodeAccount(endpoint.chain, key, accountAt(endpoint.chain, key, height), encoding, height),
    ),
  };
}

function getBalance(params: readonly unknown[], endpoint: LocalEndpoint) {
  const key = publicKey(required(params, 0));
  const { height, context } = viewOf(endpoint, settings(params, 1));
  return { context, value: accountAt(endpoint.chain, key, height)?.lamports ?? 0n };
}

function listed(
  endpoint: LocalEndpoint,
  accounts: Iterable<readonly [Key, AccountState]>,
  from: Settings,
  { height }: View,
  encoding = accountEncoding(from),
) {
  return Array.from(accounts, ([key, state]) => ({
    account: encodeAccount(endpoint.chain, key, state, encoding, height),
    pubkey: base58(key),
  }));
}

const byKey = ([one]: readonly [Key, AccountState], [other]: readonly [Key, AccountState]) =>
  one < other ? -1 : 1;

function getProgramAccounts(params: readonly unknown[], endpoint: LocalEndpoint) {
  const program = publicKey(required(params, 0));
  const from = settings(params, 1);
  const filters = filtersOf(from);
  const view = viewOf(endpoint, from);
  const matching = [...programAccountsAt(endpoint.chain, program, view.height)]
    .filter(([, state]) => filters.every((filter) => filter(state)))
    .sort(flag(from['sortResults'], 'sortResults', true) ? byKey : () => 0);
  const value = listed(endpoint, matching, from, view);
  return flag(from['withContext'], 'withContext', false) ? { context: view.context, value } : value;
}

function getTokenAccountsByOwner(params: readonly unknown[], endpoint: LocalEndpoint) {
  const owner = publicKey(required(params, 0));
  const { mint, programId } = settings([required(params, 1)], 0);
  const from = settings(params, 2);
  const view = viewOf(endpoint, from);
  const { chain } = endpoint;
  const wantedMint = mint === undefined ? undefined : publicKey(mint);
  if (wantedMint === undefined && programId === undefined)
    throw invalidParams('Invalid params: one of mint and programId is required');
  const program =
    wantedMint === undefined
      ? publicKey(programId)
      : accountAt(chain, wantedMint, view.height)?.owner;
  if (wantedMint !== undefined && !isMint(accountAt(chain, wantedMint, view.height)))
    throw invalidParams('Invalid param: could not find mint');
  if (program === undefined || !TOKEN_PROGRAMS.has(program))
    throw invalidParams('Invalid param: unrecognized Token program id');
  const matching = [...programAccountsAt(chain, program, view.height)]
    .filter(([, state]) => isTokenAccount(state) && state.data.toString('latin1', 32, 64) === owner)
    .filter(
      ([, state]) =>
        wantedMint === undefined || state.data.toString('latin1', 0, 32) === wantedMint,
    )
    .sort(byKey);
  return { context: view.context, value: listed(endpoint, matching, from, view) };
}

function getTokenAccountBalance(params: readonly unknown[], endpoint: LocalEndpoint) {
  const key = publicKey(required(params, 0));
  const { height, context } = viewOf(endpoint, settings(params, 1));
  const state = accountAt(endpoint.chain, key, height);
  if (state === null) throw invalidParams('Invalid param: could not find account');
  if (!isTokenAccount(state)) throw invalidParams('Invalid param: not a Token account');
  const mint = accountAt(endpoint.chain, state.data.toString('latin1', 0, 32), height);
  if (!isMint(mint)) throw invalidParams('Invalid param: could not find mint');
  return { context, value: tokenAmount(state.data.readBigUInt64LE(64), mint.data.readUInt8(44)) };
}

function getTokenSupply(params: readonly unknown[], endpoint: LocalEndpoint) {
  const key = publicKey(required(params, 0));
  const { height, context } = viewOf(endpoint, settings(params, 1));
  const mint = accountAt(endpoint.chain, key, height);
  if (mint === null) throw invalidParams('Invalid param: could not find account');
  if (!isMint(mint)) throw invalidParams('Invalid param: not a Token mint');
  return { context, value: tokenAmount(mint.data.readBigUInt64LE(36), mint.data.readUInt8(44)) };
}

const getMinimumBalanceForRentExemption = (params: readonly unknown[], { chain }: LocalEndpoint) =>
  chain.vm.rentExempt(integer(required(params, 0), 'dataLength', 0, 10 * 1024 * 1024));

export const accountMethods = {
  getAccountInfo,
  getMultipleAccounts,
  getBalance,
  getProgramAccounts,
  getTokenAccountsByOwner,
  getTokenAccountBalance,
  getTokenSupply,
  getMinimumBalanceForRentExemption,
};
