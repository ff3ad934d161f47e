// The Mobile Wallet Adapter without the parts that the pages do not use.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import t from 'tap';
import { smallAdapter } from '../../scripts/mobile-wallet.ts';

void t.test('the built mobile wallet adapter contains no dialogs', async (t) => {
  const dist = new URL('../../dist/pages/', import.meta.url);
  const manifest = JSON.parse(await readFile(new URL('manifest.json', dist), 'utf8')) as {
    'mobile-wallet': string;
  };
  const text = await readFile(new URL(`assets/${manifest['mobile-wallet']}`, dist), 'utf8');
  t.match(text, /LocalSolanaMobileWalletAdapterWallet/);
  t.notMatch(text, /innerHTML|<style|localhost:(?!\$)/);
});

void t.test(
  'building the mobile wallet adapter fails if the package lacks the parts to remove',
  async (t) => {
    const adapter = 'wallet-standard-mobile/lib/esm/index.browser.js';
    const errors = '@solana/errors/dist/index.browser.mjs';
    const source = 'export const one = 1;\n';
    const directory = t.testdir({
      'wallet-standard-mobile': { lib: { esm: { 'index.browser.js': source } } },
      '@solana': { errors: { dist: { 'index.browser.mjs': source } } },
    });
    const bundle = (file: string) =>
      build({
        entryPoints: [join(directory, file)],
        bundle: true,
        write: false,
        logLevel: 'silent',
        plugins: [smallAdapter],
      });
    await t.rejects(bundle(adapter), { message: /the package has no part modal/ });
    await t.rejects(bundle(errors), { message: /@solana\/errors has no table of messages/ });
  },
);
