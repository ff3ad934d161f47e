// The RPC methods that read past transactions.
import { MEMO_PROGRAM } from '../../../chain/program/addresses.ts';
import { blockAt, heightOf } from '../accounts.ts';
import { landedAt } from '../blocks.ts';
import { addressKey, base58, bytesOf, type Key } from '../keys.ts';
import { type Chain, type Landed, type Payload, STATUS_BLOCKS } from '../state.ts';
import { decodeTransaction, namesKey } from '../wire/decode.ts';
import { dataOf, type WireTransaction } from '../wire/message.ts';
import {
  checkVersion,
  encodeMeta,
  encodeTransaction,
  TRANSACTION_ENCODINGS,
  okOrErr,
} from './encode-transaction.ts';
import {
  choice,
  confirmedViewOf,
  flag,
  integer,
  type LocalEndpoint,
  publicKey,
  required,
  settings,
  type Settings,
  signature,
  viewAt,
} from './params.ts';
import { invalidParams } from './rpc-error.ts';

const MAX_STATUSES = 256;
const MAX_SIGNATURES = 1_000;
const MEMO = addressKey(MEMO_PROGRAM);

function confirmationStatus({ chain, lagging }: LocalEndpoint, { height }: Landed) {
  const lag = lagging ? chain.faults.lag : 0;
  if (height <= heightOf(chain, 'finalized', lag)) return 'finalized';
  return height <= heightOf(chain, 'confirmed', lag) ? 'confirmed' : 'processed';
}

function status(endpoint: LocalEndpoint, landed: Landed, newest: number) {
  const level = confirmationStatus(endpoint, landed);
  return {
    confirmationStatus: level,
    confirmations: level === 'finalized' ? null : newest - landed.height,
    err: landed.err,
    slot: landed.slot,
    status: okOrErr(landed.err),
  };
}

function getSignatureStatuses(params: readonly unknown[], endpoint: LocalEndpoint) {
  const list = required(params, 0);
  if (!Array.isArray(list)) throw invalidParams('Invalid params: expected an array of signatures');
  if (list.length > MAX_STATUSES)
    throw invalidParams(`Too many inputs provided; max ${MAX_STATUSES}`);
  const ids = list.map(signature);
  const search = flag(
    settings(params, 1)['searchTransactionHistory'],
    'searchTransactionHistory',
    false,
  );
  const { chain } = endpoint;
  const { context, height } = viewAt(endpoint, 'processed');
  const value = ids.map((id) => {
    const landed = landedAt(chain, id, height);
    // Without searchTransactionHistory a validator returns the statuses of recent transactions
    // only.
    const recent = landed !== undefined && (search || landed.height >= height - STATUS_BLOCKS);
    return recent ? status(endpoint, landed, height) : null;
  });
  return { context, value };
}

/**
 * Returns all account keys of a transaction: first the static keys, then the keys from lookup
 * tables.
 */
const keysOf = ({ message }: WireTransaction, { loaded }: Payload): readonly Key[] =>
  loaded.writable.length + loaded.readonly.length === 0
    ? message.keys
    : [...message.keys, ...loaded.writable, ...loaded.readonly];

const blockTime = (chain: Chain, { height }: Landed) => {
  const block = blockAt(chain, height);
  return block === undefined ? null : Math.floor(block.time / 1000);
};

function getTransaction(params: readonly unknown[], endpoint: LocalEndpoint) {
  const id = signature(required(params, 0));
  // Older clients send the encoding as a string instead of the settings object.
  const from: Settings =
    typeof params[1] === 'string' ? { encoding: params[1] } : settings(params, 1);
  const encoding = choice(from['encoding'], 'encoding', TRANSACTION_ENCODINGS, 'json');
  const max = from['maxSupportedTransactionVersion'];
  const maxSupported =
    max === undefined || max === null
      ? undefined
      : integer(max, 'maxSupportedTransactionVersion', 0, 255);
  const { height } = confirmedViewOf(endpoint, from);
  const landed = landedAt(endpoint.chain, id, height);
  if (landed === undefined || landed.payload === null) return null;
  const transaction = decodeTransaction(landed.payload.bytes);
  checkVersion(transaction.message, maxSupported);
  const keys = keysOf(transaction, landed.payload);
  return {
    blockTime: blockTime(endpoint.chain, landed),
    meta: encodeMeta(landed.err, landed.payload, keys, encoding),
    slot: landed.slot,
    transaction: encodeTransaction(transaction, landed.payload, keys, encoding),
    ...(maxSupported === undefined ? {} : { version: transaction.message.version }),
  };
}

/**
 * Returns whether a transaction names `key` as signer, program or any other account. `keyBytes` are
 * the bytes of `key`. They are a parameter so that a caller that checks many transactions converts
 * the key only once.
 */
export function mentions({ bytes, loaded }: Payload, key: Key, keyBytes: Buffer): boolean {
  if (loaded.writable.includes(key) || loaded.readonly.includes(key)) return true;
  return namesKey(bytes, keyBytes);
}

/** Returns the memos of a transaction in a validator's format: "[length] text", joined by "; ". */
function memoOf({ bytes }: Payload): string | null {
  const { message } = decodeTransaction(bytes);
  const memos = message.instructions
    .filter(({ programIndex }) => message.keys[programIndex] === MEMO)
    .map(
      (instruction) =>
        `[${instruction.dataLength}] ${dataOf(message, instruction).toString('utf8')}`,
    );
  return memos.length === 0 ? null : memos.join('; ');
}

function indexOf(chain: Chain, value: unknown, fallback: number): number {
  if (value === undefined || value === null) return fallback;
  const landed = chain.byId.get(signature(value));
  return landed === undefined ? fallback : chain.landed.indexOf(landed);
}

function getSignaturesForAddress(params: readonly unknown[], endpoint: LocalEndpoint) {
  const key = publicKey(required(params, 0));
  const from = settings(params, 1);
  const limit =
    from['limit'] === undefined || from['limit'] === null
      ? MAX_SIGNATURES
      : integer(from['limit'], 'limit', 1, MAX_SIGNATURES);
  const { chain } = endpoint;
  const { height } = confirmedViewOf(endpoint, from);
  const before = indexOf(chain, from['before'], chain.landed.length);
  const until = Math.max(indexOf(chain, from['until'], -1), chain.firstPayload - 1);
  const keyBytes = bytesOf(key);
  const found = [];
  for (let index = before - 1; index > until && found.length < limit; index -= 1) {
    const landed = chain.landed[index];
    if (
      landed === undefined ||
      landed.payload === null ||
      landed.height > height ||
      !mentions(landed.payload, key, keyBytes)
    )
      continue;
    found.push({
      blockTime: blockTime(chain, landed),
      confirmationStatus: confirmationStatus(endpoint, landed),
      err: landed.err,
      memo: memoOf(landed.payload),
      signature: base58(landed.id),
      slot: landed.slot,
    });
  }
  return found;
}

export const historyMethods = { getSignatureStatuses, getTransaction, getSignaturesForAddress };
