// The compute limit, the price per compute unit and the loaded-data limit of sponsored
// transactions. The API derives the limits from a simulation. A keeper accepts only values within
// the bounds of this file, so that a forged offer cannot raise the fee.
import { AUTHORITY_LENGTH, SUBSCRIPTION_LENGTH } from '../../chain/program/layouts.ts';
import { networkFee } from '../../chain/transactions/network-fee.ts';
import type { SponsoredBudget } from '../../chain/transactions/sponsored.ts';
import type { BuiltSponsored } from './build.ts';

/** Micro-lamports per compute unit. Every sponsored transaction has this price. */
const UNIT_PRICE = 20_000n;
/** Maximum compute limit. The longest sign-up uses about 70,000 units. */
const MAX_COMPUTE_UNITS = 250_000;
const MAX_LOADED_BYTES = 16 * 1024 * 1024;
/**
 * Compute units for assertions. Assertions are instructions that wallets append. An assertion makes
 * the transaction fail when the transaction's effect differs from the wallet's simulation.
 */
const ASSERTION_UNITS = 40_000;
/** Bytes of loaded data for the assertions and their program. */
const ASSERTION_LOADED_BYTES = 1024 * 1024;
const MARGIN = 1.2;
const SIGNATURES = 2n;

export const MAX_BUDGET: SponsoredBudget = {
  computeUnits: MAX_COMPUTE_UNITS,
  unitPrice: UNIT_PRICE,
  loadedDataBytes: MAX_LOADED_BYTES,
};

/**
 * Returns the budget of a transaction from its simulation. An argument is null if the RPC endpoint
 * did not report it.
 */
export function budgetOf(units: bigint | null, loadedBytes: bigint | null): SponsoredBudget {
  const [used, loaded] = [units, loadedBytes].map((value) =>
    value === null ? null : Math.ceil(Number(value) * MARGIN),
  );
  return {
    computeUnits: Math.min(MAX_COMPUTE_UNITS, (used ?? MAX_COMPUTE_UNITS) + ASSERTION_UNITS),
    unitPrice: UNIT_PRICE,
    loadedDataBytes: Math.min(
      MAX_LOADED_BYTES,
      (loaded ?? MAX_LOADED_BYTES) + ASSERTION_LOADED_BYTES,
    ),
  };
}

/** Returns whether a budget is within the bounds of this file. */
export function isAllowedBudget({
  computeUnits,
  unitPrice,
  loadedDataBytes,
}: SponsoredBudget): boolean {
  return (
    computeUnits <= MAX_COMPUTE_UNITS &&
    unitPrice === UNIT_PRICE &&
    loadedDataBytes <= MAX_LOADED_BYTES
  );
}

/** Returns the network fee (lamports) of a transaction with this budget. */
export function maxFeeOf({ computeUnits, unitPrice }: SponsoredBudget): bigint {
  return networkFee(SIGNATURES, BigInt(computeUnits), unitPrice);
}

/** Reads the rent (lamports) of the accounts that a transaction opens; 0 for others. */
export async function rentsOf(
  read: (length: number) => Promise<bigint>,
  { opensAuthority, opensSubscription }: BuiltSponsored,
): Promise<{ authorityRent: bigint; subscriptionRent: bigint }> {
  const [authorityRent, subscriptionRent] = await Promise.all([
    opensAuthority ? read(AUTHORITY_LENGTH) : 0n,
    opensSubscription ? read(SUBSCRIPTION_LENGTH) : 0n,
  ]);
  return { authorityRent, subscriptionRent };
}
