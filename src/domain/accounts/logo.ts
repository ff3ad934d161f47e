// The logo of an app. A logo is decoded before it is stored, so that the service serves only bytes
// that are a real image.
import { createHash } from 'node:crypto';
import type { Logo, LogoType } from '../../db/app-logos.ts';
import { invalidField } from '../../errors.ts';

export const MAX_LOGO_BYTES = 64 * 1024;

/**
 * Maximum width and height in pixels. An image with a larger width or height is refused before it
 * is decoded, because even a file of 64 KiB can decompress to a gigabyte.
 */
const MAX_SIDE = 1024;

const decoders: Readonly<Record<LogoType, (image: Buffer) => Promise<void>>> = {
  'image/png': async (image) => {
    const { PNG } = (await import('pngjs')).default;
    // Width and height are the first fields of the first chunk. They follow the signature (8 bytes)
    // and the chunk's length and name (8 bytes).
    refuseLarge(image.readUInt32BE(16), image.readUInt32BE(20));
    PNG.sync.read(image);
  },
  'image/webp': async (image) => {
    const { default: webp } = await import('webp-wasm');
    refuseLarge(...webpSize(image));
    // The decoder takes an ArrayBuffer. A Buffer's own ArrayBuffer can contain other data around
    // the image, so the image is copied. For bytes that are no image, the decoder returns null.
    const decoded: unknown = await webp.decode(new Uint8Array(image).buffer);
    if (decoded === null) throw new Error('no image');
  },
};

/** Returns the media type of a logo. Returns undefined for a type other than PNG and WebP. */
export function logoType(contentType: string | undefined): LogoType | undefined {
  const type = contentType?.split(';', 1)[0]?.trim().toLowerCase();
  return type === 'image/png' || type === 'image/webp' ? type : undefined;
}

/** The version of a logo: the first 16 hex digits of the SHA-256 of the image. */
export const versionOf = ({ image }: Logo): string =>
  createHash('sha256').update(image).digest('hex').slice(0, 16);

/** Throws VALIDATION_ERROR unless the bytes can be decoded as an image of the given type. */
export async function checkLogo({ contentType, image }: Logo): Promise<void> {
  try {
    await decoders[contentType](image);
  } catch (cause) {
    const fault = invalidField(
      'body',
      `must be a ${contentType === 'image/png' ? 'PNG' : 'WebP'} image that can be decoded, of at most ${MAX_SIDE} by ${MAX_SIDE} pixels`,
    );
    fault.cause = cause;
    throw fault;
  }
}

function refuseLarge(width: number, height: number): void {
  if (width > MAX_SIDE || height > MAX_SIDE) throw new Error(`${width} by ${height} pixels`);
}

/**
 * Reads width and height from the first chunk of a WebP file. The chunk's name tells the format:
 * extended (VP8X), lossless (VP8L) or lossy.
 */
function webpSize(image: Buffer): [number, number] {
  const form = image.toString('latin1', 12, 16);
  if (form === 'VP8X') return [image.readUIntLE(24, 3) + 1, image.readUIntLE(27, 3) + 1];
  if (form === 'VP8L') {
    const bits = image.readUInt32LE(21);
    return [(bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1];
  }
  return [image.readUInt16LE(26) & 0x3fff, image.readUInt16LE(28) & 0x3fff];
}
