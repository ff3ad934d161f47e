const known: readonly (readonly [hours: number, each: string, every: string])[] = [
  [1, 'hour', 'every hour'],
  [24, 'day', 'every day'],
  [168, 'week', 'every week'],
  [336, '2 weeks', 'every 2 weeks'],
  [720, '30 days', 'every 30 days'],
  [730, 'month', 'every month'],
  [2190, '3 months', 'every 3 months'],
  [4380, '6 months', 'every 6 months'],
  [8760, 'year', 'every year'],
];

/** Returns the period as the unit of a price: `month`, `14 days`, `5 hours`. */
export function perPeriod(hours: number): string {
  const name = known.find(([length]) => length === hours)?.[1];
  if (name !== undefined) return name;
  return hours % 24 === 0 ? `${hours / 24} days` : `${hours} hours`;
}

/** Formats a duration in days or hours: `1 day`, `14 days`, `5 hours`. */
export function span(hours: number): string {
  const [count, unit] = hours % 24 === 0 ? [hours / 24, 'day'] : [hours, 'hour'];
  return `${count} ${unit}${count === 1 ? '' : 's'}`;
}

/** Describes how often a payment is due: `every month`. */
export function everyPeriod(hours: number): string {
  return known.find(([length]) => length === hours)?.[2] ?? `every ${perPeriod(hours)}`;
}

/**
 * Returns the length in hours of a period whose name is not exact, such as a month of 730 hours.
 * Returns undefined for other periods.
 */
export function exactLength(hours: number): string | undefined {
  return [730, 2190, 4380].includes(hours) ? `${hours} hours` : undefined;
}
