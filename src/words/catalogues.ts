// All catalogues, for the server. A page has one of them (src/pages/shared/language-choice.ts).
import de from './de.json' with { type: 'json' };
import en from './en.json' with { type: 'json' };
import es from './es.json' with { type: 'json' };
import fr from './fr.json' with { type: 'json' };
import ja from './ja.json' with { type: 'json' };
import type { Language } from './languages.ts';
import pt from './pt.json' with { type: 'json' };

/** The texts of a language. Each catalogue has the texts of the English one. */
export type Catalogue = typeof en;

export const catalogues: Readonly<Record<Language, Catalogue>> = { en, de, es, fr, pt, ja };
