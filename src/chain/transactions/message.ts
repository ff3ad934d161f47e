import {
  type Message,
  PACKET_DATA_SIZE,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import type { Keypair } from '../keypair.ts';
import { publicKey } from '../program/addresses.ts';
import type { Instruction } from '../program/instructions.ts';

/** Maximum length of a legacy transaction in bytes. */
export const MAX_TRANSACTION_LENGTH = PACKET_DATA_SIZE;

/**
 * Compiles the message of a legacy transaction. Throws a TypeError when `feePayer` is not an
 * address.
 */
export function compileMessage(
  feePayer: string,
  instructions: readonly Instruction[],
  blockhash: string,
): Message {
  return new TransactionMessage({
    payerKey: publicKey(feePayer),
    instructions: [...instructions],
    recentBlockhash: blockhash,
  }).compileToLegacyMessage();
}

/**
 * Encodes a legacy transaction for the network. Throws a RangeError when the encoded transaction is
 * longer than MAX_TRANSACTION_LENGTH.
 */
export function serializeTransaction(message: Message, signatures?: Uint8Array[]): Buffer {
  const bytes = Buffer.from(new VersionedTransaction(message, signatures).serialize());
  if (bytes.length > MAX_TRANSACTION_LENGTH)
    throw new RangeError(
      `the transaction has ${bytes.length} bytes, more than the ${MAX_TRANSACTION_LENGTH} that the network carries`,
    );
  return bytes;
}

/**
 * Builds an unsigned legacy transaction in base64, in the form that web3.js `Transaction.from` and
 * wallets read.
 */
export function unsignedTransaction(
  feePayer: string,
  instructions: readonly Instruction[],
  blockhash: string,
): string {
  return serializeTransaction(compileMessage(feePayer, instructions, blockhash)).toString('base64');
}

/**
 * Returns the message of a transaction in base64: the bytes that addSignature signs. Throws an
 * Error when the text is not a transaction.
 */
export function messageIn(base64: string): Buffer {
  const { message } = VersionedTransaction.deserialize(Buffer.from(base64, 'base64'));
  return Buffer.from(message.serialize());
}

/**
 * Adds a wallet's signature to a transaction in base64. Throws an Error when the transaction does
 * not need the wallet's signature.
 */
export function addSignature(keypair: Keypair, base64: string): string {
  const transaction = VersionedTransaction.deserialize(Buffer.from(base64, 'base64'));
  const signature = keypair.sign(transaction.message.serialize());
  transaction.addSignature(publicKey(keypair.address), signature);
  return Buffer.from(transaction.serialize()).toString('base64');
}

/**
 * Returns the number of instructions of a transaction of any version. Throws an Error when the
 * bytes are not a transaction.
 */
export function instructionCount(transaction: Uint8Array): number {
  return VersionedTransaction.deserialize(transaction).message.compiledInstructions.length;
}
