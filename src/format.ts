// Formats amounts, and finds the characters of a text that hide or turn it. A leaf without imports:
// the pages bundle it too.

const USDC_DECIMALS = 6;
const SOL_DECIMALS = 9;

/** Base units as a decimal number with at least two decimals, and as many as it has. */
function decimal(units: bigint | string, decimals: number): string {
  const digits = units.toString().padStart(decimals + 1, '0');
  const zeros = new RegExp(`0{1,${decimals - 2}}$`);
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals).replace(zeros, '')}`;
}

/** USDC base units as `1234.50`. */
export function formatUsdc(units: bigint | string): string {
  return decimal(units, USDC_DECIMALS);
}

/** The same with its unit: `1234.50 USDC`. */
export function amountDisplay(units: bigint): string {
  return `${formatUsdc(units)} USDC`;
}

/** USDC base units with all six decimals: `1234.500000`. */
export function formatUsdcExact(units: bigint | string): string {
  const [whole = '', fraction = ''] = formatUsdc(units).split('.');
  return `${whole}.${fraction.padEnd(USDC_DECIMALS, '0')}`;
}

/** USDC base units with separators of thousands: `1,234.50`. */
export function formatUsdcGrouped(units: bigint | string): string {
  const [whole = '', fraction = ''] = formatUsdc(units).split('.');
  return `${new Intl.NumberFormat('en').format(BigInt(whole))}.${fraction}`;
}

/** Lamports as SOL: `0.0023`. */
export function formatSol(lamports: bigint | string): string {
  return decimal(lamports, SOL_DECIMALS);
}

// Controls, invisible formatting (direction overrides are part of it), lone surrogates, private
// use, unassigned, line and paragraph separators.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\u2028\u2029]/gu;

/**
 * Replaces each character that is invisible, changes the direction of text or controls a terminal.
 * The terminal and the pages show text of other parties through this one rule.
 */
export function replaceHidden(text: string, replacement: (character: string) => string): string {
  return text.replace(HIDDEN, replacement);
}

/** Whether a day such as 2026-02-28 exists. Date.parse() takes February 31 as March 3. */
export function isCalendarDay(day: string): boolean {
  const time = new Date(`${day}T00:00:00Z`);
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(day);
}
