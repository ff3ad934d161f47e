// Settings of this installation, which the server writes to the document's head.
const read = (name: string) =>
  document.querySelector<HTMLMetaElement>(`meta[name="billing-${name}"]`)?.content ?? '';

/** The value of SOLANA_CLUSTER. */
const cluster = read('cluster');

/**
 * The value of ONRAMP_URL: the URL of a page where the user can buy USDC, with the placeholders
 * {address} and {amount}. Empty when ONRAMP_URL is not set.
 */
export const onrampUrl = read('onramp');

/** The cluster's name in the Wallet Standard. */
export const chain = `solana:${cluster === 'mainnet-beta' ? 'mainnet' : cluster}` as const;

export const clusterName =
  cluster === 'mainnet-beta'
    ? 'Solana'
    : cluster === 'localnet'
      ? 'the local chain'
      : `Solana ${cluster}`;

/**
 * Returns the URL of a transaction or an address in the explorer. Returns undefined on a local
 * chain, which the explorer does not know.
 */
export function explorerUrl(kind: 'tx' | 'address', id: string): string | undefined {
  if (cluster === 'localnet') return undefined;
  const suffix = cluster === 'mainnet-beta' ? '' : `?cluster=${cluster}`;
  return `https://explorer.solana.com/${kind}/${encodeURIComponent(id)}${suffix}`;
}

/** The value of REPORT_URL. Empty when REPORT_URL is not set. */
const report = read('report');

/**
 * Returns the link for reporting abuse. The link names the plan `planId`, if given. Returns
 * undefined when REPORT_URL is not set.
 */
export function reportLink(planId?: string): string | undefined {
  if (!URL.canParse(report)) return undefined;
  const url = new URL(report);
  if (planId === undefined) return url.href;
  if (url.protocol === 'mailto:' && url.search === '')
    return `${url.href}?subject=${encodeURIComponent(`Report of plan ${planId}`)}`;
  if (url.protocol === 'https:') url.searchParams.set('plan', planId);
  return url.href;
}
