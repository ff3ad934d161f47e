// Decides which names of merchants, apps and plans are accepted. Subscribers see these names on the
// checkout page. A name must not contain invisible characters, and must not imitate another name
// with letters of another script. The rules are those of Unicode Technical Standard 39 (Unicode
// Security Mechanisms), sections 5.1, 5.2 and 5.4, applied to each word.

const MAX_NAME = 120;

// Characters that a name must not contain. Default-ignorable characters, the Braille blank, the
// null notehead, and spaces other than U+0020, U+00A0 and U+3000 are invisible or nearly invisible.
// Private-use and unassigned characters and the replacement characters have no agreed look.
const HIDDEN =
  /[\p{Default_Ignorable_Code_Point}\p{C}\p{Zl}\p{Zp}\u2800\ufffc\ufffd\u{1d159}]|(?![ \u00a0\u3000])\p{Zs}/u;
/**
 * U+FE0F after a pictograph. Keyboards add this variation selector to show the pictograph in
 * colour.
 */
const COLOURED = /(\p{Extended_Pictographic})\ufe0f/gu;
const WORD = /[\p{L}\p{M}\p{N}]+/gu;
/**
 * Matches the letters and numbers that may be a styled form of another character, such as
 * mathematical or fullwidth letters. The micro sign is not matched, because its plain form is a
 * Greek letter. Otherwise, names like "µTorrent" would mix Greek and Latin letters and would be
 * refused.
 */
const STYLED = /(?!\u00b5)[\p{L}\p{N}]/gu;

/**
 * Scripts that may occur together in one word. These combinations are those of the restriction
 * level "Highly Restrictive". A script in `recommended` or `limited` must be the only script of its
 * word. The scripts Common and Inherited may occur in every word. `recommended` has the recommended
 * scripts of Unicode Standard Annex 31 (table 5).
 */
const combinations = [
  ['Latin', 'Han', 'Hiragana', 'Katakana'],
  ['Latin', 'Han', 'Bopomofo'],
  ['Latin', 'Han', 'Hangul'],
];
const recommended =
  'Arabic Armenian Bengali Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Hebrew Kannada Khmer Lao Malayalam Myanmar Oriya Sinhala Tamil Telugu Thaana Thai Tibetan';
/**
 * The scripts of small living communities: those of table 7 in Unicode Standard Annex 31, and
 * Mongolian. All other scripts are refused, because they are historic and some of them have blank
 * characters.
 */
const limited =
  'Adlam Balinese Bamum Batak Canadian_Aboriginal Chakma Cham Cherokee Hanifi_Rohingya Javanese Kayah_Li Lepcha Limbu Lisu Mandaic Meetei_Mayek Miao Mongolian New_Tai_Lue Newa Nko Nyiakeng_Puachue_Hmong Ol_Chiki Osage Saurashtra Sundanese Syloti_Nagri Syriac Tai_Le Tai_Tham Tai_Viet Tifinagh Vai Wancho Yi';
const classOf = (names: readonly string[]) =>
  names.map((name) => `\\p{Script_Extensions=${name}}`).join('');
const ofScripts = [...combinations, ...`${recommended} ${limited}`.split(' ').map((name) => [name])]
  .map((names) => `^[${classOf(['Common', 'Inherited', ...names])}]+$`)
  .map((pattern) => new RegExp(pattern, 'u'));

/** Matches a character and its nonspacing marks in decomposed text (NFD). */
const MARKED = /([^\p{Mn}\p{Me}]?)([\p{Mn}\p{Me}]+)/gu;
const REPEATED_MARK = /([\p{Mn}\p{Me}])\1/u;
/**
 * Matches a letter with a dot of its own and the mark "dot above", which does not show on such a
 * letter.
 */
const HIDDEN_DOT = /\p{Soft_Dotted}\u0307/u;
/**
 * Maximum number of nonspacing marks on one character, for scripts that need more than MAX_MARKS.
 * UTS 39 allows four marks on every character, but four marks can hide the line above or below.
 */
const maxMarks: readonly [RegExp, number][] = [
  // Scripts with up to four marks on one character. In Myanmar, these are for example a medial, two
  // vowels and a tone. In Tibetan, these are subjoined letters and a vowel.
  [new RegExp(`[${classOf(['Myanmar', 'Tibetan', 'Tai_Tham'])}]`, 'u'), 4],
  // Scripts with up to three marks on one character. In Greek, these are for example a breathing,
  // an accent and an iota subscript. In Devanagari, these are a nukta, a vowel and a nasal sign.
  [
    new RegExp(
      `[${classOf('Greek Arabic Hebrew Syriac Bengali Devanagari Gujarati Gurmukhi Kannada Khmer Lao Malayalam Oriya Sinhala Tamil Telugu Balinese Javanese Newa'.split(' '))}]`,
      'u',
    ),
    3,
  ],
];
const MAX_MARKS = 2;

/** Whether a name of a merchant, an app or a plan is accepted. */
export function isDisplayName(text: string): boolean {
  if (text.trim() === '' || Array.from(text).length > MAX_NAME) return false;
  const visible = text.replace(COLOURED, '$1');
  if (HIDDEN.test(visible) || hasStackedMarks(visible.normalize('NFD'))) return false;
  const plain = visible.replace(STYLED, (letter) => letter.normalize('NFKC'));
  return (plain.match(WORD) ?? []).every((word) => ofScripts.some((fits) => fits.test(word)));
}

function hasStackedMarks(decomposed: string): boolean {
  if (REPEATED_MARK.test(decomposed) || HIDDEN_DOT.test(decomposed)) return true;
  for (const [, base = '', marks = ''] of decomposed.matchAll(MARKED)) {
    const [, most] = maxMarks.find(([scripts]) => scripts.test(base)) ?? [null, MAX_MARKS];
    if (Array.from(marks).length > most) return true;
  }
  return false;
}
