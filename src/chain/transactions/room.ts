// Computes how much of the runtime's limits a transaction uses. The keeper adds payments to a
// transaction until the next payment would exceed a limit.
import type { AccountMeta } from '@solana/web3.js';
import type { Instruction } from '../program/instructions.ts';
import { MAX_TRANSACTION_LENGTH } from './message.ts';

export type TransactionVersion = 'legacy' | 1;

/**
 * An amount of each limited resource: either what one transaction uses, or the runtime's limit per
 * transaction.
 */
export interface TransactionSize {
  /** Length of the encoded transaction in bytes, including signatures. */
  readonly bytes: number;
  readonly addresses: number;
  /** Number of executed instructions, top-level and inner. */
  readonly traceEntries: number;
  readonly computeUnits: number;
  readonly loadedDataBytes: number;
}

/** A payment, or another group of instructions that must not be split over two transactions. */
export interface Part {
  readonly instructions: readonly Instruction[];
  readonly traceEntries: number;
  readonly computeUnits: number;
  /** Bytes of the accounts that only this part loads. */
  readonly loadedDataBytes: number;
}

/**
 * The runtime's limits for one transaction. `bytes` of version 1 is from SIMD-0385. `addresses` is
 * the limit of account locks. Apart from `bytes`, both versions have the same limits.
 */
export const TRANSACTION_LIMITS: Readonly<Record<TransactionVersion, TransactionSize>> = {
  legacy: {
    bytes: MAX_TRANSACTION_LENGTH,
    addresses: 64,
    traceEntries: 64,
    computeUnits: 1_400_000,
    loadedDataBytes: 64 * 1024 * 1024,
  },
  1: {
    bytes: 4096,
    addresses: 64,
    traceEntries: 64,
    computeUnits: 1_400_000,
    loadedDataBytes: 64 * 1024 * 1024,
  },
};

const ADDRESS_BYTES = 32;
const SIGNATURE_BYTES = 64;
/**
 * Bytes of a version 1 transaction apart from keys, instructions and signatures: version, header,
 * config mask, blockhash, two counts, and the config values (fee, compute units, loaded data).
 */
const V1_FIXED_BYTES = 1 + 3 + 4 + 32 + 1 + 1 + 8 + 4 + 4;
/**
 * Bytes of a legacy transaction's header and blockhash. The counts of a legacy transaction have
 * variable length and are added separately.
 */
const LEGACY_FIXED_BYTES = 3 + 32;

/**
 * Number of bytes that a legacy transaction uses for a length or count (compact-u16, seven bits per
 * byte).
 */
const compactBytes = (value: number) => (value < 0x80 ? 1 : value < 0x4000 ? 2 : 3);

/** The contents of a transaction that is being packed. `add` returns a copy with one more part. */
export interface Contents {
  readonly version: TransactionVersion;
  readonly keys: ReadonlySet<string>;
  readonly signers: ReadonlySet<string>;
  readonly instructions: readonly Instruction[];
  readonly traceEntries: number;
  readonly computeUnits: number;
  readonly loadedDataBytes: number;
}

const keyOf = ({ pubkey }: Pick<AccountMeta, 'pubkey'>) => pubkey.toBase58();

/** Creates a transaction without instructions. `feePayer` is an address. */
export function emptyTransaction(version: TransactionVersion, feePayer: string): Contents {
  const payer = new Set([feePayer]);
  return {
    version,
    keys: payer,
    signers: payer,
    instructions: [],
    traceEntries: 0,
    computeUnits: 0,
    loadedDataBytes: 0,
  };
}

/**
 * Adds a part to a transaction and returns the result. Returns null when the result would exceed a
 * limit.
 */
export function add(contents: Contents, part: Part): Contents | null {
  const metas = part.instructions.flatMap(({ keys, programId }) => [
    ...keys,
    { pubkey: programId, isSigner: false },
  ]);
  const signers = metas.filter(({ isSigner }) => isSigner).map(keyOf);
  const sum = {
    version: contents.version,
    keys: new Set([...contents.keys, ...metas.map(keyOf)]),
    signers: new Set([...contents.signers, ...signers]),
    instructions: [...contents.instructions, ...part.instructions],
    traceEntries: contents.traceEntries + part.traceEntries,
    computeUnits: contents.computeUnits + part.computeUnits,
    loadedDataBytes: contents.loadedDataBytes + part.loadedDataBytes,
  };
  return fits(sum) ? sum : null;
}

function fits(contents: Contents): boolean {
  const size = sizeOf(contents);
  const limits = TRANSACTION_LIMITS[contents.version];
  return (
    size.bytes <= limits.bytes &&
    size.addresses <= limits.addresses &&
    size.traceEntries <= limits.traceEntries &&
    size.computeUnits <= limits.computeUnits &&
    size.loadedDataBytes <= limits.loadedDataBytes
  );
}

/** Computes how much of each limited resource a transaction uses. */
export function sizeOf(contents: Contents): TransactionSize {
  const { version, keys, signers, instructions } = contents;
  const ownBytes = version === 1 ? bytesV1(instructions) : bytesLegacy(instructions, keys.size);
  return {
    bytes: ownBytes + keys.size * ADDRESS_BYTES + signers.size * SIGNATURE_BYTES,
    addresses: keys.size,
    traceEntries: contents.traceEntries,
    computeUnits: contents.computeUnits,
    loadedDataBytes: contents.loadedDataBytes,
  };
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

function bytesV1(instructions: readonly Instruction[]): number {
  return V1_FIXED_BYTES + sum(instructions.map(({ keys, data }) => 4 + keys.length + data.length));
}

function bytesLegacy(instructions: readonly Instruction[], keyCount: number): number {
  const each = instructions.map(
    ({ keys, data }) =>
      1 + compactBytes(keys.length) + keys.length + compactBytes(data.length) + data.length,
  );
  // The number of signatures takes one byte. It would take a second byte from 128 signatures on,
  // but so many signatures exceed the length limit.
  const counts = 1 + compactBytes(keyCount) + compactBytes(instructions.length);
  return LEGACY_FIXED_BYTES + counts + sum(each);
}
