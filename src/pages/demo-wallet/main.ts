// The key comes in the URL's fragment, which no server sees, and stays for this tab, so that the
// demo wallet is on every page.
import { registerDemoWallet } from './wallet.ts';

const PLACE = 'billing-demo-wallet';
const [, given] = /^#demo=([1-9A-HJ-NP-Za-km-z]+)$/.exec(location.hash) ?? [];
if (given !== undefined) {
  sessionStorage.setItem(PLACE, given);
  history.replaceState(null, '', location.pathname);
}
const secret = sessionStorage.getItem(PLACE);
if (secret !== null) registerDemoWallet(secret);
