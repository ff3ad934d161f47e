import { fill } from '../../words/fill.ts';
import { locale, words } from './language.ts';

type Named = keyof typeof words.period.per;

const named = new Map<number, Named>([
  [1, 'hour'],
  [24, 'day'],
  [168, 'week'],
  [336, 'twoWeeks'],
  [730, 'month'],
  [2190, 'quarter'],
  [4380, 'halfYear'],
  [8760, 'year'],
]);
/**
 * Lengths (hours) of the periods that are named after months or years. Each length is fixed, but
 * calendar months differ in length, so the day of the payment moves in the calendar.
 */
const DRIFTING = [730, 2190, 4380, 8760];

const unit = (count: number, of: 'day' | 'hour') =>
  new Intl.NumberFormat(locale, { style: 'unit', unit: of, unitDisplay: 'long' }).format(count);

/** Formats a duration in days or hours: `1 day`, `14 days`, `5 hours`. */
export function span(hours: number): string {
  return hours % 24 === 0 ? unit(hours / 24, 'day') : unit(hours, 'hour');
}

/** Returns the period of a price: `per month`, `per 14 days`. */
export function perPeriod(hours: number): string {
  return fill(words.period.per[named.get(hours) ?? 'other'], { span: span(hours) });
}

/** Describes how often a payment is due: `every month`, `every 14 days`. */
export function everyPeriod(hours: number): string {
  return fill(words.period.every[named.get(hours) ?? 'other'], { span: span(hours) });
}

/**
 * Describes the exact length of a period that is named after months or years. Returns undefined for
 * other periods.
 */
export function exactLength(hours: number): string | undefined {
  if (!DRIFTING.includes(hours)) return undefined;
  const parts = [
    unit(Math.floor(hours / 24), 'day'),
    ...(hours % 24 ? [unit(hours % 24, 'hour')] : []),
  ];
  return fill(words.period.exact, {
    length: new Intl.ListFormat(locale, { style: 'narrow', type: 'unit' }).format(parts),
  });
}
