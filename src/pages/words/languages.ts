/** The languages of the pages for buyers, in their own names. */
export const languages = {
  en: 'English',
  de: 'Deutsch',
  es: 'Español',
  fr: 'Français',
  pt: 'Português',
  ja: '日本語',
} as const;

export type Language = keyof typeof languages;
