// Settings of this installation, which the server writes to the document's head.
import { explorerUrl as urlOf } from '../../explorer.ts';

const read = (name: string) =>
  document.querySelector<HTMLMetaElement>(`meta[name="billing-${name}"]`)?.content ?? '';

const cluster = read('cluster');

/**
 * The value of ONRAMP_URL: the URL of a page where the user can buy USDC, with the placeholders
 * {address} and {amount}. Empty when ONRAMP_URL is not set.
 */
export const onrampUrl = read('onramp');

/**
 * The URL of the script for wallet apps (src/pages/mobile-wallet.ts). Empty unless the page is open
 * in Chrome on Android.
 */
export const walletAppsUrl = read('wallet-apps');

/** The URL of the script that encodes QR codes (src/pages/qr-code.ts). */
export const qrCodeUrl = read('qr-code');

/** The cluster's name in the Wallet Standard. */
export const chain = `solana:${cluster === 'mainnet-beta' ? 'mainnet' : cluster}` as const;

export const clusterName =
  cluster === 'mainnet-beta'
    ? 'Solana'
    : cluster === 'localnet'
      ? 'the local chain'
      : `Solana ${cluster}`;

/** Returns the URL of a transaction or an address in the explorer; undefined on a local chain. */
export const explorerUrl = (kind: 'tx' | 'address', id: string): string | undefined =>
  urlOf(cluster, kind, id);

/** The value of REPORT_URL. Empty when REPORT_URL is not set. */
const report = read('report');

/**
 * Returns the link for reporting abuse. The link names the plan `planId`, if given. Returns
 * undefined when REPORT_URL is not set.
 */
export const reportLink = (planId?: string): string | undefined =>
  linkTo(
    report,
    planId === undefined
      ? { mail: {}, page: {} }
      : { mail: { subject: `Report of plan ${planId}` }, page: { plan: planId } },
  );

/**
 * Returns the link with which a merchant contacts the operator: CONTACT_URL, or else REPORT_URL.
 * Returns undefined when neither is set, and on all pages except the dashboard.
 */
export const contactLink = (about: About): string | undefined => linkTo(read('contact'), about);

/**
 * The data that a link passes on: in a mailto: link as `mail`, in a web page's URL as query
 * parameters (`page`).
 */
interface About {
  readonly mail: Readonly<Record<string, string>>;
  readonly page: Readonly<Record<string, string>>;
}

function linkTo(to: string, { mail, page }: About): string | undefined {
  if (!URL.canParse(to)) return undefined;
  const url = new URL(to);
  if (url.protocol === 'https:')
    for (const [name, value] of Object.entries(page)) url.searchParams.set(name, value);
  const fields = Object.entries(mail).map(([name, text]) => `${name}=${encodeURIComponent(text)}`);
  return url.protocol === 'mailto:' && url.search === '' && fields.length > 0
    ? `${url.href}?${fields.join('&')}`
    : url.href;
}
