// Instructions of Solana's own programs, built from Base58 addresses.
import {
  createAssociatedTokenAccountIdempotentInstruction,
  createMintToInstruction,
  createRevokeInstruction,
} from '@solana/spl-token';
import { ComputeBudgetProgram, SystemProgram, TransactionInstruction } from '@solana/web3.js';
import {
  COMPUTE_BUDGET_PROGRAM,
  MEMO_PROGRAM,
  publicKey,
  tokenAccountAddress,
} from '../program/addresses.ts';
import { u32, u8 } from '../program/bytes.ts';
import type { Instruction } from '../program/instructions.ts';

/**
 * Sets the transaction's compute unit limit. Without this instruction the limit is 200,000 units
 * per instruction.
 */
export function computeUnitLimit(units: number): Instruction {
  return ComputeBudgetProgram.setComputeUnitLimit({ units });
}

/** Sets the transaction's priority fee in micro-lamports per compute unit. */
export function computeUnitPrice(microLamports: bigint): Instruction {
  return ComputeBudgetProgram.setComputeUnitPrice({ microLamports });
}

/**
 * Limits the bytes of all accounts and programs that the transaction loads
 * (SetLoadedAccountsDataSizeLimit, which web3.js lacks).
 */
export function loadedDataLimit(bytes: number): Instruction {
  return new TransactionInstruction({
    programId: publicKey(COMPUTE_BUDGET_PROGRAM),
    keys: [],
    data: Buffer.concat([u8(4), u32(bytes)]),
  });
}

/**
 * Writes a memo. Explorers show a memo, and a memo makes a transaction unique. A memo does not
 * prove its author, because anyone can write any memo.
 */
export function memo(text: string): Instruction {
  return new TransactionInstruction({
    programId: publicKey(MEMO_PROGRAM),
    keys: [],
    data: Buffer.from(text, 'utf8'),
  });
}

/**
 * Creates the associated token account (ATA) of `owner` unless the account already exists. `payer`
 * signs and pays the rent.
 */
export function createTokenAccount({
  payer,
  owner,
  mint,
}: {
  payer: string;
  owner: string;
  mint: string;
}): Instruction {
  return createAssociatedTokenAccountIdempotentInstruction(
    publicKey(payer),
    publicKey(tokenAccountAddress(owner, mint).address),
    publicKey(owner),
    publicKey(mint),
  );
}

/** Moves lamports from the wallet `from`, which must sign, to the wallet `to`. */
export function transferLamports(from: string, to: string, lamports: bigint): Instruction {
  return SystemProgram.transfer({ fromPubkey: publicKey(from), toPubkey: publicKey(to), lamports });
}

/** Mints base units to a token account. `authority` is the mint authority and signs. */
export function mintTokens({
  mint,
  account,
  authority,
  amount,
}: {
  mint: string;
  account: string;
  authority: string;
  amount: bigint;
}): Instruction {
  return createMintToInstruction(publicKey(mint), publicKey(account), publicKey(authority), amount);
}

/**
 * Revokes the delegate's approval on the associated token account of `owner` with SPL Token's
 * instruction Revoke. `owner` signs.
 */
export function revokeApproval({ owner, mint }: { owner: string; mint: string }): Instruction {
  const account = tokenAccountAddress(owner, mint).address;
  return createRevokeInstruction(publicKey(account), publicKey(owner));
}
