// The committed bundle of the Mobile Wallet Adapter is what its packages give. Needs the npm
// registry.
import { readFile } from 'node:fs/promises';
import t from 'tap';
import { bundleMobileWallet } from '../../scripts/mobile-wallet.ts';

void t.test('src/pages/mobile-wallet.js is the bundle of the locked packages', async (t) => {
  const committed = new URL('../../src/pages/mobile-wallet.js', import.meta.url);
  const text = await readFile(committed, 'utf8');
  t.ok((await bundleMobileWallet()) === text, 'run "npm run mobile-wallet"');
  t.notMatch(text, /innerHTML|<style|localhost:(?!\$)/, 'no dialogs of its own');
});
