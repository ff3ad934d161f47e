// The check of a logo reads the size from the same bytes as a browser does, and decodes nothing.
import { deflateSync } from 'node:zlib';
import fc from 'fast-check';
import t from 'tap';
import { checkLogo } from '../../../src/domain/accounts/logo.ts';
import { ServiceError } from '../../../src/errors.ts';
import {
  canvas,
  chunk,
  png,
  PNG_END,
  PNG_SIGNATURE,
  pngHeader,
  riff,
  webpData,
} from '../../fixtures/images.ts';

const pixels = chunk('IDAT', deflateSync(Buffer.alloc(1000)));
const isTaken = (contentType: 'image/png' | 'image/webp', image: Buffer): boolean => {
  try {
    checkLogo({ contentType, image });
    return true;
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'VALIDATION_ERROR') return false;
    throw error;
  }
};

void t.test('a PNG is accepted only if its header is the first chunk and appears once', (t) => {
  const file = (...chunks: Buffer[]) => Buffer.concat([PNG_SIGNATURE, ...chunks]);
  const small = pngHeader(1, 1);
  t.ok(isTaken('image/png', file(small, pixels, PNG_END)));
  t.ok(isTaken('image/png', file(small, chunk('tEXt', Buffer.from('a\0b')), pixels, PNG_END)));
  t.ok(isTaken('image/png', png(1024)));
  const refused: [string, Buffer][] = [
    ['a second header', file(small, pngHeader(12_000, 12_000), pixels, PNG_END)],
    ['a second header behind the pixels', file(small, pixels, pngHeader(9000, 9000), PNG_END)],
    ['a header that is not first', file(pixels, small, PNG_END)],
    ['no header', file(pixels, PNG_END)],
    ['no pixels', file(small, PNG_END)],
    ['no end', file(small, pixels)],
    ['an interlaced one', png(64, 64, { interlace: true })],
    ['a width of 0', file(pngHeader(0, 1), pixels, PNG_END)],
    ['a width of 1025', png(1025, 1)],
    ['a height of 1025', png(1, 1025)],
    ['a header of 12 bytes', file(chunk('IHDR', Buffer.alloc(12, 1)), pixels, PNG_END)],
    ['a chunk that ends behind the file', file(small, pixels, Buffer.from('ffffffff', 'hex'))],
  ];
  for (const [name, image] of refused) t.notOk(isTaken('image/png', image), name);
  t.end();
});

void t.test('only a WebP with one picture in a RIFF container is accepted', (t) => {
  const { lossy, lossless, wide } = webpData;
  t.ok(isTaken('image/webp', riff(['VP8 ', lossy])));
  t.ok(isTaken('image/webp', riff(['VP8L', lossless])));
  t.ok(isTaken('image/webp', riff(['VP8X', canvas(64)], ['ICCP', Buffer.of(1)], ['VP8 ', lossy])));
  const foreign = riff(['VP8L', lossless]);
  foreign.write('WAVE', 8);
  const refused: [string, Buffer][] = [
    ['a bare stream', lossless],
    ['another RIFF form', foreign],
    ['1025 pixels', riff(['VP8L', wide])],
    ['a canvas that differs', riff(['VP8X', canvas(32)], ['VP8 ', lossy])],
    ['a large picture on a small canvas', riff(['VP8X', canvas(64)], ['VP8L', wide])],
    ['two pictures', riff(['VP8 ', lossy], ['VP8L', wide])],
    ['a picture behind another chunk', riff(['EXIF', Buffer.of(1, 2)], ['VP8 ', lossy])],
    ['a moving one', riff(['VP8X', canvas(64)], ['ANIM', Buffer.alloc(6)], ['VP8 ', lossy])],
    ['two canvases', riff(['VP8X', canvas(64)], ['VP8X', canvas(9000)], ['VP8 ', lossy])],
    ['no picture', riff(['VP8X', canvas(64)])],
    ['bytes behind it', Buffer.concat([riff(['VP8 ', lossy]), Buffer.alloc(8)])],
  ];
  for (const [name, image] of refused) t.notOk(isTaken('image/webp', image), name);
  t.end();
});

void t.test('damaged and random image files are refused and throw no other error', (t) => {
  const files = [png(8), riff(['VP8X', canvas(64)], ['VP8 ', webpData.lossy])];
  const changes = fc.array(fc.tuple(fc.nat(200), fc.nat(255)), { maxLength: 6 });
  fc.assert(
    fc.property(fc.constantFrom(...files), changes, fc.nat(220), (file, bytes, length) => {
      const image = Buffer.from(file.subarray(0, length));
      for (const [at, byte] of bytes) if (at < image.length) image[at] = byte;
      isTaken('image/png', image);
      isTaken('image/webp', image);
    }),
    { numRuns: 5000 },
  );
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      for (const head of ['', 'RIFF', '\x89PNG\r\n\x1a\n'])
        for (const type of ['image/png', 'image/webp'] as const)
          isTaken(type, Buffer.concat([Buffer.from(head, 'latin1'), bytes]));
    }),
  );
  t.end();
});
