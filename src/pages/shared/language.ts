// The language of the page: its texts, and the locale of its dates and numbers. The language is set
// in language-choice.ts.
import en from '../../words/en.json' with { type: 'json' };
import { fill } from '../../words/fill.ts';
import type { Language } from '../../words/languages.ts';

/** The texts of the pages in one language. */
export type Words = (typeof en)['pages'];

/** The texts in the page's language. A component reads them when it renders. */
export let words: Words = en.pages;

/** The locale of dates and numbers: the browser's variant of the page's language. */
export let locale = 'en';

export let language: Language = 'en';

/** Sets the language in which components render after this call. */
export function speak(next: { words: Words; language: Language; locale: string }): void {
  ({ words, language, locale } = next);
}

/** A text with a number: one form for each plural category that needs its own. */
type Forms = Readonly<Partial<Record<Intl.LDMLPluralRule, string>>> & { readonly other: string };

/** Returns the form of a text for `n`. The value of its `{n}` is formatCount(n). */
export function formOf(forms: Forms, n: number): string {
  return forms[new Intl.PluralRules(locale).select(n)] ?? forms.other;
}

/** Writes a whole number as the page's language does: `1,000`. */
export const formatCount = (n: number): string => new Intl.NumberFormat(locale).format(n);

/** Returns the form of a text for `n`, with `{n}` and the other values filled in. */
export function counted(
  forms: Forms,
  n: number,
  values: Readonly<Record<string, string>> = {},
): string {
  return fill(formOf(forms, n), { ...values, n: formatCount(n) });
}
