// Decides which names of merchants, apps and plans are accepted. Subscribers see these names on the
// checkout page. A name must not contain invisible characters, and must not imitate another name
// with letters of another script (Unicode Technical Standard 39, single script per word).

const MAX_NAME = 120;

// Characters that a name must not contain. Default-ignorable characters, the Braille blank, and
// spaces other than U+0020, U+00A0 and U+3000 are invisible or nearly invisible. Private-use
// characters and noncharacters have no agreed look.
const HIDDEN =
  /[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Noncharacter_Code_Point}\u2028\u2029\u2800]|(?![ \u00a0\u3000])\p{Zs}/u;
/**
 * U+FE0F after a pictograph. Keyboards add this variation selector to show the pictograph in
 * colour.
 */
const COLOURED = /(\p{Extended_Pictographic})\ufe0f/gu;
// Matches three marks without a script of their own, or five marks of any kind. Marks without a
// script stack on any letter. Some scripts need three or four of their own marks in a row
// (Devanagari, Myanmar).
const STACKED_MARKS = /(?:(?=\p{M})\p{Script=Inherited}){3}|\p{M}{5}/u;
const WORD = /[\p{L}\p{M}\p{N}]+/gu;

/**
 * Scripts of living languages (Unicode Standard Annex 31). Each entry lists scripts that may occur
 * together in one word.
 */
const scripts = [
  ['Latin'],
  ['Cyrillic'],
  ['Greek'],
  ['Latin', 'Han', 'Hiragana', 'Katakana'],
  ['Latin', 'Han', 'Bopomofo'],
  ['Latin', 'Han', 'Hangul'],
  ...[
    ['Arabic', 'Armenian', 'Bengali', 'Devanagari', 'Ethiopic', 'Georgian', 'Gujarati'],
    ['Gurmukhi', 'Hebrew', 'Kannada', 'Khmer', 'Lao', 'Malayalam', 'Myanmar', 'Oriya'],
    ['Sinhala', 'Tamil', 'Telugu', 'Thaana', 'Thai', 'Tibetan'],
  ]
    .flat()
    .map((script) => [script]),
];
const classOf = (names: readonly string[]) =>
  names.map((name) => `\\p{Script_Extensions=${name}}`).join('');
const NEUTRAL = `${classOf(['Common', 'Inherited'])}\\p{M}`;
const oneScript = [
  ...scripts.map((names) => new RegExp(`^[${NEUTRAL}${classOf(names)}]+$`, 'u')),
  // A word may also consist only of letters that belong to none of these scripts.
  new RegExp(`^[^${classOf(scripts.flat())}]+$`, 'u'),
];

/** Whether a name of a merchant, an app or a plan is accepted. */
export function isDisplayName(text: string): boolean {
  const visible = text.replace(COLOURED, '$1');
  if (text.trim() === '' || Array.from(text).length > MAX_NAME) return false;
  if (HIDDEN.test(visible) || STACKED_MARKS.test(text)) return false;
  return (visible.match(WORD) ?? []).every((word) => oneScript.some((fits) => fits.test(word)));
}
