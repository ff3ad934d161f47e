// Builds unsigned transactions for wallets, with a compute unit limit and a priority fee. A wallet
// may replace both values within the bounds that signed.ts checks.
import type { Instruction } from '../program/instructions.ts';
import { unsignedTransaction } from './message.ts';
import { LAMPORTS_PER_SIGNATURE, MICRO } from './network-fee.ts';
import { computeUnitLimit, computeUnitPrice } from './system-instructions.ts';

/**
 * Compute unit limit per instruction. The most expensive instruction creates a token account and
 * uses about 40,000 units.
 */
const UNITS_AN_INSTRUCTION = 100_000;
/** Compute units added to the limit for Lighthouse instructions, which wallets may append. */
const UNITS_OF_THE_WALLET = 100_000;
/** Priority fee in micro-lamports per compute unit. */
const UNIT_PRICE = 20_000n;

const unitsOf = (instructions: number) => UNITS_AN_INSTRUCTION * instructions + UNITS_OF_THE_WALLET;

/**
 * Returns the network fee in lamports of a wallet transaction with this number of instructions: one
 * signature fee plus the priority fee.
 */
export function walletFee(instructions: number): bigint {
  return LAMPORTS_PER_SIGNATURE + (BigInt(unitsOf(instructions)) * UNIT_PRICE) / MICRO;
}

/**
 * Builds an unsigned transaction (base64) with compute limit and priority fee. The wallet pays the
 * network fee.
 */
export function walletTransaction(
  wallet: string,
  instructions: readonly Instruction[],
  blockhash: string,
): string {
  const budget = [computeUnitLimit(unitsOf(instructions.length)), computeUnitPrice(UNIT_PRICE)];
  return unsignedTransaction(wallet, [...budget, ...instructions], blockhash);
}
