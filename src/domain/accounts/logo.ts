// The logo of an app. It is decoded before it is kept: what is then served as an image is one.
import { createHash } from 'node:crypto';
import type { Logo, LogoType } from '../../db/app-logos.ts';
import { invalidField } from '../../errors.ts';

/** Most bytes of a logo. */
export const MAX_LOGO_BYTES = 64 * 1024;

/** Most pixels of a side. 64 KiB can be compressed from a gigabyte, which nobody is to decode. */
const MAX_SIDE = 1024;

const decoders: Readonly<Record<LogoType, (image: Buffer) => Promise<void>>> = {
  'image/png': async (image) => {
    const { PNG } = await import('pngjs');
    // The header is the first chunk, behind 8 bytes of signature and 8 of length and name.
    refuseLarge(image.readUInt32BE(16), image.readUInt32BE(20));
    PNG.sync.read(image);
  },
  'image/webp': async (image) => {
    const { default: webp } = await import('webp-wasm');
    refuseLarge(...webpSize(image));
    // A copy, because the decoder would read the whole memory that a Buffer is a part of. What it
    // cannot decode is null.
    const decoded: unknown = await webp.decode(new Uint8Array(image).buffer);
    if (decoded === null) throw new Error('no image');
  },
};

/** Returns the media type of a logo, or undefined for another one. */
export function logoType(contentType: string | undefined): LogoType | undefined {
  const type = contentType?.split(';', 1)[0]?.trim().toLowerCase();
  return type === 'image/png' || type === 'image/webp' ? type : undefined;
}

/** The version of a logo: another content is another one. */
export const versionOf = ({ image }: Logo): string =>
  createHash('sha256').update(image).digest('hex').slice(0, 16);

/** Throws VALIDATION_ERROR unless the bytes are an image of their type that can be decoded. */
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

/** Width and height as the first chunk of a WebP file has them: extended, lossless or lossy. */
function webpSize(image: Buffer): [number, number] {
  const form = image.toString('latin1', 12, 16);
  if (form === 'VP8X') return [image.readUIntLE(24, 3) + 1, image.readUIntLE(27, 3) + 1];
  if (form === 'VP8L') {
    const bits = image.readUInt32LE(21);
    return [(bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1];
  }
  return [image.readUInt16LE(26) & 0x3fff, image.readUInt16LE(28) & 0x3fff];
}
