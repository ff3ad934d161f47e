// A merchant's refund is a token transfer with a reference address among its accounts. The keeper
// finds the refund by this address.
import { createTransferCheckedInstruction } from '@solana/spl-token';
import { publicKey, TOKEN_PROGRAM, tokenAccountAddress } from '../program/addresses.ts';
import type { ExecutedTransaction } from '../program/events.ts';
import { createTokenAccount } from './system-instructions.ts';
import { walletTransaction } from './wallet.ts';

/** Decimals of USDC. */
const DECIMALS = 6;
/** Discriminator of the token program's TransferChecked; the amount (u64) follows. */
const TRANSFER_CHECKED = 12;

export interface RefundTransfer {
  readonly mint: string;
  readonly merchant: string;
  readonly subscriber: string;
  /** Amount in base units. */
  readonly amount: bigint;
  /** A random address that is used for nothing else. */
  readonly reference: string;
}

/**
 * Builds the unsigned refund transaction (base64). The merchant signs it and pays its fee. It
 * creates the subscriber's token account if that is missing.
 */
export function refundTransaction(
  { mint, merchant, subscriber, amount, reference }: RefundTransfer,
  { hasTokenAccount, blockhash }: { hasTokenAccount: boolean; blockhash: string },
): string {
  const transfer = createTransferCheckedInstruction(
    publicKey(tokenAccountAddress(merchant, mint).address),
    publicKey(mint),
    publicKey(tokenAccountAddress(subscriber, mint).address),
    publicKey(merchant),
    amount,
    DECIMALS,
  );
  transfer.keys.push({ pubkey: publicKey(reference), isSigner: false, isWritable: false });
  const opening = hasTokenAccount
    ? []
    : [createTokenAccount({ payer: merchant, owner: subscriber, mint })];
  return walletTransaction(merchant, [...opening, transfer], blockhash);
}

/** Whether the transaction succeeded and contains exactly this transfer. */
export function paysRefund(
  { err, instructions }: ExecutedTransaction,
  { mint, merchant, subscriber, amount, reference }: RefundTransfer,
): boolean {
  const expected = [
    tokenAccountAddress(merchant, mint).address,
    mint,
    tokenAccountAddress(subscriber, mint).address,
    merchant,
    reference,
  ];
  return (
    err === null &&
    instructions.some(({ programId, accounts, data }) => {
      const bytes = Buffer.from(data);
      return (
        programId === TOKEN_PROGRAM &&
        bytes.length >= 9 &&
        bytes[0] === TRANSFER_CHECKED &&
        bytes.readBigUInt64LE(1) === amount &&
        expected.every((address, place) => accounts[place] === address)
      );
    })
  );
}
