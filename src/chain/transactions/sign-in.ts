// Sign-in with a signed transaction that is never sent, for wallets that cannot sign a plain
// message. The transaction's memo is the sign-in text, which the wallet shows. Some hardware
// wallets refuse a memo alone, so the wallet also transfers 0 lamports to itself. Import this
// module on demand: it loads web3.js.
import { SYSTEM_PROGRAM } from '../program/addresses.ts';
import { forbiddenChange } from './signed.ts';
import { memo, transferLamports } from './system-instructions.ts';
import { walletTransaction } from './wallet.ts';

/**
 * Byte offset of the message in an unsigned transaction. A count byte and an empty signature of 64
 * bytes precede the message.
 */
const MESSAGE_OFFSET = 65;

/**
 * Builds the unsigned sign-in transaction (base64). If anyone sends the signed transaction, the
 * wallet loses only the network fee.
 */
export function signInTransaction(wallet: string, text: string, blockhash: string): string {
  const instructions = [transferLamports(wallet, wallet, 0n), memo(text)];
  return walletTransaction(wallet, instructions, blockhash);
}

/**
 * Whether `signed` is the message of the sign-in transaction with this text. The message may
 * contain the changes that `forbiddenChange` allows to wallets, such as another blockhash.
 */
export function isSignInMessage(wallet: string, text: string, signed: Buffer): boolean {
  const built = signInTransaction(wallet, text, SYSTEM_PROGRAM);
  const message = Buffer.from(built, 'base64').subarray(MESSAGE_OFFSET);
  return forbiddenChange(message, signed, 'wallet') === undefined;
}
