// Decodes transactions and makes the checks of `sanitize` in the Solana SDK, as a validator does.
// The decoder is strict, because LiteSVM's native layer ends the process on bytes that it cannot
// read.
import { MAX_TRANSACTION_LENGTH } from '../../../chain/transactions/message.ts';
import type { Key } from '../keys.ts';
import {
  KEY_LENGTH,
  SIGNATURE_LENGTH,
  type TableLookup,
  type WireInstruction,
  type WireMessage,
  type WireTransaction,
} from './message.ts';
import { sanitize, failSanitize, Reader, WireError } from './reader.ts';
import { MAX_V1_LENGTH, readV1Message, V1_KEY_COUNT_AT, VERSION_1 } from './version-1.ts';

const VERSION_BIT = 0x80;
const MAX_LOADED_KEYS = 256;

/**
 * Returns whether the bytes are a version 1 transaction, whose first byte is 0x81 (129). In other
 * versions the first byte is the number of signatures, which is always lower.
 */
export const isV1 = (bytes: Buffer) => bytes[0] === VERSION_1;

function readMany<T>(reader: Reader, read: (reader: Reader) => T): T[] {
  const items: T[] = [];
  for (let left = reader.length(); left > 0; left -= 1) items.push(read(reader));
  return items;
}

function readInstruction(reader: Reader): WireInstruction {
  const programIndex = reader.byte();
  const accountsLength = reader.length();
  const accountsAt = reader.skip(accountsLength);
  const dataLength = reader.length();
  return { programIndex, accountsAt, accountsLength, dataAt: reader.skip(dataLength), dataLength };
}

const readKey = (reader: Reader) => reader.key();
const readLookup = (reader: Reader): TableLookup => ({
  table: reader.key(),
  writable: reader.take(reader.length()),
  readonly: reader.take(reader.length()),
});

/** Reads a legacy or version 0 message. */
function readMessage(reader: Reader): WireMessage {
  const first = reader.byte();
  const version = (first & VERSION_BIT) === 0 ? 'legacy' : 0;
  if (version === 0 && first !== VERSION_BIT) {
    throw new WireError(
      `invalid value: integer \`${first & 0x7f}\`, expected a valid transaction message version`,
    );
  }
  const message: WireMessage = {
    source: reader.source,
    version,
    requiredSignatures: version === 0 ? reader.byte() : first,
    readonlySigned: reader.byte(),
    readonlyUnsigned: reader.byte(),
    keys: readMany(reader, readKey),
    blockhash: reader.key(),
    instructions: readMany(reader, readInstruction),
    lookups: version === 0 ? readMany(reader, readLookup) : [],
    config: null,
  };
  let total = message.keys.length;
  for (const { writable, readonly } of message.lookups) {
    if (writable.length + readonly.length === 0) failSanitize();
    total += writable.length + readonly.length;
  }
  if (total > MAX_LOADED_KEYS) failSanitize();
  sanitize(message, total);
  return message;
}

function checkLength({ length }: Buffer, max: number): void {
  if (length > max) throw new WireError(`too large: ${length} bytes (max: ${max} bytes)`);
}

const idAt = (bytes: Buffer, at: number): Key =>
  bytes.toString('latin1', at, at + SIGNATURE_LENGTH);

function decodeV1(bytes: Buffer): WireTransaction {
  checkLength(bytes, MAX_V1_LENGTH);
  const reader = new Reader(bytes, 1);
  const message = readV1Message(reader);
  const signedEnd = reader.at;
  const signaturesAt = reader.skip(message.requiredSignatures * SIGNATURE_LENGTH);
  return {
    bytes: bytes.subarray(0, reader.at),
    id: idAt(bytes, signaturesAt),
    signaturesAt,
    keysAt: V1_KEY_COUNT_AT + 1,
    signedAt: 0,
    signedEnd,
    message,
  };
}

/**
 * Decodes a transaction. Bytes after its end are ignored. Throws WireError. If `takesV1` is false
 * (the cluster does not support version 1), a version 1 transaction throws too.
 */
export function decodeTransaction(bytes: Buffer, takesV1 = true): WireTransaction {
  if (takesV1 && isV1(bytes)) return decodeV1(bytes);
  checkLength(bytes, MAX_TRANSACTION_LENGTH);
  const reader = new Reader(bytes);
  const count = reader.length();
  const signaturesAt = reader.skip(count * SIGNATURE_LENGTH);
  const signedAt = reader.at;
  const message = readMessage(reader);
  if (count === 0 || count !== message.requiredSignatures) failSanitize();
  // The account keys follow the version byte (version 0 only), the three bytes of the header and
  // the number of keys, which takes one or two bytes.
  const keysAt = signedAt + (message.version === 0 ? 4 : 3) + (message.keys.length > 0x7f ? 2 : 1);
  return {
    bytes: bytes.subarray(0, reader.at),
    id: idAt(bytes, signaturesAt),
    signaturesAt,
    keysAt,
    signedAt,
    signedEnd: reader.at,
    message,
  };
}

/** Decodes a message that comes without signatures. Throws WireError. */
export function decodeMessage(bytes: Buffer, takesV1 = true): WireMessage {
  return takesV1 && isV1(bytes)
    ? readV1Message(new Reader(bytes, 1))
    : readMessage(new Reader(bytes));
}

function skipToKeyCount(reader: Reader): void {
  if (isV1(reader.source)) {
    reader.skip(V1_KEY_COUNT_AT);
    return;
  }
  reader.skip(reader.length() * SIGNATURE_LENGTH);
  reader.skip(((reader.source[reader.at] ?? 0) & VERSION_BIT) === 0 ? 3 : 4);
}

/**
 * Returns whether a decoded transaction has this key among its static keys. The function searches
 * the bytes, because a second decoding would take longer.
 */
export function namesKey(bytes: Buffer, key: Buffer): boolean {
  const reader = new Reader(bytes);
  skipToKeyCount(reader);
  // Version 1 stores the number of keys in one byte, other versions store a compact-u16. length()
  // reads both, because a compact-u16 below 128 is one byte and version 1 allows only 64 keys.
  const count = reader.length();
  const end = reader.at + count * KEY_LENGTH;
  for (
    let at = bytes.indexOf(key, reader.at);
    at !== -1 && at < end;
    at = bytes.indexOf(key, at + 1)
  ) {
    if ((at - reader.at) % KEY_LENGTH === 0) return true;
  }
  return false;
}
