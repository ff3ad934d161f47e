/** How a gross amount is split, in base units (docs/contract.md, What the service does). */
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

/** An amount in base units for people: "0.10 USDC", with two decimals at the least. */
export function amountDisplay(units: bigint): string {
  const padded = units.toString().padStart(7, '0');
  const fraction = padded.slice(-6).replace(/0{1,4}$/, '');
  return `${padded.slice(0, -6)}.${fraction} USDC`;
}
