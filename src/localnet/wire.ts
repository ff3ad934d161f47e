import { COMPUTE_BUDGET_PROGRAM, SYSTEM_PROGRAM } from '../chain/addresses.ts';
import { MAX_TRANSACTION_LENGTH } from '../chain/message.ts';
import { addressKey, type Key } from './keys.ts';

// The wire form of transactions (legacy and version 0) and the checks that a validator calls sanitizing.
// Strict: LiteSVM's native layer ends the process on bytes that it cannot read.

/** An instruction of a message, by where its parts are in the message's bytes: decoding copies nothing that nobody asks for. */
export interface WireInstruction {
  readonly programIndex: number;
  readonly accountsAt: number;
  readonly accountsLength: number;
  readonly dataAt: number;
  readonly dataLength: number;
}

/** The accounts that a version 0 message takes from one address lookup table. */
export interface TableLookup {
  readonly table: Key;
  readonly writable: Buffer;
  readonly readonly: Buffer;
}

/** A decoded message. `keys` are the static ones only. */
export interface WireMessage {
  /** What the instructions' places refer to. */
  readonly source: Buffer;
  readonly version: 'legacy' | 0;
  readonly requiredSignatures: number;
  readonly readonlySigned: number;
  readonly readonlyUnsigned: number;
  readonly keys: readonly Key[];
  readonly blockhash: Key;
  readonly instructions: readonly WireInstruction[];
  readonly lookups: readonly TableLookup[];
}

/** A decoded transaction. `id` is its first signature. */
export interface WireTransaction {
  readonly bytes: Buffer;
  readonly id: Key;
  readonly signaturesAt: number;
  readonly keysAt: number;
  readonly message: WireMessage;
}

/** Bytes that are no transaction, or one that no validator would run. */
export class WireError extends Error {}

const SIGNATURE_LENGTH = 64;
const KEY_LENGTH = 32;
const VERSION_BIT = 0x80;

class Reader {
  readonly source: Buffer;
  at = 0;

  constructor(source: Buffer) {
    this.source = source;
  }

  byte(): number {
    const value = this.source[this.at];
    if (value === undefined) throw new WireError('io error: unexpected end of file');
    this.at += 1;
    return value;
  }

  /** Passes over `length` bytes and returns where they begin. */
  skip(length: number): number {
    const begin = this.at;
    if (begin + length > this.source.length) throw new WireError('io error: unexpected end of file');
    this.at = begin + length;
    return begin;
  }

  take(length: number): Buffer {
    const begin = this.skip(length);
    return this.source.subarray(begin, this.at);
  }

  key(): Key {
    const begin = this.skip(KEY_LENGTH);
    return this.source.toString('latin1', begin, this.at);
  }

  /** A compact-u16. Only the shortest form is valid. */
  length(): number {
    let value = 0;
    for (let shift = 0; shift < 21; shift += 7) {
      const byte = this.byte();
      if (byte === 0 && shift > 0) throw new WireError('io error: a length is not in its shortest form');
      value |= (byte & 0x7f) << shift;
      if ((byte & 0x80) === 0 && value <= 0xffff) return value;
      if ((byte & 0x80) === 0) break;
    }
    throw new WireError('io error: a length is over 65535');
  }
}

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

function readMessage(reader: Reader): WireMessage {
  const first = reader.byte();
  const version = (first & VERSION_BIT) === 0 ? 'legacy' : 0;
  if (version === 0 && first !== VERSION_BIT) {
    throw new WireError(`invalid value: integer \`${first & 0x7f}\`, expected a valid transaction message version`);
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
  };
  if (!isSane(message)) throw new WireError('Transaction failed to sanitize accounts offsets correctly');
  return message;
}

// The rules of `sanitize` in the Solana SDK's legacy and v0 messages.
function isSane({ source, requiredSignatures, readonlySigned, readonlyUnsigned, keys, instructions, lookups }: WireMessage): boolean {
  let total = keys.length;
  for (const { writable, readonly } of lookups) {
    if (writable.length + readonly.length === 0) return false;
    total += writable.length + readonly.length;
  }
  if (requiredSignatures <= readonlySigned || requiredSignatures + readonlyUnsigned > keys.length || total > 256) return false;
  for (const { programIndex, accountsAt, accountsLength } of instructions) {
    if (programIndex === 0 || programIndex >= keys.length) return false;
    for (let at = accountsAt; at < accountsAt + accountsLength; at += 1) if ((source[at] ?? total) >= total) return false;
  }
  return true;
}

/** The account indexes of an instruction. */
export const accountsOf = ({ source }: WireMessage, { accountsAt, accountsLength }: WireInstruction): Buffer =>
  source.subarray(accountsAt, accountsAt + accountsLength);

/** The data of an instruction. */
export const dataOf = ({ source }: WireMessage, { dataAt, dataLength }: WireInstruction): Buffer =>
  source.subarray(dataAt, dataAt + dataLength);

