import type { Key } from '../keys.ts';
import { KEY_LENGTH, type WireMessage } from './message.ts';

/**
 * Thrown when bytes are not a transaction, or when `sanitize` of the Solana SDK would refuse the
 * transaction.
 */
export class WireError extends Error {}

const INSANE = 'Transaction failed to sanitize accounts offsets correctly';
const END = 'io error: unexpected end of file';

/**
 * Reads the bytes of a transaction in order. Each method throws WireError when too few bytes are
 * left.
 */
export class Reader {
  readonly source: Buffer;
  at: number;

  constructor(source: Buffer, at = 0) {
    this.source = source;
    this.at = at;
  }

  byte(): number {
    const value = this.source[this.at];
    if (value === undefined) throw new WireError(END);
    this.at += 1;
    return value;
  }

  /** Skips `length` bytes and returns the offset of the first skipped byte. */
  skip(length: number): number {
    const begin = this.at;
    if (begin + length > this.source.length) throw new WireError(END);
    this.at = begin + length;
    return begin;
  }

  take(length: number): Buffer {
    const begin = this.skip(length);
    return this.source.subarray(begin, this.at);
  }

  key(): Key {
    const begin = this.skip(KEY_LENGTH);
    return this.source.toString('latin1', begin, this.at);
  }

  u16(): number {
    return this.source.readUInt16LE(this.skip(2));
  }

  u32(): number {
    return this.source.readUInt32LE(this.skip(4));
  }

  u64(): bigint {
    return this.source.readBigUInt64LE(this.skip(8));
  }

  /**
   * Reads a number in Solana's compact-u16 encoding. Throws WireError when the encoding is longer
   * than necessary.
   */
  length(): number {
    let value = 0;
    for (let shift = 0; shift < 21; shift += 7) {
      const byte = this.byte();
      if (byte === 0 && shift > 0)
        throw new WireError('io error: a length is not in its shortest form');
      value |= (byte & 0x7f) << shift;
      if ((byte & 0x80) === 0 && value <= 0xffff) return value;
      if ((byte & 0x80) === 0) break;
    }
    throw new WireError('io error: a length is over 65535');
  }
}

/** Throws the WireError for a message that fails a check of `sanitize`. */
export function failSanitize(): never {
  throw new WireError(INSANE);
}

/**
 * Makes the checks of the Solana SDK's `sanitize` that apply to all message versions. `total` is
 * the number of keys, including those from lookup tables.
 */
export function sanitize(message: WireMessage, total: number): void {
  const { source, requiredSignatures, readonlySigned, readonlyUnsigned, keys } = message;
  if (requiredSignatures <= readonlySigned) failSanitize();
  if (requiredSignatures + readonlyUnsigned > keys.length) failSanitize();
  for (const { programIndex, accountsAt, accountsLength } of message.instructions) {
    if (programIndex === 0 || programIndex >= keys.length) failSanitize();
    for (let at = accountsAt; at < accountsAt + accountsLength; at += 1)
      if ((source[at] ?? total) >= total) failSanitize();
  }
}
