// The network fee of a transaction. Unlike the files beside it, this file does not load web3.js.

/** Network fee of one signature, in lamports. */
export const LAMPORTS_PER_SIGNATURE = 5_000n;
/** Number of micro-lamports in a lamport. */
export const MICRO = 1_000_000n;

/**
 * Returns the network fee in lamports: the fee of the signatures and the priority fee, which is
 * rounded up. `unitPrice` is in micro-lamports per compute unit.
 */
export function networkFee(signatures: bigint, computeUnits: bigint, unitPrice: bigint): bigint {
  return signatures * LAMPORTS_PER_SIGNATURE + (computeUnits * unitPrice + MICRO - 1n) / MICRO;
}
