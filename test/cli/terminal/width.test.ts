import fc from 'fast-check';
import stringWidth from 'string-width';
import t from 'tap';
import { cut, fit, wrap } from '../../../src/cli/terminal/width.ts';

void t.test('wide characters take two columns, combining marks zero', async (t) => {
  t.equal(stringWidth('abc'), 3);
  t.equal(stringWidth('東京'), 4);
  t.equal(stringWidth('e\u0301🎉'), 3);
  t.equal(cut('abcdef', 4), 'abc…');
  t.equal(cut('東京都', 4), '東…');
  t.equal(cut('abc', 0), '');
  t.equal(fit('ab', 4), 'ab  ');
  t.equal(fit('東京都', 4), '東… ');
});

void t.test(
  'wrapping breaks at spaces if possible, keeps the indent, and loses no text',
  async (t) => {
    t.same(wrap('  one two three', 10), ['  one two', '  three']);
    t.same(wrap('abcdefghij', 4), ['abcd', 'efgh', 'ij']);
    t.same(wrap('', 4), ['']);
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', maxLength: 80 }),
        fc.integer({ min: 2, max: 30 }),
        (text, width) => {
          const lines = wrap(text, width);
          return (
            lines.every((line) => stringWidth(line) <= width) &&
            lines.join('').replaceAll(' ', '') === text.replaceAll(' ', '')
          );
        },
      ),
    );
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        fc.integer({ min: 1, max: 30 }),
        (text, width) => stringWidth(fit(text, width)) === width,
      ),
    );
  },
);
