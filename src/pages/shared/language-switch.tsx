import { createContext, type ReactElement, useContext } from 'react';
import { type Language, languages } from '../../words/languages.ts';
import { chooseLanguage } from './language-choice.ts';
import { language, words } from './language.ts';

/** A function that renders the page again after the language has changed. */
export const LanguageChange = createContext<() => void>(() => undefined);

/** Shows and changes the page's language. The page keeps its state, such as a started sign-in. */
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
