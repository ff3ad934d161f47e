/** USDC base units as USDC with all six decimals. */
export function usdc(units: bigint | string): string {
  const padded = String(units).padStart(7, '0');
  return `${padded.slice(0, -6)}.${padded.slice(-6)}`;
}

/** The same without trailing zeros, but with at least two decimals. */
export function shortUsdc(units: bigint): string {
  return usdc(units).replace(/(\.\d\d\d*?)0+$/, '$1');
}
