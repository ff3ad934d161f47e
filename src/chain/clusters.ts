/** Names of the clusters that the service knows (SOLANA_CLUSTER). */
export type Cluster = 'mainnet-beta' | 'devnet' | 'localnet';

/** What tells a cluster from another. */
export interface ClusterFacts {
  /** Base58 hash of the first block, as getGenesisHash answers; null where every start has its own. */
  readonly genesisHash: string | null;
  /** The USDC mint; null where it has to be configured. */
  readonly usdcMint: string | null;
}

/** Genesis hashes: Solana's documentation of clusters. Mints: Circle's list of USDC contract addresses. */
export const CLUSTERS: Readonly<Record<Cluster, ClusterFacts>> = {
  'mainnet-beta': {
    genesisHash: '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d',
    usdcMint: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v',
  },
  devnet: {
    genesisHash: 'EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG',
    usdcMint: '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU',
  },
  localnet: { genesisHash: null, usdcMint: null },
};

/**
 * Why an endpoint with this genesis hash is not of the cluster, or null when it may be. A local chain has no fixed hash, but it is certainly
 * not a public cluster: that keeps a keeper set up for development off real money.
 */
export function clusterMismatch(cluster: Cluster, genesisHash: string): string | null {
  const expected = CLUSTERS[cluster].genesisHash;
  if (expected === genesisHash) return null;
  const actual = Object.entries(CLUSTERS).find(
    ([, facts]) => facts.genesisHash === genesisHash,
  )?.[0];
  if (expected === null && actual === undefined) return null;
  return `SOLANA_CLUSTER is ${cluster}, but the RPC endpoint serves ${actual ?? `another one (genesis hash ${genesisHash})`}`;
}

/** For endpoints that stand in for each other: why one with this genesis hash must not, or null. All are of the cluster, and of one chain. */
export function oneChain(cluster: Cluster): (genesisHash: string) => string | null {
  let first: string | undefined;
  return (genesisHash) => {
    const mismatch = clusterMismatch(cluster, genesisHash);
    if (mismatch !== null) return mismatch;
    first ??= genesisHash;
    return genesisHash === first
      ? null
      : `it serves another chain (genesis hash ${genesisHash}) than the endpoint before it (${first})`;
  };
}

/** The Subscriptions program on mainnet-beta, devnet and the local chain. */
export const SUBSCRIPTIONS_PROGRAM = 'De1egAFMkMWZSN5rYXRj9CAdheBamobVNubTsi9avR44';
