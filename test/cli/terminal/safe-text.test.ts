import fc from 'fast-check';
import t from 'tap';
import {
  bytesAsLines,
  safeLines,
  safeText,
  safeJson,
} from '../../../src/cli/terminal/safe-text.ts';

const harmful =
  /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\u2028\u2029]|\p{Cs}/u;

void t.test('control characters are escaped', async (t) => {
  t.equal(safeText('\x1b[2J\x07\x9b1m'), '\\x1b[2J\\x07\\x9b1m');
  t.equal(safeText('a\nb\r\tc\0'), 'a\\nb\\r\\tc\\x00');
  t.equal(safeText('abc\u202egpj.exe\u200b'), 'abc\\u202egpj.exe\\u200b');
  t.equal(safeText('\ud800x'), '\\ud800x');
  t.equal(safeText('\u{e0041}'), '\\u{e0041}');
  t.equal(safeText('Zürich 東京 🎉'), 'Zürich 東京 🎉');
  t.same(safeLines('a\r\nb\n\tc\x1b]0;x\x07'), ['a', 'b', '  c\\x1b]0;x\\x07']);
});

void t.test('bytes are shown as text, text with escapes, or a hex dump', async (t) => {
  t.same(bytesAsLines(Buffer.from('ok\n{"a":1}')), ['ok', '{"a":1}']);
  t.same(bytesAsLines(Buffer.from('')), ['']);
  t.same(
    bytesAsLines(
      Buffer.concat([
        Buffer.from('caf\u00e9 and a lot of other words '),
        Buffer.from([0xe9, 0x20, 0xc3]),
      ]),
    ),
    ['café and a lot of other words \\xe9 \\xc3'],
  );
  t.same(
    bytesAsLines(
      Buffer.from([0x1f, 0x8b, 8, 0, 0x41, 0x42, 0x1b, 0x5b, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0x7e]),
    ),
    [
      '0000  1f 8b 08 00 41 42 1b 5b ff fe 00 00 00 00 00 00  ....AB.[........',
      '0010  7e                                               ~',
    ],
  );
});

void t.test('neither bytes nor text put a control character on the screen', async () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) =>
      bytesAsLines(Buffer.from(bytes)).every((line) => !harmful.test(line)),
    ),
  );
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary', maxLength: 50 }),
      (text) => !harmful.test(safeText(text)),
    ),
  );
});

void t.test('escaped JSON has the same value and contains no terminal control character', (t) => {
  const value = { name: 'a\u009b31m\u202e\u{e0001}\u2028\u007f é 日本', n: 1 };
  const text = safeJson(JSON.stringify(value));
  t.same(JSON.parse(text), value);
  t.notMatch(text, /[\p{Cc}\p{Cf}\u2028]/u);
  t.match(text, 'é 日本');
  t.end();
});
