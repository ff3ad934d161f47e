import type { components } from '../../client/openapi.ts';
import { fill } from '../../words/fill.ts';
import { locale, words } from './language.ts';

export type ShownInvoice = components['schemas']['OwnInvoice'];
type Line = ShownInvoice['lines'][number];

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const CENT = 10_000n;

/** Describes a line: `Plan`, `Plan, 20 of 30 days`, `25% off`. */
export function lineText({ kind, amount, source }: Line, of: ShownInvoice): string {
  const text = words.invoice;
  if (kind === 'discount') return discountText(BigInt(amount), BigInt(of.planAmount));
  if (kind === 'adjustment') return text[source ?? 'pull'];
  const part = partText(of);
  return part === undefined ? text.plan : `${text.plan}, ${part}`;
}

/**
 * Describes a discount as a percentage if the amount is that of one whole percentage, else by its
 * name. Amounts are rounded to the cent where the plan's are whole cents.
 */
function discountText(amount: bigint, plan: bigint): string {
  const unit = plan % CENT === 0n ? CENT : 1n;
  const percent = plan === 0n ? 0n : (-amount * 200n + plan) / (2n * plan);
  const difference = -amount - (plan * percent) / 100n;
  const isExact = plan > 100n * unit && difference < unit && difference > -unit;
  if (!isExact || percent === 0n) return words.invoice.discount;
  const off = new Intl.NumberFormat(locale, { style: 'percent' }).format(Number(percent) / 100);
  return fill(words.invoice.off, { off });
}

/** Describes the charged part of a period; undefined if the whole period is charged. */
function partText({ coversFrom, coversTo, periodStart, periodEnd }: ShownInvoice) {
  if (coversFrom === null || coversTo === null || periodStart === null || periodEnd === null)
    return undefined;
  const part = Date.parse(coversTo) - Date.parse(coversFrom);
  const whole = Date.parse(periodEnd) - Date.parse(periodStart);
  if (part >= whole) return undefined;
  const isDays = whole >= 2 * DAY_MS;
  const count = (ms: number) =>
    new Intl.NumberFormat(locale, { maximumFractionDigits: 1 }).format(
      ms / (isDays ? DAY_MS : HOUR_MS),
    );
  const text = isDays ? words.invoice.days : words.invoice.hours;
  return fill(text, { part: count(part), whole: count(whole) });
}
