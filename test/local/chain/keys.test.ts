import bs58 from 'bs58';
import fc from 'fast-check';
import t from 'tap';
import { addressKey, base58, bytesOf, keyOf, parseBase58 } from '../../../src/local/chain/keys.ts';

void t.test('base58 agrees with bs58 on any bytes, leading zeros included', async (t) => {
  const bytes = fc
    .tuple(fc.nat({ max: 5 }), fc.uint8Array({ maxLength: 80 }))
    .map(([zeros, rest]) => Uint8Array.from([...new Array<number>(zeros).fill(0), ...rest]));
  fc.assert(
    fc.property(bytes, (value) => base58(keyOf(value)) === bs58.encode(value)),
    { numRuns: 2_000 },
  );
  t.equal(base58(''), '');
});

void t.test('a key converts to bytes, to Base58 and back', async () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (value) => {
      const key = keyOf(value);
      return bytesOf(key).equals(value) && parseBase58(base58(key), 32) === key;
    }),
  );
});

void t.test(
  'text that is not Base58 of the right length is read as undefined; a bad address constant throws',
  async (t) => {
    for (const text of ['', '0OIl', 'abc', '1'.repeat(31), '1'.repeat(33), '1'.repeat(200)])
      t.equal(parseBase58(text, 32), undefined, text);
    t.throws(() => addressKey('nonsense'), /not an address: nonsense/);
  },
);
