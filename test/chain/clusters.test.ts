import t from 'tap';
import { CLUSTERS, clusterMismatch, oneChain } from '../../src/chain/clusters.ts';
import { isAddress } from '../../src/chain/program/addresses.ts';

void t.test('an endpoint of another cluster is recognised by its genesis hash', (t) => {
  const mainnet = CLUSTERS['mainnet-beta'].genesisHash!;
  const devnet = CLUSTERS.devnet.genesisHash!;
  const own = '4sGjMW1sUnHzSxGspuhpqLDx6wiyjNtZAMdL4VZHirAn';
  t.equal(clusterMismatch('mainnet-beta', mainnet), null);
  t.equal(clusterMismatch('devnet', devnet), null);
  t.equal(clusterMismatch('localnet', own), null);
  t.equal(
    clusterMismatch('devnet', mainnet),
    'SOLANA_CLUSTER is devnet, but the RPC endpoint serves mainnet-beta',
  );
  t.equal(
    clusterMismatch('localnet', mainnet),
    'SOLANA_CLUSTER is localnet, but the RPC endpoint serves mainnet-beta',
  );
  t.match(clusterMismatch('mainnet-beta', own), new RegExp(own));
  t.end();
});

void t.test(
  'mints and genesis hashes of the clusters are well-formed, and localnet has no fixed hash',
  (t) => {
    for (const cluster of ['mainnet-beta', 'devnet'] as const) {
      t.ok(isAddress(CLUSTERS[cluster].usdcMint!));
      t.ok(isAddress(CLUSTERS[cluster].genesisHash!));
    }
    t.same(CLUSTERS.localnet, { genesisHash: null, usdcMint: null });
    t.end();
  },
);

void t.test('all endpoints of a failover list must belong to the same cluster and chain', (t) => {
  const mainnet = CLUSTERS['mainnet-beta'].genesisHash!;
  const own = '4sGjMW1sUnHzSxGspuhpqLDx6wiyjNtZAMdL4VZHirAn';
  const local = oneChain('localnet');
  t.match(local(mainnet), /serves mainnet-beta/);
  t.equal(local(own), null);
  t.equal(local(own), null);
  t.match(local(own.replace('4', '5')), /another chain .* than the endpoint before it/);
  t.end();
});
