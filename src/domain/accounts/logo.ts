// The logo of an app. A logo is checked but not decoded. If a decoder read other bytes than the
// size check, a crafted file could fill the memory. The check therefore reads the same bytes as a
// browser's decoder, and refuses every file that can state a second size.
import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Logo, LogoType } from '../../db/accounts/app-logos.ts';
import { invalidField } from '../../errors.ts';

export const MAX_LOGO_BYTES = 64 * 1024;

/** Maximum width and height in pixels. A browser needs at most 4 MiB for such an image. */
const MAX_SIDE = 1024;

interface Size {
  readonly width: number;
  readonly height: number;
}

interface Chunk {
  readonly name: string;
  readonly data: Buffer;
}

/** Reads the size of an image; undefined for a file that is not a whole image of the type. */
const sizes: Readonly<Record<LogoType, (file: Buffer) => Size | undefined>> = {
  'image/png': pngSize,
  'image/webp': webpSize,
};

/** Returns the media type of a logo. Returns undefined for a type other than PNG and WebP. */
export function logoType(contentType: string | undefined): LogoType | undefined {
  const type = contentType?.split(';', 1)[0]?.trim().toLowerCase();
  return type === 'image/png' || type === 'image/webp' ? type : undefined;
}

/** The version of a logo: the first 16 hex digits of the SHA-256 of the image. */
export const versionOf = ({ image }: Logo): string =>
  createHash('sha256').update(image).digest('hex').slice(0, 16);

/**
 * Throws VALIDATION_ERROR unless the bytes are one whole image of the given type, of at most
 * MAX_SIDE by MAX_SIDE pixels. An interlaced PNG and an animated WebP are refused.
 */
export function checkLogo({ contentType, image }: Logo): void {
  const size = sizes[contentType](image);
  const fits = (side: number) => side >= 1 && side <= MAX_SIDE;
  if (size !== undefined && fits(size.width) && fits(size.height)) return;
  const form = contentType === 'image/png' ? 'PNG image, not interlaced' : 'WebP image, not moving';
  throw invalidField(
    'body',
    `must be a whole ${form}, of at most ${MAX_SIDE} by ${MAX_SIDE} pixels`,
  );
}

const PNG_SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');

/** Source of the format: Portable Network Graphics (PNG) Specification, sections 5 and 11. */
function pngSize(file: Buffer): Size | undefined {
  if (!file.subarray(0, 8).equals(PNG_SIGNATURE)) return undefined;
  const chunks: Chunk[] = [];
  let at = 8;
  while (at + 12 <= file.length) {
    const end = at + 8 + file.readUInt32BE(at);
    if (end + 4 > file.length) return undefined;
    if (crc32(file.subarray(at + 4, end)) !== file.readUInt32BE(end)) return undefined;
    chunks.push({
      name: file.toString('latin1', at + 4, at + 8),
      data: file.subarray(at + 8, end),
    });
    at = end + 4;
  }
  const [header, ...others] = chunks;
  if (at !== file.length || header?.name !== 'IHDR' || header.data.length !== 13) return undefined;
  const names = others.map(({ name }) => name);
  if (names.includes('IHDR') || !names.includes('IDAT') || names.at(-1) !== 'IEND')
    return undefined;
  const isInterlaced = header.data[12] !== 0;
  if (isInterlaced) return undefined;
  return { width: header.data.readUInt32BE(0), height: header.data.readUInt32BE(4) };
}

/** Source of the format: RFC 9649, WebP Image Format. */
function webpSize(file: Buffer): Size | undefined {
  const isRiff = file.toString('latin1', 0, 4) === 'RIFF' && file.length >= 12;
  if (!isRiff || file.toString('latin1', 8, 12) !== 'WEBP') return undefined;
  if (file.readUInt32LE(4) !== file.length - 8) return undefined;
  const chunks: Chunk[] = [];
  let at = 12;
  while (at + 8 <= file.length) {
    const length = file.readUInt32LE(at + 4);
    const data = file.subarray(at + 8, at + 8 + length);
    if (data.length !== length) return undefined;
    chunks.push({ name: file.toString('latin1', at, at + 4), data });
    at += 8 + length + (length % 2);
  }
  const [first, ...others] = chunks;
  const pictures = chunks.filter(({ name }) => name === 'VP8 ' || name === 'VP8L');
  const [picture] = pictures;
  if (at !== file.length || first === undefined || picture === undefined) return undefined;
  if (pictures.length > 1) return undefined;
  const size = picture.name === 'VP8L' ? losslessSize(picture.data) : lossySize(picture.data);
  if (first === picture) return size;
  const canvas = first.name === 'VP8X' ? canvasSize(first.data) : undefined;
  const isOne = !others.some(({ name }) => name === 'VP8X' || name === 'ANIM' || name === 'ANMF');
  const agrees = canvas?.width === size?.width && canvas?.height === size?.height;
  return isOne && agrees ? size : undefined;
}

function losslessSize(data: Buffer): Size | undefined {
  if (data.length < 5 || data[0] !== 0x2f) return undefined;
  const bits = data.readUInt32LE(1);
  return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
}

/** Source of the format: RFC 6386, section 9.1. The two upper bits of each side are a scale. */
function lossySize(data: Buffer): Size | undefined {
  const isKeyFrame =
    data.length >= 10 && data.readUIntBE(3, 3) === 0x9d012a && (data.readUInt8(0) & 1) === 0;
  if (!isKeyFrame) return undefined;
  return { width: data.readUInt16LE(6) & 0x3fff, height: data.readUInt16LE(8) & 0x3fff };
}

function canvasSize(data: Buffer): Size | undefined {
  if (data.length !== 10) return undefined;
  return { width: data.readUIntLE(4, 3) + 1, height: data.readUIntLE(7, 3) + 1 };
}
