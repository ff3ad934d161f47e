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

void t.test('real personal names are accepted in composed and decomposed Unicode form', (t) => {
  const names: Record<string, string[]> = {
    Vietnamese: ['Nguyễn Thị Tuyết', 'Trường Đại học Huế', 'Phở Ướt'],
    'Latin of others': ['Hawaiʻi', 'Oʼzbekiston', 'Łódź', 'Yorùbá ọ̀rọ̀', 'Þór', 'Ġużè', 'Ǖmlaut'],
    Cyrillic: ['Їжак', 'Мʼята', 'Ђорђе', 'Қазақстан', 'Чайный №1', 'Кофе™', 'Йод'],
    Greek: ['Ελευθέριος', 'ᾧδε', 'Μαΐου'],
    Hebrew: ['שָּׁלוֹם', 'יִצְחָק', 'בַּיִת', 'ז׳אנר'],
    Arabic: ['مُحَمَّد', 'الرَّحْمٰن', 'فؤّاد', 'قهوة ١٢٣', 'پژوهش'],
    Thai: ['สิทธิ์', 'น้ำผึ้ง', 'กี่', 'ที่นี่ ๑'],
    Lao: ['ເບິ່ງ', 'ຫຼີ້ນ'],
    Burmese: ['လှို့ဝှက်', 'ကြိုး', 'မြန်မာ', 'ကျွန်ုပ်'],
    Khmer: ['ស្ត្រី', 'ប៉ុំ', 'កម្ពុជា'],
    Tibetan: ['བསྒྲུབས', 'ཧཱུྃ', 'བོད་ཡིག'],
    'Hindi and others': ['ज़ीं', 'ज़ुं', 'क्षत्रिय', 'हिन्दी १', 'ড়ুঁ', 'தமிழ்', 'മലയാളം', 'ශ්රී'],
    Japanese: ['コーヒー豆', 'Tシャツ', 'が ぱ', '髙橋', '𠮷野家', '佐々木', 'ラーメン〆', '﨑'],
    Korean: ['김치', '커피VIP', '大韓민국'],
    Chinese: ['咖啡ABC', '注音ㄓㄨˋ'],
    'scripts of few': ['ᏣᎳᎩ', 'ߒߞߏ', 'ᠮᠣᠩᠭᠣᠯ', 'ⵜⵉⴼⵉⵏⴰⵖ', 'ᐃᓄᒃᑎᑐᑦ', '𞤀𞤣𞤤𞤢𞤥'],
    'other signs': [
      'µTorrent',
      '10 Ω',
      'H₂O x²',
      '1ª vez',
      '№5',
      '½ Liter',
      '©\ufe0f 2026',
      'Ｐａｙ',
    ],
  };
  for (const [language, list] of Object.entries(names))
    for (const name of list)
      for (const form of ['NFC', 'NFD'])
        t.ok(isDisplayName(name.normalize(form)), `${language}: ${name} in ${form}`);
  t.end();
});

void t.test(
  'a letter is accepted in composed form exactly if it is accepted in decomposed form',
  (t) => {
    const differing = [];
    for (let code = 0; code <= 0x10ffff; code += 1) {
      const letter = String.fromCodePoint(code);
      const decomposed = letter.normalize('NFD');
      if (decomposed !== letter && isDisplayName(letter) !== isDisplayName(decomposed))
        differing.push(letter);
    }
    t.same(differing, []);
    t.end();
  },
);

void t.test('names with hidden characters or with look-alike scripts are refused', (t) => {
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
    ['Paypal\u05b4', 'a Hebrew mark on a Latin letter'],
    ['Pay\u0e47pal', 'a Thai mark on a Latin letter'],
    ['P\u093caypal', 'a Devanagari mark on a Latin letter'],
    ['pa\u06d6ypal', 'an Arabic mark on a Latin letter'],
    ['か\u0301\u05b0', 'a Hebrew mark on Hiragana'],
    ['\u{1d40f}\u0430y', 'a mathematical P and a Cyrillic a'],
    ['\u{1d40f}\u0430', 'a mathematical P, a Cyrillic a and nothing else'],
    ['\uff50\u0430y', 'a fullwidth p and a Cyrillic a'],
    ['\u2160\u0430', 'a Roman numeral and a Cyrillic a'],
    ['\u1d56\u0430', 'a superscript p and a Cyrillic a'],
    ['Pay\u0661', 'an Arabic digit'],
    ['\u13e2\ua4ee', 'Cherokee and Lisu'],
    ['ก\u0e47\u0e47', 'a Thai mark twice'],
    ['а\u0489\u0489', 'an enclosing mark twice'],
    ['a\u0300\u0301\u05b0\u05b1', 'four marks of two scripts'],
    ['\u1ebf\u0300', 'a third mark on a letter that is composed with two'],
    ['ก\u0e34\u0e48\u0e4d', 'three marks on a Thai letter'],
    ['က\u103d\u103e\u102d\u102f\u1037', 'five marks on a Burmese letter'],
    ['i\u0307nfo', 'a dot on a dotted i'],
    ['\u{13441}', 'Egyptian full blank'],
    ['Cof\u{13441}fee', 'Egyptian full blank in a word'],
    ['Cof\u{16fe4}fee', 'Khitan filler'],
    ['Cof\u{1d159}fee', 'null notehead'],
    ['a\ufffcb', 'object replacement character'],
    ['a\ufffdb', 'replacement character'],
    ['Coffee\u0378', 'unassigned'],
    ['Coffee\u17b4', 'Khmer inherent vowel'],
    ['\u2ca3\u2c81', 'Coptic, a historic script'],
  ];
  for (const [name, why] of refused) t.equal(isDisplayName(name), false, why);
  t.end();
});

void t.test('for any text the check of a name throws no unexpected error', (t) => {
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
