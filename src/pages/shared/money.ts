import { formatSol, formatUsdc } from '../../format.ts';
import { locale } from './language.ts';

const UNITS_PER_CENT = 10_000n;
/** Rounding to the cent may change an amount by at most 1 / MAX_CHANGE of the amount. */
const MAX_CHANGE = 1000n;

/** Formats USDC base units without rounding: `1,234.50`, `0.005`, `-4.00`. */
export function formatExact(units: string | bigint): string {
  const digits = { minimumFractionDigits: 2, maximumFractionDigits: 6 };
  const exact = BigInt(units);
  const text = exact < 0n ? `-${formatUsdc(-exact)}` : formatUsdc(exact);
  const amount = text as Intl.StringNumericLiteral;
  return new Intl.NumberFormat(locale, digits).format(amount);
}

/**
 * Formats an amount that comes from a division, such as the price of a partial period after a
 * trial. The amount is rounded to the cent, half a cent up. If rounding would change the amount by
 * more than a thousandth, the text has the exact amount.
 */
export function formatToCent(units: string | bigint): string {
  const exact = BigInt(units);
  const cents = toCent(exact);
  const change = exact > cents ? exact - cents : cents - exact;
  return formatExact(change * MAX_CHANGE > exact ? exact : cents);
}

const toCent = (units: bigint): bigint =>
  units < 0n ? -toCent(-units) : ((units + UNITS_PER_CENT / 2n) / UNITS_PER_CENT) * UNITS_PER_CENT;

/** Formats USDC base units for overviews, rounded to the cent. Half a cent is rounded up. */
export function formatCents(units: string | bigint): string {
  return formatExact(toCent(BigInt(units)));
}

/** Rounds USDC base units up to the cent. */
export const upToCent = (units: string | bigint): bigint =>
  ((BigInt(units) + UNITS_PER_CENT - 1n) / UNITS_PER_CENT) * UNITS_PER_CENT;

/** Formats lamports as SOL with at most five decimals; rounds up. */
export function formatSolShort(lamports: string | bigint): string {
  const rounded = ((BigInt(lamports) + 9999n) / 10_000n) * 10_000n;
  const digits = { minimumFractionDigits: 2, maximumFractionDigits: 9 };
  const amount = formatSol(rounded) as Intl.StringNumericLiteral;
  return new Intl.NumberFormat(locale, digits).format(amount);
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
