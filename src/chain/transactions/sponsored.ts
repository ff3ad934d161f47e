// Sponsored transactions: a wallet's transactions whose costs are paid by the sponsor. The sponsor
// is a key of a keeper. The wallet signs first and may append assertions (instructions of the
// Lighthouse program). The sponsor signs only if the rest of the message is what the service built.
// Import this module on demand, because it loads web3.js.
import { createHash } from 'node:crypto';
import { VersionedMessage } from '@solana/web3.js';
import { isSigned, type Keypair, SIGNATURE_LENGTH, signatureOf } from '../keypair.ts';
import type { Instruction } from '../program/instructions.ts';
import { compileMessage, MAX_TRANSACTION_LENGTH } from './message.ts';
import { decodeMessage } from './signed.ts';
import type { SignedTransaction } from './subscriptions.ts';
import {
  computeUnitLimit,
  computeUnitPrice,
  loadedDataLimit,
  memo,
} from './system-instructions.ts';

/**
 * Number of Base64 digits of the hash in the memo. 16 digits have 96 bits, which are enough to
 * identify a transaction that the service offered to a wallet. A longer hash would leave fewer
 * bytes for the instructions that the wallet may append.
 */
const MEMO_DIGITS = 16;
/** Bytes that a message leaves free for Lighthouse instructions, which a wallet may append. */
export const ASSERTION_BYTES = 222;
const SIGNERS = 2;
const MESSAGE_OFFSET = 1 + SIGNERS * SIGNATURE_LENGTH;
/** Maximum length, in bytes, of a message that the sponsor signs. */
const MAX_MESSAGE_LENGTH = MAX_TRANSACTION_LENGTH - MESSAGE_OFFSET;

/** The compute limit, price and loaded-data limit of a sponsored transaction. */
export interface SponsoredBudget {
  readonly computeUnits: number;
  /** Micro-lamports per compute unit. */
  readonly unitPrice: bigint;
  readonly loadedDataBytes: number;
}

/**
 * Compiles the message of a sponsored transaction. `reference` is the id under which the service
 * offers the transaction to the wallet. The memo contains a hash of this id, so that a wallet's
 * signature for one offer is not valid for another offer. If `reference` is null, there is no memo.
 * Throws a RangeError if the message is too long or has signers other than `sponsor` and `wallet`.
 */
export function sponsoredMessage(
  { sponsor, wallet }: { sponsor: string; wallet: string },
  instructions: readonly Instruction[],
  terms: { blockhash: string; reference: string | null; budget: SponsoredBudget },
): Buffer {
  const { computeUnits, unitPrice, loadedDataBytes } = terms.budget;
  const all = [
    computeUnitLimit(computeUnits),
    computeUnitPrice(unitPrice),
    loadedDataLimit(loadedDataBytes),
    ...instructions,
    ...(terms.reference === null ? [] : [memo(`billing ${hashOf(terms.reference)}`)]),
  ];
  const message = compileMessage(sponsor, all, terms.blockhash);
  const signers = message.accountKeys.slice(0, message.header.numRequiredSignatures);
  if (signers.length !== SIGNERS || signers[1]?.toBase58() !== wallet)
    throw new RangeError('a sponsored transaction has two signers: the sponsor and the wallet');
  const bytes = Buffer.from(message.serialize());
  if (bytes.length > MAX_MESSAGE_LENGTH)
    throw new RangeError(
      `the transaction has ${MESSAGE_OFFSET + bytes.length} bytes, of which the sponsor signs ${MAX_TRANSACTION_LENGTH} at most`,
    );
  return bytes;
}

/**
 * Whether a transaction with this message has at most 1,010 bytes, so that ASSERTION_BYTES are
 * free. Only one kind of sign-up is longer (1,031 to 1,042 bytes): the one that also closes an
 * expired account whose rent a third party paid.
 */
export const leavesRoom = (message: Buffer): boolean =>
  message.length + ASSERTION_BYTES <= MAX_MESSAGE_LENGTH;

const hashOf = (reference: string) =>
  createHash('sha256').update(reference).digest('base64url').slice(0, MEMO_DIGITS);

/** Returns a transaction (base64) with the message and empty signatures, for the wallet to sign. */
export function unsignedSponsored(message: Buffer): string {
  const signatures = Buffer.alloc(SIGNERS * SIGNATURE_LENGTH);
  return Buffer.concat([Buffer.of(SIGNERS), signatures, message]).toString('base64');
}

/** A sponsored transaction with the wallet's signature and without the sponsor's signature. */
export interface WalletSigned {
  readonly sponsor: string;
  readonly wallet: string;
  readonly blockhash: string;
  readonly message: Buffer;
  readonly signature: Buffer;
}

/**
 * Parses a legacy transaction with two signers: the sponsor, then the wallet. Returns undefined if
 * the bytes are no such transaction or the wallet's signature is invalid. Ignores the sponsor's
 * signature.
 */
export function readWalletSigned(bytes: Buffer): WalletSigned | undefined {
  if (bytes.length <= MESSAGE_OFFSET || bytes.length > MAX_TRANSACTION_LENGTH) return undefined;
  if (bytes.readUInt8(0) !== SIGNERS) return undefined;
  const signature = bytes.subarray(1 + SIGNATURE_LENGTH, MESSAGE_OFFSET);
  const message = bytes.subarray(MESSAGE_OFFSET);
  const decoded = decodeMessage(message);
  if (decoded?.version !== 'legacy' || decoded.signers.size !== SIGNERS) return undefined;
  const [sponsor, wallet] = decoded.keys;
  if (sponsor === undefined || wallet === undefined) return undefined;
  const [, walletKey] = VersionedMessage.deserialize(message).staticAccountKeys;
  if (walletKey === undefined || !isSigned(walletKey.toBytes(), message, signature))
    return undefined;
  return { sponsor, wallet, blockhash: decoded.blockhash, message, signature };
}

/**
 * Adds the sponsor's signature to a message that the wallet signed. The caller first checks the
 * message with forbiddenChange. Throws a RangeError if the fee payer is not `keypair`.
 */
export function signAsSponsor(
  keypair: Keypair,
  { sponsor, message, signature }: WalletSigned,
): SignedTransaction {
  if (sponsor !== keypair.address) throw new RangeError('the fee payer is another wallet');
  const bytes = Buffer.concat([Buffer.of(SIGNERS), keypair.sign(message), signature, message]);
  return { signature: signatureOf(bytes), bytes };
}
