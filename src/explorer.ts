// Links to the explorer of Solana. This file has no imports, because the pages bundle it too.

/**
 * Returns the URL of a transaction or an address in the explorer. Returns undefined on a local
 * chain, which the explorer does not know.
 */
export function explorerUrl(
  cluster: string,
  kind: 'tx' | 'address',
  id: string,
): string | undefined {
  if (cluster === 'localnet') return undefined;
  const suffix = cluster === 'mainnet-beta' ? '' : `?cluster=${cluster}`;
  return `https://explorer.solana.com/${kind}/${encodeURIComponent(id)}${suffix}`;
}
