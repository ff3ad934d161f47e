// Computes the fee of a transaction, and the price per compute unit that the transaction pays.
import { COMPUTE_BUDGET_PROGRAM, SYSTEM_PROGRAM } from '../../chain/program/addresses.ts';
import { addressKey, type Key } from './keys.ts';
import type { MessageConfig, WireMessage } from './wire/message.ts';

const COMPUTE_BUDGET = addressKey(COMPUTE_BUDGET_PROGRAM);
const LAMPORTS_PER_SIGNATURE = 5_000;
// Compute units per instruction, for the fee of a transaction that sets no limit. An instruction of
// a builtin program counts only BUILTIN_INSTRUCTION_UNITS (SIMD-0170).
const DEFAULT_INSTRUCTION_UNITS = 200_000;
const BUILTIN_INSTRUCTION_UNITS = 3_000;
const BUILTINS: ReadonlySet<Key> = new Set(
  [
    SYSTEM_PROGRAM,
    COMPUTE_BUDGET_PROGRAM,
    'Vote111111111111111111111111111111111111111',
    'BPFLoaderUpgradeab1e11111111111111111111111',
    'BPFLoader1111111111111111111111111111111111',
    'BPFLoader2111111111111111111111111111111111',
    'LoaderV411111111111111111111111111111111111',
  ].map(addressKey),
);
const MAX_UNITS = 1_400_000;
const MICRO_LAMPORTS = 1_000_000n;

/**
 * The price and fee of a transaction. `price` is in micro-lamports per compute unit. `fee` is the
 * whole fee in lamports, including signatures.
 */
export interface Offer {
  readonly price: bigint;
  readonly fee: number;
}

/**
 * Returns the price and the compute unit limit of a legacy or version 0 message. The message sets
 * both with compute-budget instructions.
 */
function budgetOf({ source, keys, instructions }: WireMessage) {
  let price = 0n;
  let units: number | undefined;
  let defaults = 0;
  for (const { programIndex, dataAt, dataLength } of instructions) {
    const program = keys[programIndex] ?? '';
    defaults += BUILTINS.has(program) ? BUILTIN_INSTRUCTION_UNITS : DEFAULT_INSTRUCTION_UNITS;
    if (program !== COMPUTE_BUDGET) continue;
    if (source[dataAt] === 2 && dataLength >= 5) units = source.readUInt32LE(dataAt + 1);
    else if (source[dataAt] === 3 && dataLength >= 9) price = source.readBigUInt64LE(dataAt + 1);
  }
  return { price, units: BigInt(Math.min(units ?? defaults, MAX_UNITS)) };
}

/**
 * Computes price and fee of a version 1 message, which sets its priority fee in lamports. The price
 * is the priority fee divided by the compute units. `signatures` is the fee for the signatures in
 * lamports.
 */
function offerOfV1({ priorityFee, computeUnitLimit }: MessageConfig, signatures: number): Offer {
  const units = BigInt(computeUnitLimit ?? 0);
  const priority = priorityFee ?? 0n;
  const price = units === 0n ? 0n : (priority * MICRO_LAMPORTS) / units;
  return { price, fee: signatures + Number(priority) };
}

/**
 * Computes price and fee of a message. The fee is 5,000 lamports per signature plus the priority
 * fee. The priority fee is the price times the compute units, rounded up to lamports.
 */
export function offerOf(message: WireMessage): Offer {
  const signatures = message.requiredSignatures * LAMPORTS_PER_SIGNATURE;
  if (message.config !== null) return offerOfV1(message.config, signatures);
  const { price, units } = budgetOf(message);
  if (price === 0n) return { price, fee: signatures };
  const priority = (price * units + MICRO_LAMPORTS - 1n) / MICRO_LAMPORTS;
  return { price, fee: signatures + Number(priority) };
}
