/** The split of a gross amount, in base units (docs/contract.md, What the service does). */
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

/** Formats base units: "0.10 USDC", with at least two decimals. */
export function amountDisplay(units: bigint): string {
  const padded = units.toString().padStart(7, '0');
  const fraction = padded.slice(-6).replace(/0{1,4}$/, '');
  return `${padded.slice(0, -6)}.${fraction} USDC`;
}