/** Decodes a transaction; bytes after its end are dropped. Throws WireError. */
export function decodeTransaction(bytes: Buffer): WireTransaction {
  if (bytes.length > MAX_TRANSACTION_LENGTH) throw new WireError(`too large: ${bytes.length} bytes (max: ${MAX_TRANSACTION_LENGTH} bytes)`);
  const reader = new Reader(bytes);
  const count = reader.length();
  const signaturesAt = reader.skip(count * SIGNATURE_LENGTH);
  const header = reader.at;
  const message = readMessage(reader);
  if (count === 0 || count !== message.requiredSignatures) throw new WireError('Transaction failed to sanitize accounts offsets correctly');
  // After the version byte, if there is one, the header's three bytes and the number of keys.
  const keysAt = header + (message.version === 0 ? 4 : 3) + (message.keys.length > 0x7f ? 2 : 1);
  const id = bytes.toString('latin1', signaturesAt, signaturesAt + SIGNATURE_LENGTH);
  return { bytes: bytes.subarray(0, reader.at), id, signaturesAt, keysAt, message };
}

/** Every signature of a transaction, in the order of its signers. */
export const signaturesOf = ({ bytes, signaturesAt, message }: WireTransaction): Buffer[] =>
  Array.from({ length: message.requiredSignatures }, (_, signer) => {
    const begin = signaturesAt + signer * SIGNATURE_LENGTH;
    return bytes.subarray(begin, begin + SIGNATURE_LENGTH);
  });

/** Decodes a message alone. Throws WireError. */
export function decodeMessage(bytes: Buffer): WireMessage {
  return readMessage(new Reader(bytes));
}

/** Whether a transaction's own keys include this one. Nothing but where they are is read: `bytes` have been decoded before. */
export function namesKey(bytes: Buffer, key: Buffer): boolean {
  const reader = new Reader(bytes);
  reader.skip(reader.length() * SIGNATURE_LENGTH);
  reader.skip(((bytes[reader.at] ?? 0) & VERSION_BIT) === 0 ? 3 : 4);
  const count = reader.length();
  const end = reader.at + count * KEY_LENGTH;
  for (let at = bytes.indexOf(key, reader.at); at !== -1 && at < end; at = bytes.indexOf(key, at + 1)) {
    if ((at - reader.at) % KEY_LENGTH === 0) return true;
  }
  return false;
}

/** Whether the static account at `index` may be written, by the message's header. */
export function isWritable(message: WireMessage, index: number): boolean {
  const { requiredSignatures, readonlySigned, readonlyUnsigned, keys } = message;
  return index < requiredSignatures ? index < requiredSignatures - readonlySigned : index < keys.length - readonlyUnsigned;
}

const COMPUTE_BUDGET = addressKey(COMPUTE_BUDGET_PROGRAM);
const LAMPORTS_PER_SIGNATURE = 5_000;
// Units that an instruction counts for when the transaction sets no limit: few for the programs that are built into the runtime (SIMD-170).
const DEFAULT_INSTRUCTION_UNITS = 200_000;
const BUILTIN_INSTRUCTION_UNITS = 3_000;
const BUILTINS: ReadonlySet<Key> = new Set(
  [
    SYSTEM_PROGRAM,
    COMPUTE_BUDGET_PROGRAM,
    'Vote111111111111111111111111111111111111111',
    'BPFLoaderUpgradeab1e11111111111111111111111',
    'BPFLoader1111111111111111111111111111111111',
    'BPFLoader2111111111111111111111111111111111',
    'LoaderV411111111111111111111111111111111111',
  ].map(addressKey),
);
const MAX_UNITS = 1_400_000;

/** What a message offers for its place in a block: micro-lamports per compute unit, and its whole fee in lamports. */
export interface Offer {
  readonly price: bigint;
  readonly fee: number;
}

/** The fee: 5,000 lamports for each signature, and price times units rounded up. */
export function offerOf({ source, keys, instructions, requiredSignatures }: WireMessage): Offer {
  let price = 0n;
  let units: number | undefined;
  let defaults = 0;
  for (const { programIndex, dataAt, dataLength } of instructions) {
    const program = keys[programIndex] ?? '';
    defaults += BUILTINS.has(program) ? BUILTIN_INSTRUCTION_UNITS : DEFAULT_INSTRUCTION_UNITS;
    if (program !== COMPUTE_BUDGET) continue;
    if (source[dataAt] === 2 && dataLength >= 5) units = source.readUInt32LE(dataAt + 1);
    else if (source[dataAt] === 3 && dataLength >= 9) price = source.readBigUInt64LE(dataAt + 1);
  }
  const signatures = requiredSignatures * LAMPORTS_PER_SIGNATURE;
  if (price === 0n) return { price, fee: signatures };
  const budget = BigInt(Math.min(units ?? defaults, MAX_UNITS));
  return { price, fee: signatures + Number((price * budget + 999_999n) / 1_000_000n) };
}
