// The language of the page: its texts, and the locale of its dates and numbers. The language is set
// in language-choice.ts.
import { en, type Words } from '../words/en.ts';
import type { Language } from '../words/languages.ts';

/** The texts in the page's language. A component reads them when it renders. */
export let words: Words = en;

/** The locale of dates and numbers: the browser's variant of the page's language. */
export let locale = 'en';

export let language: Language = 'en';

/** Sets the language in which components render after this call. */
export function speak(next: { words: Words; language: Language; locale: string }): void {
  ({ words, language, locale } = next);
}

/** Replaces each `{name}` in a text with the value of that name. */
export function fill(text: string, values: Readonly<Record<string, string | number>>): string {
  return text.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ''));
}

/** Returns the singular or plural of a text for `n`, with `{n}` and the other values filled in. */
export function counted(
  { one, other }: { readonly one: string; readonly other: string },
  n: number,
  values: Readonly<Record<string, string>> = {},
): string {
  const form = new Intl.PluralRules(locale).select(n) === 'one' ? one : other;
  return fill(form, { ...values, n: new Intl.NumberFormat(locale).format(n) });
}
