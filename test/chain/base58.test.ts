import bs58 from 'bs58';
import fc from 'fast-check';
import t from 'tap';
import { decodeBase58, encodeBase58 } from '../../src/chain/base58.ts';

const zeros = fc.integer({ min: 0, max: 5 }).map((length) => new Uint8Array(length));
const bytes = fc.tuple(zeros, fc.uint8Array({ maxLength: 100 })).map((parts) => Buffer.concat(parts));

void t.test('bytes become the text that bs58 gives them, and come back', (t) => {
  fc.assert(
    fc.property(bytes, (some) => {
      const text = encodeBase58(some);
      return text === bs58.encode(some) && decodeBase58(text)?.equals(some) === true;
    }),
    { numRuns: 500 },
  );
  for (const length of [0, 1, 31, 32, 33, 63, 64, 65, 66, 300]) {
    const most = Buffer.alloc(length, 255);
    t.equal(encodeBase58(most), bs58.encode(most));
    t.same(decodeBase58(bs58.encode(most)), most);
  }
  t.end();
});

void t.test('any text is read as bs58 reads it: what is not Base58 is nothing', (t) => {
  const text = fc.oneof(fc.string({ maxLength: 100 }), fc.string({ unit: 'binary', maxLength: 20 }), fc.base64String({ maxLength: 90 }));
  fc.assert(
    fc.property(text, (some) => {
      const known = bs58.decodeUnsafe(some);
      return known === undefined ? decodeBase58(some) === undefined : decodeBase58(some)?.equals(known) === true;
    }),
    { numRuns: 1000 },
  );
  for (const one of ['0', 'O', 'I', 'l', ' 1', '1 ', 'é', '\u{1f600}', 'abc\0']) t.equal(decodeBase58(one), undefined, JSON.stringify(one));
  t.same(decodeBase58(''), Buffer.alloc(0));
  t.end();
});
