import {
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  MEMO_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_PROGRAM,
  tokenAccountAddress,
} from './addresses.ts';
import { u32, u64, u8 } from './bytes.ts';
import type { Instruction } from './instruction.ts';

// Instructions of Solana's own programs that go along with ours.

/** Caps the transaction's compute units; without it each instruction pays for 200,000. */
export function computeUnitLimit(units: number): Instruction {
  return { programId: COMPUTE_BUDGET_PROGRAM, accounts: [], data: Buffer.concat([u8(2), u32(units)]) };
}

/** Priority fee in micro-lamports per compute unit. */
export function computeUnitPrice(microLamports: bigint): Instruction {
  return { programId: COMPUTE_BUDGET_PROGRAM, accounts: [], data: Buffer.concat([u8(3), u64(microLamports)]) };
}

/** Text for explorers and for telling transactions apart. It proves nothing: anyone can write any memo. */
export function memo(text: string): Instruction {
  return { programId: MEMO_PROGRAM, accounts: [], data: Buffer.from(text, 'utf8') };
}

/** Creates the ATA of `owner` unless it is there (CreateIdempotent). `payer` signs and pays the rent. */
export function createTokenAccount({ payer, owner, mint }: { payer: string; owner: string; mint: string }): Instruction {
  return {
    programId: ASSOCIATED_TOKEN_PROGRAM,
    accounts: [
      { address: payer, signer: true, writable: true },
      { address: tokenAccountAddress(owner, mint).address, signer: false, writable: true },
      { address: owner, signer: false, writable: false },
      { address: mint, signer: false, writable: false },
      { address: SYSTEM_PROGRAM, signer: false, writable: false },
      { address: TOKEN_PROGRAM, signer: false, writable: false },
    ],
    data: u8(1),
  };
}
