// Which names of merchants, apps and plans are accepted. Subscribers see them on the checkout page,
// so a name must not hide characters or imitate another by letters of another script (Unicode
// Technical Standard 39, single script per word).

const MAX_NAME = 120;

// Default-ignorable code points are invisible. Private use and noncharacters have no agreed look.
// The Braille blank and the spaces other than these three are invisible or nearly so.
const HIDDEN =
  /[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Noncharacter_Code_Point}\u2028\u2029\u2800]|(?![ \u00a0\u3000])\p{Zs}/u;
/** The selector that keyboards put behind a pictograph to show it in colour. */
const COLOURED = /(\p{Extended_Pictographic})\ufe0f/gu;
// Marks of no script of their own stack on any letter. Others belong to their script, some of which
// need three or four (Devanagari, Myanmar).
const STACKED_MARKS = /(?:(?=\p{M})\p{Script=Inherited}){3}|\p{M}{5}/u;
const WORD = /[\p{L}\p{M}\p{N}]+/gu;

/** Scripts of living languages (Unicode Standard Annex 31), and those that one word may combine. */
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
  // Letters of none of these scripts.
  new RegExp(`^[^${classOf(scripts.flat())}]+$`, 'u'),
];

/** Whether a name of a merchant, an app or a plan is accepted. */
export function isDisplayName(text: string): boolean {
  const visible = text.replace(COLOURED, '$1');
  if (text.trim() === '' || Array.from(text).length > MAX_NAME) return false;
  if (HIDDEN.test(visible) || STACKED_MARKS.test(text)) return false;
  return (visible.match(WORD) ?? []).every((word) => oneScript.some((fits) => fits.test(word)));
}
