// Transactions that the service builds for wallets to sign. They carry a compute limit and a priority fee: a wallet that finds none adds its own,
// and then signs another message than the one it was given, which the relay refuses.
import { unsignedTransaction } from './message.ts';
import type { Instruction } from './instruction.ts';
import { computeUnitLimit, computeUnitPrice } from './system-instructions.ts';

/** Creating a token account, the costliest of ours, takes some 40,000. */
const UNITS_AN_INSTRUCTION = 100_000;
/** Room for the assertion instructions that wallets append. */
const UNITS_OF_THE_WALLET = 100_000;
/** Micro-lamports per compute unit. */
const UNIT_PRICE = 20_000n;
const MICRO = 1_000_000n;
const LAMPORTS_PER_SIGNATURE = 5_000n;

const unitsOf = (instructions: number) => UNITS_AN_INSTRUCTION * instructions + UNITS_OF_THE_WALLET;

/** The fee in lamports of a wallet's transaction with so many instructions: its one signature and its priority. */
export function walletFee(instructions: number): bigint {
  return LAMPORTS_PER_SIGNATURE + (BigInt(unitsOf(instructions)) * UNIT_PRICE) / MICRO;
}

/** An unsigned transaction in base64 with a compute limit and a priority fee before its instructions; the wallet pays. */
export function walletTransaction(
  wallet: string,
  instructions: readonly Instruction[],
  blockhash: string,
): string {
  const budget = [computeUnitLimit(unitsOf(instructions.length)), computeUnitPrice(UNIT_PRICE)];
  return unsignedTransaction(wallet, [...budget, ...instructions], blockhash);
}
