// Encodes version 1 transactions (SIMD-0385), which web3.js 1.99 can only decode. They have up to
// 4,096 bytes, the limits and the priority fee in the header, and the signatures at the end.
import { TransactionMessage } from '@solana/web3.js';
import { type Keypair, signatureOf } from '../keypair.ts';
import { addressBytes, publicKey } from '../program/addresses.ts';
import { u16, u32, u64, u8 } from '../program/bytes.ts';
import type { Instruction } from '../program/instructions.ts';
import type { SignedTransaction } from './subscriptions.ts';

/**
 * The limits and the priority fee of a transaction. In a version 1 header an omitted limit means 0,
 * so all three values are always written.
 */
export interface TransactionBudget {
  readonly computeUnits: number;
  /** Maximum bytes of all accounts and programs that the transaction loads. */
  readonly loadedDataBytes: number;
  /** Priority fee of the whole transaction in lamports, in addition to the fee for signatures. */
  readonly priorityFee: bigint;
}

const VERSION = 0x81;
// The values that the header contains: bits 0 and 1 stand for the priority fee, bit 2 for the
// compute units, bit 3 for the loaded data. Bit 4 is off, so the default heap size applies.
const CONFIG_MASK = 0b01111;
/**
 * Number of bytes before the account keys: version, header, mask, blockhash, and the counts of
 * instructions and keys.
 */
const FIXED_BYTES = 1 + 3 + 4 + 32 + 1 + 1;

/**
 * Encodes the message of a version 1 transaction: the bytes that the signer signs. Throws a
 * RangeError when a count, a length or an amount is too large for its field.
 */
export function compileMessageV1(
  feePayer: string,
  instructions: readonly Instruction[],
  blockhash: string,
  { computeUnits, loadedDataBytes, priorityFee }: TransactionBudget,
): Buffer {
  // The account keys, the signer counts and the account indexes are the same as in a version 0
  // message without lookup tables.
  const { header, staticAccountKeys, compiledInstructions } = new TransactionMessage({
    payerKey: publicKey(feePayer),
    instructions: [...instructions],
    recentBlockhash: blockhash,
  }).compileToV0Message();
  return Buffer.concat([
    u8(VERSION),
    u8(header.numRequiredSignatures),
    u8(header.numReadonlySignedAccounts),
    u8(header.numReadonlyUnsignedAccounts),
    u32(CONFIG_MASK),
    addressBytes(blockhash),
    u8(compiledInstructions.length),
    u8(staticAccountKeys.length),
    ...staticAccountKeys.map((key) => key.toBytes()),
    u64(priorityFee),
    u32(computeUnits),
    u32(loadedDataBytes),
    ...compiledInstructions.flatMap(({ programIdIndex, accountKeyIndexes, data }) => [
      u8(programIdIndex),
      u8(accountKeyIndexes.length),
      u16(data.length),
    ]),
    ...compiledInstructions.flatMap(({ accountKeyIndexes, data }) => [
      Uint8Array.from(accountKeyIndexes),
      data,
    ]),
  ]);
}

/**
 * Reads the priority fee (lamports) of a transaction that `signTransactionV1` signed. The fee is at
 * a known offset after the keys. Decoding the whole transaction would take 0.3 ms.
 */
export function priorityFeeV1(bytes: Uint8Array): bigint {
  const header = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return header.readBigUInt64LE(FIXED_BYTES + 32 * header.readUInt8(FIXED_BYTES - 1));
}

export const isV1 = (bytes: Uint8Array) => bytes[0] === VERSION;

/**
 * Signs a version 1 transaction whose fee payer is its only signer. Throws a RangeError for a
 * second signer.
 */
export function signTransactionV1(
  keypair: Keypair,
  instructions: readonly Instruction[],
  blockhash: string,
  budget: TransactionBudget,
): SignedTransaction {
  const message = compileMessageV1(keypair.address, instructions, blockhash, budget);
  if (message.readUInt8(1) !== 1) throw new RangeError('signTransactionV1 signs for one signer');
  const bytes = Buffer.concat([message, keypair.sign(message)]);
  return { signature: signatureOf(bytes), bytes };
}
