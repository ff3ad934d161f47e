// The browser pages as files: headers, sizes, files that are not served.
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import t from 'tap';
import { connect } from '../../../src/db/postgres/connect.ts';
import { catalogues } from '../../../src/words/catalogues.ts';
import { languages } from '../../../src/words/languages.ts';
import { testApi } from '../../fixtures/http.ts';

const built = new URL('../../../dist/pages/', import.meta.url);
if (!existsSync(new URL('manifest.json', built)))
  throw new Error('the pages are not built: run "npm run build"');
const manifest = JSON.parse(await readFile(new URL('manifest.json', built), 'utf8')) as Record<
  string,
  string
>;

const documents = ['/s/019a2f6e-7c3a-7d5e-9b1f-3c8a5d2e4f60', '/account', '/dashboard'];

void t.test('pages may load only the site’s own files and cannot be framed', async (t) => {
  const { app } = await testApi(t);
  for (const url of documents) {
    const { statusCode, headers, payload } = await app.inject(url);
    t.equal(statusCode, 200, url);
    const policy = String(headers['content-security-policy']);
    t.match(
      policy,
      /^default-src 'none'; script-src 'self'; style-src 'self'( 'sha256-[^ ;']+')?; /,
    );
    for (const part of ["connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"])
      t.ok(policy.includes(part), part);
    t.notMatch(policy, /unsafe|https:/);
    t.match(headers, { 'x-frame-options': 'DENY', 'cache-control': 'no-cache' });
    t.match(headers, { 'referrer-policy': 'no-referrer', 'x-content-type-options': 'nosniff' });
    t.notMatch(payload, /<script(?! type="module" src="\/assets\/)/, 'no script in the document');
    t.notMatch(payload, /style=|<style|https?:\/\//, 'no style, no other host');
  }
});

/** Chrome on Android, whose pages load the Mobile Wallet Adapter as well. */
const PHONE =
  'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36';

void t.test(
  'a buyer’s page weighs less than 110 KB compressed, the dashboard 130 KB',
  async (t) => {
    const { app } = await testApi(t, { environment: 'production' });
    for (const url of [...documents, '/checkout/019a2f6e-7c3a-7d5e-9b1f-3c8a5d2e4f60'])
      for (const language of Object.keys(languages)) {
        const headers = { 'user-agent': PHONE, 'accept-language': language };
        const { payload } = await app.inject({ url, headers });
        // Files that some states of the page, or pages in another language, load later.
        const isLater = (file: string) => /qr-code-|words-/.test(file);
        const isOwn = (file: string) => file.includes(`words-${language}-`) && url !== '/dashboard';
        const files = Array.from(payload.matchAll(/"(\/assets\/[^"]+)"/g), ([, file]) =>
          String(file),
        ).filter((file) => !isLater(file) || isOwn(file));
        const parts = await Promise.all(
          files.map((file) => app.inject({ url: file, headers: { 'accept-encoding': 'br' } })),
        );
        const bytes = parts.reduce(
          (sum, { rawPayload }) => sum + rawPayload.length,
          payload.length,
        );
        const least = url === '/dashboard' ? 3 : language === 'en' ? 4 : 5;
        t.equal(files.length, least, `${url} in ${language}: ${files.join(' ')}`);
        const most = url === '/dashboard' ? 130_000 : 110_000;
        t.ok(bytes < most, `${url} in ${language}: ${bytes} bytes`);
      }
  },
);

void t.test(
  'only Chrome on Android may reach wallet apps, and only from buyers’ pages',
  async (t) => {
    const { app } = await testApi(t);
    const ask = async (url: string, agent: string) => {
      const { headers, payload } = await app.inject({ url, headers: { 'user-agent': agent } });
      t.match(headers.vary, /user-agent/);
      const connect = /connect-src ([^;]*)/.exec(String(headers['content-security-policy']))?.[1];
      const script = /<meta name="billing-wallet-apps" content="(.*?)">/.exec(payload)?.[1];
      return { connect, script };
    };
    const phone = {
      connect: "'self' ws://localhost:* http://localhost",
      script: `/assets/${manifest['mobile-wallet'] ?? ''}`,
    };
    const other = { connect: "'self'", script: undefined };
    t.same(await ask('/s/x', PHONE), phone);
    t.same(await ask('/checkout/x', PHONE), phone);
    t.same(await ask('/account', PHONE), phone);
    t.same(await ask('/dashboard', PHONE), other);
    for (const agent of [
      '',
      PHONE.replace('Linux; Android 10; K', 'X11; Linux x86_64'),
      // The browser inside of a wallet app, and Firefox.
      PHONE.replace('; K', '; K; wv').replace('Chrome', 'Version/4.0 Chrome'),
      'Mozilla/5.0 (Android 14; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0',
      'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/140.0.0.0 Mobile/15E148 Safari/604.1',
    ])
      t.same(await ask('/s/x', agent), other, agent);
  },
);

void t.test(
  'files are immutable and compressed; source maps and others are not served',
  async (t) => {
    const { app } = await testApi(t);
    for (const name of Object.values(manifest)) {
      const plain = await app.inject(`/assets/${name}`);
      t.equal(plain.statusCode, 200, name);
      t.match(plain.headers['cache-control'], /max-age=31536000, immutable/);
      const brotli = await app.inject({
        url: `/assets/${name}`,
        headers: { 'accept-encoding': 'br, gzip' },
      });
      t.equal(brotli.headers['content-encoding'], 'br');
      t.ok(brotli.rawPayload.length < plain.rawPayload.length);
    }
    const maps = await readdir(new URL('maps/', built));
    t.ok(maps.length > 0);
    for (const url of [
      `/maps/${maps[0] ?? ''}`,
      `/assets/${maps[0] ?? ''}`,
      '/assets/../manifest.json',
      '/assets/%2e%2e/manifest.json',
      '/assets/',
      '/assets/none.js',
    ])
      t.equal((await app.inject(url)).statusCode, 404, url);
  },
);

void t.test('the text of each language except English is in a separate file', async (t) => {
  const files = Object.keys(manifest).filter((name) => name.startsWith('words-'));
  t.equal(files.length, Object.keys(languages).length - 1);
});

void t.test('the demo wallet only exists in development on a local chain', async (t) => {
  const local = await testApi(t);
  t.match((await local.app.inject('/account')).payload, /demo-wallet-/);
  const devnet = await testApi(t, { cluster: 'devnet' });
  t.notMatch((await devnet.app.inject('/account')).payload, /demo-wallet-/);
  const production = await testApi(t, { environment: 'production' });
  t.notMatch((await production.app.inject('/account')).payload, /demo-wallet-/);
});

void t.test('the sandbox’s buttons are only in the demo wallet’s script', async (t) => {
  const textOf = (page: string) =>
    readFile(new URL(`assets/${manifest[page] ?? ''}`, built), 'utf8');
  t.match(await textOf('demo-wallet'), 'Empty this wallet');
  for (const page of ['subscribe', 'account', 'dashboard'])
    t.notMatch(await textOf(page), 'Empty this wallet', page);
  // The sandbox's own server has what they do: no installation has a route of it.
  for (const environment of ['development', 'production'] as const) {
    const { app } = await testApi(t, { environment });
    for (const name of ['month', 'empty', 'revoke', 'repair'])
      t.equal((await app.inject(`/control/${'0'.repeat(32)}/${name}`)).statusCode, 404, name);
  }
});

void t.test('pages show the operator’s address for abuse reports, escaped', async (t) => {
  const reportUrl = 'https://billing.example/abuse?a="b"&c=<d>';
  const { app } = await testApi(t, { reportUrl });
  for (const url of documents)
    t.match(
      (await app.inject(url)).payload,
      '<meta name="billing-report" content="https://billing.example/abuse?a=&#34;b&#34;&#38;c=&#60;d&#62;">',
    );
  const without = await testApi(t);
  t.match(
    (await without.app.inject('/account')).payload,
    '<meta name="billing-report" content="">',
  );
});

void t.test('only the dashboard shows the operator’s contact address for merchants', async (t) => {
  const { app } = await testApi(t, { contactUrl: 'mailto:sales@billing.example' });
  const meta = '<meta name="billing-contact" content="mailto:sales@billing.example">';
  for (const url of documents)
    t.equal((await app.inject(url)).payload.includes(meta), url === '/dashboard', url);
});

void t.test(
  'pages and public plan terms share a rate limit per address, static files have none',
  async (t) => {
    const { app } = await testApi(t, { requestsPerMinute: { free: 1, pro: 1 } });
    const answers = [];
    for (const url of [...documents, '/plans/x', '/account', '/s/x', '/account', '/plans/x'])
      answers.push((await app.inject(url)).statusCode);
    t.same(answers, [200, 200, 200, 404, 200, 200, 429, 429]);
    for (const url of [`/assets/${manifest.style ?? ''}`, '/openapi.json', '/docs/'])
      for (let n = 0; n < 8; n += 1) t.equal((await app.inject(url)).statusCode, 200, url);
  },
);

void t.test('a rate-limited page request gets an error page with a way to continue', async (t) => {
  const { app } = await testApi(t, { requestsPerMinute: { free: 1, pro: 1 } });
  for (let n = 0; n < 6; n += 1) await app.inject('/account');
  for (const url of documents) {
    const { statusCode, headers, payload } = await app.inject(url);
    t.equal(statusCode, 429, url);
    t.match(headers, {
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'x-frame-options': 'DENY',
      'ratelimit-limit': '6',
      'ratelimit-remaining': '0',
    });
    const seconds = String(headers['retry-after']);
    t.match(seconds, /^\d+$/);
    t.ok(payload.includes(`Load the page again in ${seconds} seconds.`));
    t.match(payload, /<h1>One moment, please<\/h1>/);
    t.match(payload, /<a class="button" href="">Load the page again<\/a>/);
    t.notMatch(payload, /<script|style=|<style|https?:\/\//);
  }
  const data = await app.inject('/plans/x');
  t.match(data.headers['content-type'], /json/, 'data is refused as data');
});

void t.test('error pages of buyers’ pages are in the reader’s language', async (t) => {
  const { app } = await testApi(t, { requestsPerMinute: { free: 3, pro: 3 } });
  const ask = async (url: string, language: string) =>
    (await app.inject({ url, headers: { 'accept-language': language } })).payload;
  for (const [header, code] of [
    ['de-CH,de;q=0.9,en;q=0.8', 'de'],
    ['fi, fr;q=0.5, es;q=0.7', 'es'],
    ['en;q=0, ja;q=0.1', 'ja'],
    ['*, pt', 'pt'],
    ['fi', 'en'],
    ['', 'en'],
    [';;q=x,,fr;q=', 'fr'],
  ] as const) {
    const words = catalogues[code].site;
    const payload = await ask('/account', header);
    t.ok(payload.includes(`<html lang="${code}">`), header);
    for (const text of [words.account.title, words.account.fact, words.loading, words.needsScript])
      t.ok(payload.includes(text), text);
  }
  t.match(await ask('/dashboard', 'de'), /<html lang="en">.*<title>Dashboard<\/title>/s);
  while (!(await ask('/s/x', 'en')).includes(catalogues.en.site.oneMoment));
  const refused = await ask('/s/x', 'fr');
  const { tooMany, subscribe } = catalogues.fr.site;
  for (const text of ['Un instant', tooMany, subscribe.fact]) t.ok(refused.includes(text), text);
});

void t.test('while the database is unreachable, a page request gets an error page', async (t) => {
  const sql = connect('postgres://postgres@127.0.0.1:1/none', { max: 1, name: 'serve' });
  t.teardown(() => sql.end({ timeout: 0 }));
  const { app } = await testApi(t, { sql });
  const { statusCode, headers, payload } = await app.inject('/account');
  t.equal(statusCode, 503);
  t.match(headers, { 'content-type': 'text/html; charset=utf-8', 'retry-after': '5' });
  t.match(payload, /does not reach its database/);
});

void t.test('a page says what to do if its script does not start', async (t) => {
  const { app } = await testApi(t);
  for (const url of documents) {
    const { payload } = await app.inject(url);
    const late = /<div class="late">(.*?)<\/div>/s.exec(payload)?.[1] ?? '';
    t.match(late, /This page has not started/, url);
    t.match(late, /<a class="button" href="">Load the page again<\/a>/);
    t.match(late, /Nothing was (signed|changed)/);
  }
});

void t.test('a plan’s public terms need no credentials', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const { insertPlan } = await import('../../fixtures/rows.ts');
  const id = await insertPlan(api.sql, merchant);
  const { status, body } = await api.call('GET', `/plans/${id}`);
  t.equal(status, 200);
  t.match(body.data, {
    id,
    appId: merchant.appId,
    appName: 'Coffee',
    merchantWallet: merchant.wallet,
  });
  t.notOk('email' in body.data, 'no address of the merchant');
  for (const absent of ['x', '01999999-0000-7000-8000-000000000000'])
    t.equal((await api.call('GET', `/plans/${absent}`)).status, 404, absent);
});

void t.test('the page of a plan has Open Graph tags of the plan, escaped', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const { insertPlan } = await import('../../fixtures/rows.ts');
  const id = await insertPlan(api.sql, merchant);
  await api.sql`
    update plans set name = ${'Tea "$&" <b>\u202e'}, amount = 2500000, period_hours = 730`;
  const { payload } = await api.app.inject(`/s/${id}`);
  const tags: Record<string, string> = {};
  for (const [, tag = '', content = ''] of payload.matchAll(
    /<meta property="(.*?)" content="(.*?)">/g,
  ))
    tags[tag] = content;
  const name = 'Tea &#34;$&#38;&#34; &#60;b&#62; ';
  t.match(tags, {
    'og:type': 'website',
    'og:title': `${name} · Coffee`,
    'og:description': /^2\.50 USDC every month/,
    'og:url': new RegExp(`/s/${id}$`),
  });
  t.match(payload, `<title>${name} · Coffee</title>`);
  t.notMatch((await api.app.inject(documents[0] ?? '')).payload, /og:/, 'no such plan');
  t.equal((await api.app.inject('/s/%3Cscript%3E')).statusCode, 200);
});

void t.test('pages link to a seller of USDC if the operator configured one', async (t) => {
  const onrampUrl = 'https://buy.example/?to={address}&usdc={amount}';
  const { app } = await testApi(t, { onrampUrl });
  const content = 'https://buy.example/?to={address}&#38;usdc={amount}';
  t.match(
    (await app.inject('/account')).payload,
    `<meta name="billing-onramp" content="${content}">`,
  );
});

void t.test('the site answers robots.txt and other well-known paths', async (t) => {
  const { app } = await testApi(t);
  const redirects = {
    '/': [302, '/dashboard'],
    '/favicon.ico': [302, `/assets/${manifest.icon ?? ''}`],
    '/account/': [301, '/account'],
    '/dashboard/?a=1': [301, '/dashboard?a=1'],
    '/s/x/': [301, '/s/x'],
    '/checkout/x/?b': [301, '/checkout/x?b'],
  } as const;
  for (const [url, [status, location]] of Object.entries(redirects)) {
    const { statusCode, headers } = await app.inject(url);
    t.same([statusCode, headers.location], [status, location], url);
  }
  const robots = await app.inject('/robots.txt');
  t.equal(robots.statusCode, 200);
  t.match(robots.headers['content-type'], 'text/plain');
  t.match(robots.payload, /^User-agent: \*\nAllow: \/s\/\nDisallow: \/\n$/);
  t.equal((await app.inject('//evil.test/')).statusCode, 404);
});
