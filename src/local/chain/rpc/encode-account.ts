// Encodes accounts in the form of JSON-RPC responses.
import bs58 from 'bs58';
import { CLOCK_SYSVAR, TOKEN_PROGRAM } from '../../../chain/program/addresses.ts';
import { accountAt } from '../accounts.ts';
import { isMint, isTokenAccount } from '../execute.ts';
import { addressKey, base58, type Key } from '../keys.ts';
import type { Chain } from '../state.ts';
import type { AccountState } from '../vm.ts';
import { Json, toJson } from './json.ts';
import { choice, integer, type Settings } from './params.ts';
import { RpcError } from './rpc-error.ts';

const ENCODINGS = ['binary', 'base58', 'base64', 'jsonParsed'] as const;
const MAX_BASE58_BYTES = 128;
const TOKEN = addressKey(TOKEN_PROGRAM);
const CLOCK = addressKey(CLOCK_SYSVAR);
const TOKEN_STATES = ['uninitialized', 'initialized', 'frozen'];

/**
 * The encoding of account data that a request asks for, and the slice of the account data. A null
 * `slice` means all data.
 */
export interface AccountEncoding {
  readonly encoding: (typeof ENCODINGS)[number];
  readonly slice: { readonly offset: number; readonly length: number } | null;
}

/**
 * Parses the settings `encoding` and `dataSlice` of a request. Throws -32602 for invalid settings,
 * and for base64+zstd, which this chain does not support.
 */
export function accountEncoding(from: Settings): AccountEncoding {
  const slice = from['dataSlice'] as Settings | undefined | null;
  return {
    encoding: choice(from['encoding'], 'encoding', ENCODINGS, 'binary'),
    slice:
      slice === undefined || slice === null
        ? null
        : {
            offset: integer(slice['offset'], 'dataSlice.offset', 0),
            length: integer(slice['length'], 'dataSlice.length', 0),
          },
  };
}

/**
 * Encodes a token amount for JSON-RPC: base units, number of decimals, and the amount as a decimal
 * number.
 */
export function tokenAmount(amount: bigint, decimals: number) {
  const digits = amount.toString().padStart(decimals + 1, '0');
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = decimals === 0 ? '' : digits.slice(-decimals).replace(/0+$/, '');
  const text = fraction === '' ? whole : `${whole}.${fraction}`;
  return { amount: amount.toString(), decimals, uiAmount: Number(text), uiAmountString: text };
}

const programName = (state: AccountState) =>
  state.owner === TOKEN ? 'spl-token' : 'spl-token-2022';

const optionalKey = (data: Buffer, offset: number) =>
  data.readUInt32LE(offset) === 0 ? null : base58(data.toString('latin1', offset + 4, offset + 36));

function parsedTokenAccount(chain: Chain, { data }: AccountState, height: number) {
  const mint = data.toString('latin1', 0, 32);
  const decimals = accountAt(chain, mint, height)?.data[44];
  // The mint does not exist, so the number of decimals is unknown. A validator then returns the
  // account's bytes instead of the parsed form.
  if (decimals === undefined) return null;
  const delegate = optionalKey(data, 72);
  const closeAuthority = optionalKey(data, 129);
  const isNative = data.readUInt32LE(109) === 1;
  return {
    type: 'account',
    info: {
      isNative,
      mint: base58(mint),
      owner: base58(data.toString('latin1', 32, 64)),
      state: TOKEN_STATES[data.readUInt8(108)],
      tokenAmount: tokenAmount(data.readBigUInt64LE(64), decimals),
      ...(delegate === null
        ? {}
        : { delegate, delegatedAmount: tokenAmount(data.readBigUInt64LE(121), decimals) }),
      ...(isNative ? { rentExemptReserve: tokenAmount(data.readBigUInt64LE(113), decimals) } : {}),
      ...(closeAuthority === null ? {} : { closeAuthority }),
    },
  };
}

const parsedMint = ({ data }: AccountState) => ({
  type: 'mint',
  info: {
    decimals: data.readUInt8(44),
    freezeAuthority: optionalKey(data, 46),
    isInitialized: data.readUInt8(45) === 1,
    mintAuthority: optionalKey(data, 0),
    supply: data.readBigUInt64LE(36).toString(),
  },
});

const parsedClock = ({ data }: AccountState) => ({
  type: 'clock',
  info: {
    slot: data.readBigUInt64LE(0),
    epochStartTimestamp: data.readBigInt64LE(8),
    epoch: data.readBigUInt64LE(16),
    leaderScheduleEpoch: data.readBigUInt64LE(24),
    unixTimestamp: data.readBigInt64LE(32),
  },
});

function parsed(chain: Chain, key: Key, state: AccountState, height: number) {
  if (key === CLOCK)
    return { program: 'sysvar', parsed: parsedClock(state), space: state.data.length };
  const content = isTokenAccount(state)
    ? parsedTokenAccount(chain, state, height)
    : isMint(state)
      ? parsedMint(state)
      : null;
  return content === null
    ? null
    : { program: programName(state), parsed: content, space: state.data.length };
}

/**
 * Encodes account data as JSON text for the field `data`. Base64 and Base58 need no escaping, so
 * the text is concatenated. Concatenation is faster than JSON.stringify.
 */
function encodedData(
  chain: Chain,
  key: Key,
  state: AccountState,
  { encoding, slice }: AccountEncoding,
  height: number,
): string {
  if (encoding === 'jsonParsed') {
    const content = parsed(chain, key, state, height);
    if (content !== null) return toJson(content);
  }
  const data =
    slice === null ? state.data : state.data.subarray(slice.offset, slice.offset + slice.length);
  if (encoding === 'base64' || encoding === 'jsonParsed')
    return `["${data.toString('base64')}","base64"]`;
  if (data.length > MAX_BASE58_BYTES) {
    throw new RpcError(
      -32600,
      `Encoded binary (base 58) data should be less than ${MAX_BASE58_BYTES} bytes, please use Base64 encoding.`,
    );
  }
  return encoding === 'base58' ? `["${bs58.encode(data)}","base58"]` : `"${bs58.encode(data)}"`;
}

// Maximum number of cached Base58 addresses of the programs that own accounts. Few programs own
// accounts, so the cache saves most conversions.
const OWNERS_KEPT = 1_000;
const owners = new Map<Key, string>();

function ownerOf({ owner }: AccountState): string {
  const cached = owners.get(owner);
  if (cached !== undefined) return cached;
  if (owners.size >= OWNERS_KEPT) owners.clear();
  const text = base58(owner);
  owners.set(owner, text);
  return text;
}

/**
 * Encodes an account for a JSON-RPC response. Returns null when the account does not exist. The
 * decimals of a token account come from its mint, read at the same `height`.
 */
export function encodeAccount(
  chain: Chain,
  key: Key,
  state: AccountState | null,
  encoding: AccountEncoding,
  height: number,
): Json | null {
  if (state === null) return null;
  const { executable, lamports, rentEpoch, data } = state;
  return new Json(
    `{"data":${encodedData(chain, key, state, encoding, height)},"executable":${executable},"lamports":${lamports},` +
      `"owner":"${ownerOf(state)}","rentEpoch":${rentEpoch},"space":${data.length}}`,
  );
}
