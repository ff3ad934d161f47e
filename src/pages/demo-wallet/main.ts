// Registers the demo wallet on each page. The wallet's key comes in the URL's fragment, which
// browsers do not send to a server. sessionStorage then keeps the key for the other pages of the
// tab.
import { controlPattern, showControls } from './controls.ts';
import { registerDemoWallet } from './wallet.ts';

const PLACE = 'billing-demo-wallet';
const CONTROL_PLACE = 'billing-demo-control';
const [, givenName, control = ''] =
  /^#demo=([1-9A-HJ-NP-Za-km-z]+)(?:&control=([^&]+))?$/.exec(location.hash) ?? [];
if (givenName !== undefined) {
  sessionStorage.setItem(PLACE, givenName);
  const url = decodeURIComponent(control);
  if (controlPattern.test(url)) sessionStorage.setItem(CONTROL_PLACE, url);
  history.replaceState(null, '', location.pathname);
}
const secret = sessionStorage.getItem(PLACE);
if (secret !== null) registerDemoWallet(secret);
const controls = sessionStorage.getItem(CONTROL_PLACE);
if (controls !== null && location.pathname === '/dashboard') showControls(controls);
