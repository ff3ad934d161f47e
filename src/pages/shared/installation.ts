// Settings of this installation, which the server writes to the document's head.
const read = (name: string) =>
  document.querySelector<HTMLMetaElement>(`meta[name="billing-${name}"]`)?.content ?? '';

/** The value of SOLANA_CLUSTER. */
const cluster = read('cluster');

/** ONRAMP_URL, where USDC can be bought: a URL with {address} and {amount}. Empty: none. */
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

/** The value of REPORT_URL; empty without one. */
const report = read('report');

/**
 * Returns the link to report abuse, or undefined when the operator gave none. `planId` names the
 * plan that is reported.
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
