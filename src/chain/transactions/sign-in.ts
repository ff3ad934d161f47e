// Sign-in by a transaction that is never sent, for wallets that sign nothing else: a transfer of 0
// lamports from the wallet to itself, because some hardware wallets refuse a memo alone, and the
// sign-in text as a memo, so that the wallet shows it. Loads web3.js: import it on demand.
import { SYSTEM_PROGRAM } from '../program/addresses.ts';
import { forbiddenChange } from './signed.ts';
import { memo, transferLamports } from './system-instructions.ts';
import { walletTransaction } from './wallet.ts';

/** Offset of the message in an unsigned transaction: a count byte and an empty signature. */
const MESSAGE_OFFSET = 65;

/** The unsigned transaction (base64). If it is sent, it costs its fee. */
export function signInTransaction(wallet: string, text: string, blockhash: string): string {
  const instructions = [transferLamports(wallet, wallet, 0n), memo(text)];
  return walletTransaction(wallet, instructions, blockhash);
}

/**
 * Whether a signed message is that of the sign-in transaction with this text, but for what a wallet
 * may change in every transaction, the blockhash included.
 */
export function isSignInMessage(wallet: string, text: string, signed: Buffer): boolean {
  const built = signInTransaction(wallet, text, SYSTEM_PROGRAM);
  const message = Buffer.from(built, 'base64').subarray(MESSAGE_OFFSET);
  return forbiddenChange(message, signed) === undefined;
}
