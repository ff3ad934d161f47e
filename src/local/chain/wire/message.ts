// Types and functions for the parts of a decoded transaction.
import type { Key } from '../keys.ts';

/**
 * An instruction of a message. Accounts and data are offsets into the message's bytes, so decoding
 * copies neither of them.
 */
export interface WireInstruction {
  readonly programIndex: number;
  readonly accountsAt: number;
  readonly accountsLength: number;
  readonly dataAt: number;
  readonly dataLength: number;
}

/**
 * An address lookup table that a version 0 message uses. `writable` and `readonly` are the indexes
 * of the entries that the message takes, one byte each.
 */
export interface TableLookup {
  readonly table: Key;
  readonly writable: Buffer;
  readonly readonly: Buffer;
}

/**
 * The compute limits and the priority fee that a version 1 message sets. A field is null when the
 * message does not set it.
 */
export interface MessageConfig {
  /** Priority fee in lamports for the whole transaction. */
  readonly priorityFee: bigint | null;
  readonly computeUnitLimit: number | null;
  readonly loadedAccountsDataSizeLimit: number | null;
  readonly heapSize: number | null;
}

/**
 * A decoded message. `keys` has only the static keys, not the keys from lookup tables. `config` is
 * null for legacy and version 0 messages.
 */
export interface WireMessage {
  /** The bytes to which the offsets of the instructions refer. */
  readonly source: Buffer;
  readonly version: 'legacy' | 0 | 1;
  readonly requiredSignatures: number;
  readonly readonlySigned: number;
  readonly readonlyUnsigned: number;
  readonly keys: readonly Key[];
  readonly blockhash: Key;
  readonly instructions: readonly WireInstruction[];
  readonly lookups: readonly TableLookup[];
  readonly config: MessageConfig | null;
}

/**
 * A decoded transaction. `id` is the transaction's first signature. The signers sign the message,
 * which is `bytes` from `signedAt` to `signedEnd`.
 */
export interface WireTransaction {
  readonly bytes: Buffer;
  readonly id: Key;
  readonly signaturesAt: number;
  readonly keysAt: number;
  readonly signedAt: number;
  readonly signedEnd: number;
  readonly message: WireMessage;
}

/** Length of a signature in bytes. */
export const SIGNATURE_LENGTH = 64;
/** Length of a public key or blockhash in bytes. */
export const KEY_LENGTH = 32;

/** Returns the indexes of an instruction's accounts among the message's keys, one byte each. */
export const accountsOf = (
  { source }: WireMessage,
  { accountsAt, accountsLength }: WireInstruction,
): Buffer => source.subarray(accountsAt, accountsAt + accountsLength);

export const dataOf = ({ source }: WireMessage, { dataAt, dataLength }: WireInstruction): Buffer =>
  source.subarray(dataAt, dataAt + dataLength);

/** Returns all signatures of a transaction, in the order of its signers. */
export const signaturesOf = ({ bytes, signaturesAt, message }: WireTransaction): Buffer[] =>
  Array.from({ length: message.requiredSignatures }, (_, signer) => {
    const begin = signaturesAt + signer * SIGNATURE_LENGTH;
    return bytes.subarray(begin, begin + SIGNATURE_LENGTH);
  });

/** Returns whether the header of a message makes the static account at `index` writable. */
export function isWritable(message: WireMessage, index: number): boolean {
  const { requiredSignatures, readonlySigned, readonlyUnsigned, keys } = message;
  return index < requiredSignatures
    ? index < requiredSignatures - readonlySigned
    : index < keys.length - readonlyUnsigned;
}
