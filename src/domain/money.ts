/** The split of a gross amount in base units (docs/contract.md, "What the service does"). */
export interface Split {
  gross: bigint;
  fee: bigint;
  net: bigint;
}

/** fee = floor(gross * feeBps / 10000), net = gross - fee. `feeBps` from 0 to 10000. */
export function split(gross: bigint, feeBps: number): Split {
  const fee = (gross * BigInt(feeBps)) / 10_000n;
  return { gross, fee, net: gross - fee };
}
