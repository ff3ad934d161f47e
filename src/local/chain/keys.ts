import bs58 from 'bs58';

/**
 * A public key, hash or signature, as a latin1 string of its bytes. Maps compare strings by content
 * but Buffers by identity, so only a string works as the key of a Map.
 */
export type Key = string;

export function keyOf(bytes: Uint8Array): Key {
  return (
    Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  ).toString('latin1');
}

export function bytesOf(key: Key): Buffer {
  return Buffer.from(key, 'latin1');
}

export function base58(key: Key): string {
  return bs58.encode(bytesOf(key));
}

/**
 * Decodes Base58 text to a Key. Returns undefined when the text is not Base58, or does not encode
 * exactly `length` bytes.
 */
export function parseBase58(text: string, length: number): Key | undefined {
  if (text.length > length * 2) return undefined;
  const bytes = bs58.decodeUnsafe(text);
  return bytes?.length === length ? keyOf(bytes) : undefined;
}

/** Converts an address from Base58 to a Key. Throws a TypeError when the text is not an address. */
export function addressKey(address: string): Key {
  const key = parseBase58(address, 32);
  if (key === undefined) throw new TypeError(`not an address: ${address}`);
  return key;
}
