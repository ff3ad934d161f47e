import { formatSol, formatUsdcGrouped } from '../../format.ts';

/** Formats USDC base units for overviews, rounded to the cent. Half a cent is rounded up. */
export function formatCents(units: string | bigint): string {
  return formatUsdcGrouped(((BigInt(units) + 5000n) / 10_000n) * 10_000n);
}

/** Formats lamports as SOL, rounded up at the fifth decimal. */
export function formatSolShort(lamports: string | bigint): string {
  return formatSol(((BigInt(lamports) + 9999n) / 10_000n) * 10_000n);
}

/**
 * Converts typed USDC such as `9.5` to base units. Returns undefined unless the text is an amount
 * above 0 with at most six decimals.
 */
export function parseUsdc(text: string): string | undefined {
  const [, whole = '', fraction = ''] = /^(\d{1,13})(?:\.(\d{1,6}))?$/.exec(text.trim()) ?? [];
  if (whole === '') return undefined;
  const units = BigInt(whole) * 1_000_000n + BigInt(fraction.padEnd(6, '0'));
  return units === 0n ? undefined : units.toString();
}
