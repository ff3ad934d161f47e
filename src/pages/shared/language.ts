// The language of the page: its texts, and the locale of its dates and numbers.
import { en, type Words } from '../words/en.ts';

/** The texts in the page's language. A component reads them when it renders. */
export const words: Words = en;

/** The locale of dates and numbers: the browser's variant of the page's language. */
export const locale = 'en';

/** Replaces `{name}` in a text. */
export function fill(text: string, values: Readonly<Record<string, string | number>>): string {
  return text.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ''));
}

/** Returns the form of a text for `n`, with `{n}` and the other values replaced. */
export function counted(
  { one, other }: { readonly one: string; readonly other: string },
  n: number,
  values: Readonly<Record<string, string>> = {},
): string {
  const form = new Intl.PluralRules(locale).select(n) === 'one' ? one : other;
  return fill(form, { ...values, n: new Intl.NumberFormat(locale).format(n) });
}
