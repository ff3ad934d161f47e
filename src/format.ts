// Formats amounts, and replaces hidden characters in text. This file has no imports, because the
// pages bundle it too.

const USDC_DECIMALS = 6;
const SOL_DECIMALS = 9;

/** Formats base units as a decimal number with two decimals, or more if the amount needs them. */
function decimal(units: bigint | string, decimals: number): string {
  const digits = units.toString().padStart(decimals + 1, '0');
  const zeros = new RegExp(`0{1,${decimals - 2}}$`);
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals).replace(zeros, '')}`;
}

/** Formats USDC base units as `1234.50`. */
export function formatUsdc(units: bigint | string): string {
  return decimal(units, USDC_DECIMALS);
}

/** Formats USDC base units with the unit: `1234.50 USDC`. */
export function amountDisplay(units: bigint): string {
  return `${formatUsdc(units)} USDC`;
}

/** Formats USDC base units with all six decimals: `1234.500000`. */
export function formatUsdcExact(units: bigint | string): string {
  const [whole = '', fraction = ''] = formatUsdc(units).split('.');
  return `${whole}.${fraction.padEnd(USDC_DECIMALS, '0')}`;
}

/** Formats lamports as SOL: `0.0023`. */
export function formatSol(lamports: bigint | string): string {
  return decimal(lamports, SOL_DECIMALS);
}

// Control characters, invisible formatting (including direction overrides), lone surrogates,
// private use, unassigned code points, and line and paragraph separators.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\u2028\u2029]/gu;

/**
 * Replaces characters that are invisible, change the text direction or control a terminal. The
 * terminal and the pages use this function for all text from other parties.
 */
export function replaceHidden(text: string, replacement: (character: string) => string): string {
  return text.replace(HIDDEN, replacement);
}

/** Whether a day such as 2026-02-28 exists. Date.parse() takes February 31 as March 3. */
export function isCalendarDay(day: string): boolean {
  const time = new Date(`${day}T00:00:00Z`);
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(day);
}
