// The browser's part of `npm run build`: bundles each page into one compressed script with a hashed
// name (dist/pages/assets). dist/pages/manifest.json lists these files for the server. The source
// maps (dist/pages/maps) are not served.
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { build, type Plugin } from 'esbuild';
import { languages } from '../src/words/languages.ts';
import { smallAdapter } from './mobile-wallet.ts';

const source = new URL('../src/pages/', import.meta.url);
const target = new URL('../dist/pages/', import.meta.url);
const path = (name: string, base: URL = source) => fileURLToPath(new URL(name, base));

/** The files to which the server's HTML documents refer. */
const entries = {
  subscribe: path('subscribe/main.tsx'),
  account: path('account/main.tsx'),
  dashboard: path('dashboard/main.tsx'),
  receipt: path('receipt/main.ts'),
  'demo-wallet': path('demo-wallet/main.ts'),
  'mobile-wallet': path('mobile-wallet.ts'),
  'qr-code': path('qr-code.ts'),
  style: path('style.css'),
  icon: path('icon.svg'),
  // One file for each catalogue of texts except English, which every page contains.
  ...Object.fromEntries(
    Object.keys(languages)
      .filter((code) => code !== 'en')
      .map((code) => [`words-${code}`, path(`../words/${code}.json`)]),
  ),
};

/** Of a catalogue, pages have the section `pages` alone. */
const pageWords: Plugin = {
  name: 'page-words',
  setup(esbuild) {
    esbuild.onLoad({ filter: /[\\/]words[\\/]\w+\.json$/ }, async ({ path: file }) => {
      const { pages } = JSON.parse(await readFile(file, 'utf8')) as { pages: object };
      return { contents: `export default ${JSON.stringify({ pages })};`, loader: 'js' };
    });
  },
};

await rm(target, { recursive: true, force: true });
await mkdir(new URL('assets/', target), { recursive: true });
await mkdir(new URL('maps/', target), { recursive: true });

const { metafile } = await build({
  entryPoints: entries,
  outdir: path('assets', target),
  entryNames: '[name]-[hash]',
  bundle: true,
  format: 'esm',
  platform: 'browser',
  target: 'es2022',
  jsx: 'automatic',
  minify: true,
  legalComments: 'none',
  sourcemap: 'external',
  loader: { '.svg': 'copy' },
  define: { 'process.env.NODE_ENV': '"production"' },
  plugins: [smallAdapter, pageWords],
  metafile: true,
  logLevel: 'warning',
});

const compressed = {
  br: (bytes: Buffer) =>
    promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
  gz: (bytes: Buffer) => promisify(gzip)(bytes, { level: 9 }),
};
const names = Object.keys(metafile.outputs).map((file) => basename(file));
for (const name of names) {
  const file = new URL(`assets/${name}`, target);
  if (name.endsWith('.map')) {
    await rename(file, new URL(`maps/${name}`, target));
    continue;
  }
  const bytes = await readFile(file);
  for (const [ending, compress] of Object.entries(compressed))
    await writeFile(new URL(`assets/${name}.${ending}`, target), await compress(bytes));
}

const manifest = Object.fromEntries(
  Object.keys(entries).map((entry) => {
    const found = names.find((name) => name.startsWith(`${entry}-`) && !name.endsWith('.map'));
    if (found === undefined) throw new Error(`esbuild made no file of ${entry}`);
    return [entry, found];
  }),
);
await writeFile(new URL('manifest.json', target), `${JSON.stringify(manifest, null, 2)}\n`);
