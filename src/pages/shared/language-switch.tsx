import { createContext, type ReactElement, useContext } from 'react';
import { type Language, languages } from '../words/languages.ts';
import { chooseLanguage } from './language-choice.ts';
import { language, words } from './language.ts';

/** Renders the page again, in its new language. */
export const LanguageChange = createContext<() => void>(() => undefined);

/** Shows the page's language, and changes it. Nothing that the reader has begun is lost. */
export function LanguageSwitch(): ReactElement {
  const changed = useContext(LanguageChange);
  return (
    <select
      className="language"
      aria-label={words.language}
      value={language}
      onChange={({ target }) => void chooseLanguage(target.value as Language).then(changed)}
    >
      {Object.entries(languages).map(([code, name]) => (
        <option key={code} value={code} lang={code}>
          {name}
        </option>
      ))}
    </select>
  );
}
