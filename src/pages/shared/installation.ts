// Facts about this installation, from the document's head.
const read = (name: string) =>
  document.querySelector<HTMLMetaElement>(`meta[name="billing-${name}"]`)?.content ?? '';

/** SOLANA_CLUSTER. */
const cluster = read('cluster');

/** Wallet Standard's name of the cluster. */
export const chain = `solana:${cluster === 'mainnet-beta' ? 'mainnet' : cluster}` as const;

export const clusterName =
  cluster === 'mainnet-beta'
    ? 'Solana'
    : cluster === 'localnet'
      ? 'the local chain'
      : `Solana ${cluster}`;

/**
 * The explorer's page of a transaction or an address; undefined on a local chain, which no explorer
 * knows.
 */
export function explorerUrl(kind: 'tx' | 'address', id: string): string | undefined {
  if (cluster === 'localnet') return undefined;
  const suffix = cluster === 'mainnet-beta' ? '' : `?cluster=${cluster}`;
  return `https://explorer.solana.com/${kind}/${encodeURIComponent(id)}${suffix}`;
}
