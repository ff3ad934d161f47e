import bs58 from 'bs58';

/** Bytes of a public key, hash or signature as a latin1 string: the form in which maps are keyed (Base58 of one key costs 3 us). */
export type Key = string;

/** The key of these bytes. */
export function keyOf(bytes: Uint8Array): Key {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

/** The bytes of a key. */
export function bytesOf(key: Key): Buffer {
  return Buffer.from(key, 'latin1');
}

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const PAIRS = Array.from({ length: 58 * 58 }, (_, pair) => `${ALPHABET[Math.floor(pair / 58)] ?? ''}${ALPHABET[pair % 58] ?? ''}`);
// 58^8 fits into the integers that a number holds exactly.
const EIGHT_DIGITS = 58n ** 8n;

/** Base58 of a key. bs58 takes 10 us for a signature, this 2 us, and every sendTransaction answers with one. */
export function base58(key: Key): string {
  const hex = bytesOf(key).toString('hex');
  let text = '';
  for (let rest = BigInt(`0x0${hex}`); rest > 0n;) {
    const above = rest / EIGHT_DIGITS;
    let digits = Number(rest - above * EIGHT_DIGITS);
    let part = '';
    for (let pair = 0; pair < 4; pair += 1) {
      const higher = Math.floor(digits / PAIRS.length);
      part = `${PAIRS[digits - higher * PAIRS.length] ?? ''}${part}`;
      digits = higher;
    }
    text = part + text;
    rest = above;
  }
  // Each zero byte in front is a 1; the padding of the first part is not.
  const zeros = (/^(?:00)*/.exec(hex)?.[0].length ?? 0) / 2;
  return '1'.repeat(zeros) + text.replace(/^1+/, '');
}

/** The key that Base58 `text` stands for, undefined when it is not Base58 or not of `length` bytes. */
export function parseBase58(text: string, length: number): Key | undefined {
  if (text.length > length * 2) return undefined;
  const bytes = bs58.decodeUnsafe(text);
  return bytes?.length === length ? keyOf(bytes) : undefined;
}

/** The key of an address that the code itself names. Throws a TypeError when it is not one. */
export function addressKey(address: string): Key {
  const key = parseBase58(address, 32);
  if (key === undefined) throw new TypeError(`not an address: ${address}`);
  return key;
}
