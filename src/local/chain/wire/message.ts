// The parts of a decoded transaction.
import type { Key } from '../keys.ts';

/**
 * An instruction as offsets into the message's bytes: decoding copies neither accounts nor data.
 */
export interface WireInstruction {
  readonly programIndex: number;
  readonly accountsAt: number;
  readonly accountsLength: number;
  readonly dataAt: number;
  readonly dataLength: number;
}

/** The entries of one address lookup table that a version 0 message uses. */
export interface TableLookup {
  readonly table: Key;
  readonly writable: Buffer;
  readonly readonly: Buffer;
}

/** The limits and the fee in a version 1 message; null where it sets none. */
export interface MessageConfig {
  /** Lamports for the whole transaction. */
  readonly priorityFee: bigint | null;
  readonly computeUnitLimit: number | null;
  readonly loadedAccountsDataSizeLimit: number | null;
  readonly heapSize: number | null;
}

/** A decoded message. `keys` has the static keys only; `config` is null before version 1. */
export interface WireMessage {
  /** The bytes that the instructions' offsets refer to. */
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
 * A decoded transaction. `id` is its first signature. The signatures are over the bytes from
 * `signedAt` to `signedEnd`.
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

/** Bytes of a signature. */
export const SIGNATURE_LENGTH = 64;
/** Bytes of a public key or a blockhash. */
export const KEY_LENGTH = 32;

/** The indexes of an instruction's accounts. */
export const accountsOf = (
  { source }: WireMessage,
  { accountsAt, accountsLength }: WireInstruction,
): Buffer => source.subarray(accountsAt, accountsAt + accountsLength);

/** The data of an instruction. */
export const dataOf = ({ source }: WireMessage, { dataAt, dataLength }: WireInstruction): Buffer =>
  source.subarray(dataAt, dataAt + dataLength);

/** Every signature of a transaction, in the order of its signers. */
export const signaturesOf = ({ bytes, signaturesAt, message }: WireTransaction): Buffer[] =>
  Array.from({ length: message.requiredSignatures }, (_, signer) => {
    const begin = signaturesAt + signer * SIGNATURE_LENGTH;
    return bytes.subarray(begin, begin + SIGNATURE_LENGTH);
  });

/** Whether the message's header makes the static account at `index` writable. */
export function isWritable(message: WireMessage, index: number): boolean {
  const { requiredSignatures, readonlySigned, readonlyUnsigned, keys } = message;
  return index < requiredSignatures
    ? index < requiredSignatures - readonlySigned
    : index < keys.length - readonlyUnsigned;
}
