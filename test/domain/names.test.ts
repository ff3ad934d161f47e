// Names that subscribers see: what is refused, and what people really write.
import fc from 'fast-check';
import t from 'tap';
import { isDisplayName } from '../../src/domain/names.ts';

void t.test('names of many languages are accepted', (t) => {
  for (const name of [
    'Coffee club',
    'Zoë’s Café №1 – “best” (2026) & more!',
    'Kaffee-Кафе Кофе',
    'Ελληνικός καφές',
    'Cafe\u0301',
    'Vi\u1ec7t Nam, Vie\u0323\u0302t Nam',
    'コーヒー豆',
    'Tシャツ定期便',
    'カフェ\u3000クラブ',
    '咖啡俱乐部',
    '커피 클럽 VIP회원',
    '注音ㄓㄨ',
    'चीज़ें',
    'हिन्दी ज़ीं',
    'กี่',
    'မြန်မာ ကြိုး',
    'བོད་ཡིག',
    'قهوة',
    'שָׁלוֹם',
    'ᏣᎳᎩ',
    '☕\ufe0f Coffee ❤\ufe0f',
    '💶'.repeat(120),
    '100 %',
    'ÅÄÖ Ø ß ŋ',
    'd’Été\u00a0: 5 €',
  ])
    t.equal(isDisplayName(name), true, name);
  t.end();
});

void t.test('names that hide something or imitate another are refused', (t) => {
  const refused: [string, string][] = [
    ['', 'empty'],
    ['  \u3000', 'white space'],
    ['x'.repeat(121), 'long'],
    ['a\nb', 'two lines'],
    ['a\u2028b', 'line separator'],
    ['a\u0000b', 'control'],
    ['Cof\u200bfee', 'zero width space'],
    ['Cof\u200dfee', 'zero width joiner'],
    ['Cof\u00adfee', 'soft hyphen'],
    ['Coffee\u202eeerf', 'right to left override'],
    ['Coffee\u2066x', 'isolate'],
    ['Coffee\ufeff', 'byte order mark'],
    ['Coffee\ufe0f', 'a variation selector behind a letter'],
    ['☕\ufe0f\ufe0f', 'a second selector'],
    ['1\ufe0f', 'behind a digit'],
    ['Coffee\u3164', 'Hangul filler'],
    ['\u115f', 'Hangul choseong filler alone'],
    ['Coffee\u034f', 'grapheme joiner'],
    ['Coffee\u180b', 'Mongolian selector'],
    ['Coffee\u{e0041}', 'tag'],
    ['Coffee\u{e0100}', 'supplementary selector'],
    ['Coffee\u2800club', 'Braille blank'],
    ['Coffee\u200aclub', 'hair space'],
    ['Coffee\ue000', 'private use'],
    ['Coffee\u{f0000}', 'supplementary private use'],
    ['Coffee\u{10fffe}', 'noncharacter'],
    ['Coffee\ud800', 'lone surrogate'],
    ['Z\u0300\u0301\u0302', 'three marks'],
    ['Coffee \u0336\u0336\u0336', 'three marks on a space'],
    ['ש\u05b8\u05c1\u05b9\u05b7\u05b6', 'five marks'],
    ['C\u043effee', 'a Cyrillic o'],
    ['\u0420ayPal', 'a Cyrillic R'],
    ['Coffee\u03bf', 'a Greek o'],
    ['Кофе\u0061', 'a Latin a'],
    ['Amazоn Prime', 'in one of two words'],
    ['Latin漢ж', 'Cyrillic beside Han'],
    ['\u13a0mazon', 'a Cherokee letter'],
    ['アραβ', 'Katakana and Greek'],
    ['한あ', 'Hangul and Hiragana'],
  ];
  for (const [name, why] of refused) t.equal(isDisplayName(name), false, why);
  t.end();
});

void t.test('any text of any length is judged without an error', (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
      const fits = isDisplayName(text);
      return typeof fits === 'boolean' && (!fits || Array.from(text).length <= 120);
    }),
    { numRuns: 5000 },
  );
  t.equal(isDisplayName(`${'1'.repeat(119)}a`), true);
  t.equal(isDisplayName(`${'1'.repeat(118)}aж`), false, 'without backtracking');
  t.end();
});
