import bs58 from 'bs58';

/** The bytes of a public key, hash or signature as a latin1 string, which maps can use as a key. */
export type Key = string;

/** The key of these bytes. */
export function keyOf(bytes: Uint8Array): Key {
  return (
    Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  ).toString('latin1');
}

/** The bytes of a key. */
export function bytesOf(key: Key): Buffer {
  return Buffer.from(key, 'latin1');
}

/** Base58 of a key. */
export function base58(key: Key): string {
  return bs58.encode(bytesOf(key));
}

/** The key of a Base58 text; undefined when it is not Base58 or not of `length` bytes. */
export function parseBase58(text: string, length: number): Key | undefined {
  if (text.length > length * 2) return undefined;
  const bytes = bs58.decodeUnsafe(text);
  return bytes?.length === length ? keyOf(bytes) : undefined;
}

/** The key of an address constant. Throws a TypeError when it is not an address. */
export function addressKey(address: string): Key {
  const key = parseBase58(address, 32);
  if (key === undefined) throw new TypeError(`not an address: ${address}`);
  return key;
}
