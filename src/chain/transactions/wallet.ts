// Unsigned transactions for wallets. They include a compute limit and a priority fee. A wallet may
// set its own within the bounds of signed.ts.
import type { Instruction } from '../program/instructions.ts';
import { unsignedTransaction } from './message.ts';
import {
  computeUnitLimit,
  computeUnitPrice,
  LAMPORTS_PER_SIGNATURE,
  MICRO,
} from './system-instructions.ts';

/**
 * Compute units per instruction. The most expensive instruction, which creates a token account,
 * uses some 40,000.
 */
const UNITS_AN_INSTRUCTION = 100_000;
/** Compute units for the assertion instructions that wallets append. */
const UNITS_OF_THE_WALLET = 100_000;
/** Priority fee in micro-lamports per compute unit. */
const UNIT_PRICE = 20_000n;

const unitsOf = (instructions: number) => UNITS_AN_INSTRUCTION * instructions + UNITS_OF_THE_WALLET;

/**
 * The fee in lamports of a wallet transaction with `instructions` instructions: one signature fee
 * plus the priority fee.
 */
export function walletFee(instructions: number): bigint {
  return LAMPORTS_PER_SIGNATURE + (BigInt(unitsOf(instructions)) * UNIT_PRICE) / MICRO;
}

/**
 * Builds an unsigned transaction (base64) with compute limit and priority fee. The wallet is the
 * fee payer.
 */
export function walletTransaction(
  wallet: string,
  instructions: readonly Instruction[],
  blockhash: string,
): string {
  const budget = [computeUnitLimit(unitsOf(instructions.length)), computeUnitPrice(UNIT_PRICE)];
  return unsignedTransaction(wallet, [...budget, ...instructions], blockhash);
}
