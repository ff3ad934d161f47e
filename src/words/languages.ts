/** The languages of the pages for buyers. Each name is written in its own language. */
export const languages = {
  en: 'English',
  de: 'Deutsch',
  es: 'Español',
  fr: 'Français',
  pt: 'Português',
  ja: '日本語',
} as const;

export type Language = keyof typeof languages;

/** Whether there is a catalogue for the language `code`. */
export const isLanguage = (code: string): code is Language => Object.hasOwn(languages, code);
