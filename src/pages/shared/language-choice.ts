// Chooses the language of a page and loads its catalogue, a file of its own.
import { en, type Words } from '../words/en.ts';
import { type Language, languages } from '../words/languages.ts';
import { speak } from './language.ts';

/** Where the language is kept, once the reader has chosen one. */
const PLACE = 'billing-language';

const isLanguage = (code: string | null): code is Language =>
  code !== null && Object.hasOwn(languages, code);
const languageOf = (tag: string) => tag.toLowerCase().split('-', 1)[0] ?? '';

/** Runs `use` on the storage. Returns null where the browser allows none. */
function withStorage<T>(use: (storage: Storage) => T): T | null {
  try {
    return use(localStorage);
  } catch {
    return null;
  }
}

/** The language that the reader chose, else the first of the browser's that there is. */
function preferred(): Language {
  const chosen = withStorage((storage) => storage.getItem(PLACE));
  if (isLanguage(chosen)) return chosen;
  return navigator.languages.map(languageOf).find(isLanguage) ?? 'en';
}

/** The catalogue of a language. Undefined when it cannot be loaded. */
async function catalogueOf(code: Language): Promise<Words | undefined> {
  // English is part of each page, which so has texts when another catalogue cannot be loaded.
  if (code === 'en') return en;
  const name = `meta[name="billing-words-${code}"]`;
  const url = document.querySelector<HTMLMetaElement>(name)?.content;
  if (url === undefined) return undefined;
  const loaded = (import(url) as Promise<{ words: Words }>).catch(() => undefined);
  return (await loaded)?.words;
}

/** Sets the language of the page, by default the preferred one. */
export async function setLanguage(language: Language = preferred()): Promise<void> {
  const words = await catalogueOf(language);
  if (words === undefined) return;
  const locale = navigator.languages.find((tag) => languageOf(tag) === language) ?? language;
  speak({ words, language, locale });
  document.documentElement.lang = locale;
}

/** Sets the language that the reader chose, and keeps the choice. */
export async function chooseLanguage(language: Language): Promise<void> {
  withStorage((storage) => storage.setItem(PLACE, language));
  await setLanguage(language);
}
