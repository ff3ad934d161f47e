// The demo wallet's key is in the URL's fragment, which browsers do not send to a server. The tab
// keeps the key, so that every page has the demo wallet.
import { registerDemoWallet } from './wallet.ts';

const PLACE = 'billing-demo-wallet';
const [, given] = /^#demo=([1-9A-HJ-NP-Za-km-z]+)$/.exec(location.hash) ?? [];
if (given !== undefined) {
  sessionStorage.setItem(PLACE, given);
  history.replaceState(null, '', location.pathname);
}
const secret = sessionStorage.getItem(PLACE);
if (secret !== null) registerDemoWallet(secret);
