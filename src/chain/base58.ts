// Base58 as Bitcoin and Solana write it. Keeper and local chain do this dozens of times for each payment. All products and sums are integers that a
// number holds exactly.

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const PAIRS = Array.from({ length: 58 ** 2 }, (_, pair) => `${ALPHABET[Math.floor(pair / 58)] ?? ''}${ALPHABET[pair % 58] ?? ''}`);
const VALUES = new Map(Array.from(ALPHABET, (digit, value) => [digit.charCodeAt(0), value]));
const valueOf = Int8Array.from({ length: 128 }, (_, code) => VALUES.get(code) ?? -1);
const FOUR_DIGITS = 58 ** 4;
const TWO_BYTES = 65_536;

/** The powers of 65536, up to a signature's length, in parts of four digits each, the lowest first. */
const POWERS = Array.from({ length: 32 }, (_, power) => {
  const parts: number[] = [];
  for (let rest = BigInt(TWO_BYTES) ** BigInt(power); rest > 0n; rest /= BigInt(FOUR_DIGITS))
    parts.push(Number(rest % BigInt(FOUR_DIGITS)));
  return Float64Array.from(parts);
});
const MOST_BYTES = 2 * POWERS.length;

/** The number in hand, and its digits. */
const sums = new Float64Array(MOST_BYTES);
const digits = Buffer.alloc(4 * sums.length);
const codes = Uint8Array.from(ALPHABET, (digit) => digit.charCodeAt(0));

/**
 * The text of some bytes. Keys and signatures are sums of powers that are carried once, at the end: it takes half to three quarters of the time of
 * carrying after every third byte (and bs58 takes many times as long).
 */
export function encodeBase58(bytes: Uint8Array): string {
  let zeros = 0;
  while (bytes[zeros] === 0) zeros += 1;
  if (bytes.length - zeros > MOST_BYTES) return '1'.repeat(zeros) + encodeLong(bytes, zeros);
  const words = (bytes.length - zeros + 1) >> 1;
  const count = words === 0 ? 0 : (POWERS[words - 1]?.length ?? 0) + 1;
  sums.fill(0, 0, count);
  for (let word = 0, low = bytes.length - 1; word < words; word += 1, low -= 2) {
    const times = (bytes[low] ?? 0) + (low > zeros ? (bytes[low - 1] ?? 0) * 256 : 0);
    const power = POWERS[word] ?? sums;
    for (let place = 0; place < power.length; place += 1) sums[place] = (sums[place] ?? 0) + (power[place] ?? 0) * times;
  }
  let at = digits.length;
  for (let place = 0, carry = 0; place < count; place += 1) {
    const value = (sums[place] ?? 0) + carry;
    carry = Math.floor(value / FOUR_DIGITS);
    let part = (value - carry * FOUR_DIGITS) | 0;
    for (let digit = 0; digit < 4; digit += 1) {
      const higher = (part / 58) | 0;
      digits[(at -= 1)] = codes[part - higher * 58] ?? 0;
      part = higher;
    }
  }
  // Each zero byte in front is a 1; the padding of the highest part is not.
  while (digits[at] === codes[0]) at += 1;
  const text = digits.toString('latin1', at);
  return zeros === 0 ? text : '1'.repeat(zeros) + text;
}

/** The digits of bytes from `from` on, however many. */
function encodeLong(bytes: Uint8Array, from: number): string {
  // Four digits each, the lowest first; three bytes more in each round.
  const parts: number[] = [];
  for (let at = from; at < bytes.length;) {
    let [carry, scale] = [0, 1];
    for (const end = at + ((bytes.length - at) % 3 || 3); at < end; at += 1) {
      carry = carry * 256 + (bytes[at] ?? 0);
      scale *= 256;
    }
    for (let place = 0; place < parts.length; place += 1) {
      const value = (parts[place] ?? 0) * scale + carry;
      carry = Math.floor(value / FOUR_DIGITS);
      parts[place] = value - carry * FOUR_DIGITS;
    }
    for (; carry > 0; carry = Math.floor(carry / FOUR_DIGITS)) parts.push(carry % FOUR_DIGITS);
  }
  const pairsOf = (part: number) => `${PAIRS[Math.floor(part / PAIRS.length)] ?? ''}${PAIRS[part % PAIRS.length] ?? ''}`;
  return parts.map(pairsOf).reverse().join('').replace(/^1+/, '');
}

/** The bytes of a text, undefined when it is not Base58. */
export function decodeBase58(text: string): Buffer | undefined {
  let zeros = 0;
  while (text.charCodeAt(zeros) === 49) zeros += 1;
  // Two bytes each, the lowest first; five digits more in each round.
  const parts: number[] = [];
  for (let at = zeros; at < text.length;) {
    let [carry, scale] = [0, 1];
    for (const end = Math.min(at + 5, text.length); at < end; at += 1) {
      const digit = valueOf[text.charCodeAt(at)] ?? -1;
      if (digit < 0) return undefined;
      carry = carry * 58 + digit;
      scale *= 58;
    }
    for (let place = 0; place < parts.length; place += 1) {
      const value = (parts[place] ?? 0) * scale + carry;
      carry = Math.floor(value / TWO_BYTES);
      parts[place] = value - carry * TWO_BYTES;
    }
    for (; carry > 0; carry = Math.floor(carry / TWO_BYTES)) parts.push(carry % TWO_BYTES);
  }
  const odd = (parts.at(-1) ?? TWO_BYTES) < 256 ? 1 : 0;
  const bytes = Buffer.alloc(zeros + 2 * parts.length - odd);
  for (let place = 0; place < parts.length; place += 1) {
    const [part, end] = [parts[place] ?? 0, bytes.length - 2 * place];
    bytes[end - 1] = part & 0xff;
    if (place < parts.length - 1 || odd === 0) bytes[end - 2] = part >> 8;
  }
  return bytes;
}
