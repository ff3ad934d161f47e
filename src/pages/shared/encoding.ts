import bs58 from 'bs58';

/** Bytes as Base58. */
export const toBase58 = (bytes: Uint8Array): string => bs58.encode(bytes);

/** Base64 as bytes. */
export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** Bytes as Base64. */
export function toBase64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
}
