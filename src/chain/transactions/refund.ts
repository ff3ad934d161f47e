// A merchant's refund is a token transfer that names a unique reference address as an extra
// account. The keeper finds the refund on chain by this address.
import { createTransferCheckedInstruction } from '@solana/spl-token';
import { publicKey, TOKEN_PROGRAM, tokenAccountAddress } from '../program/addresses.ts';
import type { ExecutedTransaction } from '../program/events.ts';
import { createTokenAccount } from './system-instructions.ts';
import { walletTransaction } from './wallet.ts';

/** Decimals of USDC. */
const DECIMALS = 6;
/**
 * First data byte of the token program's instruction TransferChecked. The amount (u64) follows this
 * byte.
 */
const TRANSFER_CHECKED = 12;

export interface RefundTransfer {
  readonly mint: string;
  readonly merchant: string;
  readonly subscriber: string;
  /** Amount in base units. */
  readonly amount: bigint;
  /** A random address that only this refund names. */
  readonly reference: string;
}

/**
 * Builds the unsigned refund transaction (base64) that the merchant signs and pays for. If the
 * subscriber has no token account, the transaction creates this account first.
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

/**
 * Whether the transaction succeeded and contains a transfer with this refund's accounts, amount and
 * reference address.
 */
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
        expected.every((address, index) => accounts[index] === address)
      );
    })
  );
}
