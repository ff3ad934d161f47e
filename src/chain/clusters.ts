/** Names of the Solana clusters that the setting SOLANA_CLUSTER accepts. */
export type Cluster = 'mainnet-beta' | 'devnet' | 'localnet';

export interface ClusterFacts {
  /**
   * Base58 hash of the cluster's first block, as the RPC method getGenesisHash returns it. Null for
   * localnet, because a local validator creates a new first block at each start.
   */
  readonly genesisHash: string | null;
  /**
   * Base58 address of USDC's mint on the cluster. Null when the operator has to configure the mint.
   */
  readonly usdcMint: string | null;
}

/**
 * The genesis hashes are from Solana's documentation of clusters. The mints are from Circle's list
 * of USDC contract addresses.
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
 * Returns why an RPC endpoint with this genesis hash does not serve the cluster, or null when the
 * endpoint may serve the cluster. Localnet accepts every hash except those of the public clusters,
 * so that a development keeper never moves real money.
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
 * Returns a check of an endpoint's genesis hash. The check returns null to accept the endpoint, or
 * the reason to refuse the endpoint. The check accepts only endpoints that may serve `cluster` and
 * that have the same genesis hash as the first accepted endpoint.
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

/** Address of the Subscriptions program on mainnet-beta, devnet and the local chain. */
export const SUBSCRIPTIONS_PROGRAM = 'De1egAFMkMWZSN5rYXRj9CAdheBamobVNubTsi9avR44';
