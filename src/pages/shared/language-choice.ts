// Chooses the language of a page and loads its catalogue of texts. Each language except English has
// its own catalogue file.
import en from '../../words/en.json' with { type: 'json' };
import { isLanguage, type Language } from '../../words/languages.ts';
import { locale as current, speak, type Words } from './language.ts';

/** The localStorage key of the language that the reader chose. */
const STORAGE_KEY = 'billing-language';

const languageOf = (tag: string) => tag.toLowerCase().split('-', 1)[0] ?? '';

/**
 * Calls `use` with localStorage and returns the result. Returns null when the browser forbids
 * storage.
 */
function withStorage<T>(use: (storage: Storage) => T): T | null {
  try {
    return use(localStorage);
  } catch {
    return null;
  }
}

/**
 * Returns the language that the reader chose before. Otherwise returns the first of the browser's
 * languages that has a catalogue, or English.
 */
function preferred(): Language {
  const chosen = withStorage((storage) => storage.getItem(STORAGE_KEY));
  if (chosen !== null && isLanguage(chosen)) return chosen;
  return navigator.languages.map(languageOf).find(isLanguage) ?? 'en';
}

/** Loads the catalogue of a language. Returns undefined when the catalogue cannot be loaded. */
async function catalogueOf(code: Language): Promise<Words | undefined> {
  // Every page contains the English texts, so that a page has texts when another catalogue cannot
  // be loaded.
  if (code === 'en') return en.pages;
  const name = `meta[name="billing-words-${code}"]`;
  const url = document.querySelector<HTMLMetaElement>(name)?.content;
  if (url === undefined) return undefined;
  const loaded = import(url) as Promise<{ default: { pages: Words } }>;
  return (await loaded.catch(() => undefined))?.default.pages;
}

/**
 * Sets the page's language, by default the preferred language. If the catalogue cannot be loaded,
 * the page keeps its language.
 */
export async function setLanguage(language: Language = preferred()): Promise<void> {
  const words = await catalogueOf(language);
  if (words === undefined) {
    // The server may have set `lang` to `language`. The page keeps its current language, so `lang`
    // is reset.
    document.documentElement.lang = current;
    return;
  }
  const locale = navigator.languages.find((tag) => languageOf(tag) === language) ?? language;
  speak({ words, language, locale });
  document.documentElement.lang = locale;
}

/** Sets the page's language to the reader's choice, and stores the choice in the browser. */
export async function chooseLanguage(language: Language): Promise<void> {
  withStorage((storage) => storage.setItem(STORAGE_KEY, language));
  await setLanguage(language);
}
