import fc from 'fast-check';
import t from 'tap';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { addressBytes } from '../../../src/chain/program/addresses.ts';
import {
  addressSlots,
  fixedText,
  i64,
  u16,
  u32,
  u64,
  u8,
} from '../../../src/chain/program/bytes.ts';

/** Little endian, two's complement: the value that the bytes stand for by definition. */
const valueOf = (bytes: Buffer, signed = false) => {
  const value = [...bytes].reduceRight((sum, byte) => sum * 256n + BigInt(byte), 0n);
  return signed && (bytes.at(-1) ?? 0) > 127 ? value - 256n ** BigInt(bytes.length) : value;
};

void t.test(
  'integers are written little endian in their width, and values out of range are refused',
  async (t) => {
    const cases = [
      { write: (value: bigint) => u8(Number(value)), length: 1, min: 0n, max: 2n ** 8n - 1n },
      { write: (value: bigint) => u16(Number(value)), length: 2, min: 0n, max: 2n ** 16n - 1n },
      { write: (value: bigint) => u32(Number(value)), length: 4, min: 0n, max: 2n ** 32n - 1n },
      { write: u64, length: 8, min: 0n, max: 2n ** 64n - 1n },
      { write: i64, length: 8, min: -(2n ** 63n), max: 2n ** 63n - 1n },
    ];
    for (const { write, length, min, max } of cases) {
      fc.assert(
        fc.property(fc.bigInt({ min, max }), (value) => {
          const bytes = write(value);
          return bytes.length === length && valueOf(bytes, min < 0n) === value;
        }),
      );
      for (const edge of [min, max]) t.equal(valueOf(write(edge), min < 0n), edge);
      for (const beyond of [min - 1n, max + 1n])
        t.throws(() => write(beyond), RangeError, `${beyond} in ${length} bytes`);
    }
  },
);

void t.test(
  'up to four addresses are written in order, the rest of the four slots is zeros, a fifth is refused',
  async (t) => {
    const addresses = Array.from({ length: 5 }, () => generateKeypair().address);
    for (let count = 0; count <= 4; count += 1) {
      const slots = addressSlots(addresses.slice(0, count), 'pullers');
      t.equal(slots.length, 128);
      const expected = Buffer.concat(
        [...addresses.slice(0, count).map((address) => addressBytes(address)), Buffer.alloc(128)],
        128,
      );
      t.same(slots, expected);
    }
    t.throws(() => addressSlots(addresses, 'pullers'), { message: /pullers: at most 4/ });
    t.throws(() => addressSlots(['no address'], 'pullers'));
  },
);

void t.test(
  'a text is written as UTF-8 padded with zeros, and its limit counts bytes, not characters',
  async (t) => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), (text) => {
        const length = Buffer.byteLength(text);
        if (length > 64) return true;
        const bytes = fixedText(text, 64, 'uri');
        return (
          bytes.length === 64 &&
          bytes.subarray(0, length).toString('utf8') === text &&
          bytes.subarray(length).every((byte) => byte === 0)
        );
      }),
    );
    t.throws(() => fixedText('é'.repeat(33), 64, 'uri'), {
      message: /uri: at most 64 bytes of UTF-8, not 66/,
    });
  },
);
