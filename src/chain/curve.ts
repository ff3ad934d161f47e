// Program-derived addresses: SHA-256 of seeds, bump and program, taken when it is no point of Ed25519, so that no key can sign for it.
import { createHash } from 'node:crypto';

/** The field's prime, and d of the curve -x^2 + y^2 = 1 + d x^2 y^2 (RFC 8032, 5.1). */
const P = 2n ** 255n - 19n;
const D = 37095705934669439343138083508754565189542113879843219016388785533085940283555n;

const marker = Buffer.from('ProgramDerivedAddress');

/** Whether 32 bytes are a point of the curve as Solana's runtime judges it: y, without its sign bit, has an x. */
export function isOnCurve(bytes: Uint8Array): boolean {
  const littleEndian = Buffer.from(bytes).reverse();
  littleEndian[0] = (littleEndian[0] ?? 0) & 0x7f;
  const y = BigInt(`0x${littleEndian.toString('hex')}`) % P;
  const y2 = (y * y) % P;
  // x^2 = (y^2 - 1) / (d y^2 + 1): a square when the product of the two is one.
  return jacobi(((y2 + P - 1n) * (D * y2 + 1n)) % P) !== -1;
}

/** The first address off the curve, from bump 255 down. Throws an Error when there is none (one in 2^255 or so). */
export function findProgramAddress(seeds: readonly Uint8Array[], programId: Uint8Array): { bytes: Buffer; bump: number } {
  for (let bump = 255; bump >= 0; bump -= 1) {
    const hash = createHash('sha256');
    for (const seed of seeds) hash.update(seed);
    const bytes = hash.update(Uint8Array.of(bump)).update(programId).update(marker).digest();
    if (!isOnCurve(bytes)) return { bytes, bump };
  }
  throw new Error('no bump takes these seeds off the curve');
}

/** The Jacobi symbol (a / P), P being prime: 1 for a square, -1 for none, 0 for 0. */
function jacobi(value: bigint): number {
  let a = value;
  let n = P;
  let sign = 1;
  while (a !== 0n) {
    while ((a & 1n) === 0n) {
      a >>= 1n;
      const low = n & 7n;
      if (low === 3n || low === 5n) sign = -sign;
    }
    [a, n] = [n, a];
    if ((a & 3n) === 3n && (n & 3n) === 3n) sign = -sign;
    a %= n;
  }
  return n === 1n ? sign : 0;
}
