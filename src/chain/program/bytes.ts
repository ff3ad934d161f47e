// Encoders for little-endian fields of instruction and account data.
import { addressBytes } from './addresses.ts';

/** Encodes one byte. Throws a RangeError outside 0..255. */
export function u8(value: number): Buffer {
  const bytes = Buffer.alloc(1);
  bytes.writeUInt8(value);
  return bytes;
}

/** Encodes two bytes. Throws a RangeError outside 0..65535. */
export function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

/** Encodes four bytes. Throws a RangeError outside 0..2^32-1. */
export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

/** Encodes eight bytes. Throws a RangeError outside 0..2^64-1. */
export function u64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}

/** Encodes eight bytes. Throws a RangeError outside -2^63..2^63-1. */
export function i64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(value);
  return bytes;
}

/**
 * Encodes up to four addresses as four fields of 32 bytes. Unused fields are zero. Throws a
 * RangeError for more than four addresses.
 */
export function addressSlots(addresses: readonly string[], name: string): Buffer {
  if (addresses.length > 4)
    throw new RangeError(`${name}: at most 4 addresses, not ${addresses.length}`);
  const bytes = Buffer.alloc(4 * 32);
  addresses.forEach((address, slot) => bytes.set(addressBytes(address), slot * 32));
  return bytes;
}

/**
 * Encodes UTF-8 text padded with zeros to `length` bytes. Throws a RangeError when the text needs
 * more bytes.
 */
export function fixedText(text: string, length: number, name: string): Buffer {
  const encoded = Buffer.from(text, 'utf8');
  if (encoded.length > length)
    throw new RangeError(`${name}: at most ${length} bytes of UTF-8, not ${encoded.length}`);
  return Buffer.concat([encoded], length);
}
