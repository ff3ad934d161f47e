/** Names of the supported clusters (SOLANA_CLUSTER). */
export type Cluster = 'mainnet-beta' | 'devnet' | 'localnet';

/** Facts that identify a cluster. */
export interface ClusterFacts {
  /**
   * Base58 hash of the first block, as getGenesisHash returns it; null for a local chain, where
   * each start has a new one.
   */
  readonly genesisHash: string | null;
  /** The USDC mint; null when it has to be configured. */
  readonly usdcMint: string | null;
}

/**
 * Sources: Solana's documentation of clusters (genesis hashes), Circle's list of USDC contract
 * addresses (mints).
 */
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
 * Why an endpoint with this genesis hash cannot belong to the cluster; null when it can. A local
 * chain has no fixed hash but must not have the hash of a public cluster, which keeps a development
 * keeper away from real money.
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

/**
 * A check for redundant endpoints, all of which must serve the cluster and the same chain: why an
 * endpoint is refused, or null.
 */
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
