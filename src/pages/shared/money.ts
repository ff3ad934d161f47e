/**
 * USDC base units (6 decimals, as text) as `1,234.50`; at least two decimals, as many as it has.
 */
export function formatUsdc(units: string | bigint): string {
  const value = BigInt(units);
  const whole = new Intl.NumberFormat('en').format(value / 1_000_000n);
  const fraction = (value % 1_000_000n)
    .toString()
    .padStart(6, '0')
    .replace(/0{1,4}$/, '');
  return `${whole}.${fraction}`;
}

/** USDC base units to the cent, half a cent rounded up: for figures at a glance. */
export function formatCents(units: string | bigint): string {
  return formatUsdc(((BigInt(units) + 5000n) / 10_000n) * 10_000n);
}

/** Lamports as SOL, rounded up at the fifth decimal. */
export function formatSol(lamports: string | bigint): string {
  const units = (BigInt(lamports) + 9999n) / 10_000n;
  const fraction = (units % 100_000n)
    .toString()
    .padStart(5, '0')
    .replace(/0{1,3}$/, '');
  return `${(units / 100_000n).toString()}.${fraction}`;
}

/**
 * USDC as a person types it (`9.5`) in base units; undefined when it is not an amount above 0 with
 * at most six decimals.
 */
export function parseUsdc(text: string): string | undefined {
  const [, whole = '', fraction = ''] = /^(\d{1,13})(?:\.(\d{1,6}))?$/.exec(text.trim()) ?? [];
  if (whole === '') return undefined;
  const units = BigInt(whole) * 1_000_000n + BigInt(fraction.padEnd(6, '0'));
  return units === 0n ? undefined : units.toString();
}
