// The logo of an app: what is stored, what is refused, and how it is served.
import { deflateSync } from 'node:zlib';
import t from 'tap';
import { type Answer, type CallOptions, publicUrl, testApi } from '../../fixtures/http.ts';
import { canvas, png, riff, webpData } from '../../fixtures/images.ts';
import { insertPlan } from '../../fixtures/rows.ts';

interface App {
  id: string;
  logoUrl: string | null;
}

const LIMIT = 64 * 1024;

async function shop(t: Parameters<typeof testApi>[0]) {
  const api = await testApi(t);
  const { key, ...merchant } = await api.merchant();
  const path = `/merchant/apps/${merchant.appId}/logo`;
  const store = (payload: Buffer | string, type: string, more: CallOptions = {}) =>
    api.call<App>('POST', path, {
      token: key,
      payload,
      headers: { 'content-type': type },
      ...more,
    });
  return { api, key, path, store, ...merchant };
}

const served = async ({ api }: { api: Awaited<ReturnType<typeof testApi>> }, url: string) =>
  api.app.inject(url.replace(publicUrl, ''));

void t.test('a logo is served unchanged until it is replaced or deleted', async (t) => {
  const own = await shop(t);
  const { api, appId, key } = own;
  const planId = await insertPlan(api.sql, own);
  const images: [string, Buffer][] = [
    ['image/png', png(64)],
    ['image/webp', riff(['VP8L', webpData.lossless])],
    ['image/webp', riff(['VP8X', canvas(64)], ['VP8 ', webpData.lossy])],
  ];
  let before: string | null = null;
  for (const [type, image] of images) {
    const stored = await own.store(image, type);
    t.equal(stored.status, 200);
    const { logoUrl } = stored.body.data;
    t.match(logoUrl, new RegExp(`^${publicUrl}/logos/${appId}/[0-9a-f]{16}$`));
    const answer = await served(own, logoUrl ?? '');
    t.same(answer.rawPayload, image);
    t.match(answer.headers, {
      'content-type': type,
      'x-content-type-options': 'nosniff',
      'cache-control': 'public, max-age=86400',
      'content-security-policy': /default-src 'none'/,
      'cross-origin-resource-policy': 'cross-origin',
    });
    if (before !== null) t.equal((await served(own, before)).statusCode, 404, 'the one before');
    before = logoUrl;
    const { data } = (await api.call<App>('GET', `/plans/${planId}`)).body;
    t.equal(data.logoUrl, logoUrl, 'of the public plan');
    t.match(
      (await api.app.inject(`/s/${planId}`)).payload,
      `<meta property="og:image" content="${logoUrl ?? ''}">`,
    );
  }
  t.equal((await own.store(images[0]?.[1] ?? '', 'image/png')).body.data.logoUrl !== before, true);
  const gone = await api.call<App>('DELETE', own.path, { token: key });
  t.match(gone, { status: 200, body: { data: { id: appId, logoUrl: null } } });
  t.equal((await served(own, before ?? '')).statusCode, 404);
  t.notMatch((await api.app.inject(`/s/${planId}`)).payload, 'og:image');
  t.equal((await api.call('DELETE', own.path, { token: key })).status, 200, 'without one');
});

void t.test(
  'a logo that is no complete image, too large or of another type is refused',
  async (t) => {
    const own = await shop(t);
    const good = png(64);
    const damaged = Buffer.from(good);
    damaged[45] = (damaged[45] ?? 0) ^ 1;
    const lossy = riff(['VP8 ', webpData.lossy]);
    const page = '<script>alert(1)</script>';
    const refusals: [string, Buffer | string, string][] = [
      ['a page', page, 'image/png'],
      [
        'a page with the signature of PNG',
        Buffer.concat([good.subarray(0, 8), Buffer.from(page)]),
        'image/png',
      ],
      ['cut off', good.subarray(0, -20), 'image/png'],
      ['damaged', damaged, 'image/png'],
      ['a page behind it', Buffer.concat([good, Buffer.from(page)]), 'image/png'],
      ['WebP named PNG', lossy, 'image/png'],
      ['PNG named WebP', good, 'image/webp'],
      ['WebP cut off', lossy.subarray(0, 40), 'image/webp'],
      ['WebP of noise', Buffer.concat([lossy.subarray(0, 30), deflateSync(good)]), 'image/webp'],
      ['too many pixels', png(1025, 1), 'image/png'],
      ['WebP with too many pixels', riff(['VP8L', webpData.wide]), 'image/webp'],
      ['empty', '', 'image/png'],
    ];
    for (const [name, image, type] of refusals) {
      const answer: Answer<App> = await own.store(image, type);
      t.match(answer, { status: 400, body: { error: { code: 'VALIDATION_ERROR' } } }, name);
    }
    for (const type of [
      'image/svg+xml',
      'image/gif',
      'application/json',
      'text/html',
      'image/pngx',
    ])
      t.match(
        await own.store(good, type),
        { status: 400, body: { error: { details: [{ path: 'content-type' }] } } },
        type,
      );
    const large = png(140, 118, { noise: true });
    t.ok(large.length > LIMIT, 'larger than the limit');
    t.match(await own.store(large, 'image/png'), {
      status: 400,
      body: { error: { message: /64 KiB/ } },
    });
    const { data } = (
      await own.api.call<App>('GET', `/merchant/apps/${own.appId}`, { token: own.key })
    ).body;
    t.equal(data.logoUrl, null, 'nothing was stored');
  },
);

void t.test('the owner of the app is checked before the image', async (t) => {
  const own = await shop(t);
  const other = await own.api.merchant();
  t.equal((await own.store('no image', 'image/png', { token: other.key })).status, 403);
  t.equal((await own.store('no image', 'image/png')).status, 400);
});

void t.test('only the app’s merchant can store and delete its logo', async (t) => {
  const own = await shop(t);
  const other = await own.api.merchant();
  const { token } = await own.api.signIn('subscriber');
  t.equal((await own.store(png(8), 'image/png', { token: other.key })).status, 403);
  t.equal((await own.store(png(8), 'image/png', { token })).status, 403);
  t.equal((await own.store(png(8), 'image/png', { token: undefined })).status, 401);
  t.equal((await own.api.call('DELETE', own.path, { token: other.key })).status, 403);
  for (const path of ['/logos/x/y', `/logos/${own.appId}/0123456789abcdef`])
    t.equal((await own.api.call('GET', path)).status, 404, path);
});
