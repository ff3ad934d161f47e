import assert from 'node:assert/strict';
import { PublicKey } from '@solana/web3.js';
import fc from 'fast-check';
import t from 'tap';
import { findProgramAddress, isOnCurve } from '../../src/chain/curve.ts';
import { generateKeypair } from '../../src/chain/keypair.ts';
import { addressBytes } from '../../src/chain/addresses.ts';

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });

void t.test('bytes are a point of the curve where web3.js says so', (t) => {
  let on = 0;
  fc.assert(
    fc.property(bytes(32), (point) => {
      on += isOnCurve(point) ? 1 : 0;
      assert.equal(isOnCurve(point), PublicKey.isOnCurve(point));
    }),
    { numRuns: 500 },
  );
  t.ok(on > 100 && on < 400, 'half of all');
  t.end();
});

void t.test('every public key is one, and so are the points with a small order', (t) => {
  for (let count = 0; count < 20; count += 1) t.ok(isOnCurve(addressBytes(generateKeypair().address)));
  const y = (low: number, rest: number, high: number) => Uint8Array.of(low, ...Array<number>(30).fill(rest), high);
  t.ok(isOnCurve(y(1, 0, 0)), 'y = 1: the neutral element');
  t.ok(isOnCurve(y(0, 0, 0)), 'y = 0: order 4');
  t.ok(isOnCurve(y(0xec, 0xff, 0x7f)), 'y = -1: order 2');
  t.notOk(isOnCurve(y(2, 0, 0)), 'y = 2');
  t.end();
});

void t.test('derived addresses and bumps are those of web3.js, for any seeds', (t) => {
  const seeds = fc.array(fc.uint8Array({ maxLength: 32 }), { maxLength: 15 });
  fc.assert(
    fc.property(seeds, bytes(32), (parts, program) => {
      const [expected, bump] = PublicKey.findProgramAddressSync(parts, new PublicKey(program));
      assert.deepEqual(findProgramAddress(parts, program), { bytes: expected.toBuffer(), bump });
    }),
    { numRuns: 200 },
  );
  t.pass();
  t.end();
});
