// Reads the state of each RPC endpoint separately. A working endpoint must not hide a broken one.
import { clusterMismatch } from '../../../chain/clusters.ts';
import { createRpc } from '../../../chain/rpc/client.ts';
import { RpcError, RpcUnreachable } from '../../../chain/rpc/errors.ts';
import { timeOf } from '../../../chain/time.ts';
import type { Config } from '../../../config/config.ts';
import { keeperAddressOf } from '../../../domain/accounts/keeper-address.ts';
import { messageOf } from '../../../errors.ts';
import type { Log } from '../../../log.ts';

export interface EndpointStatus {
  /** Scheme, host and port of the RPC URL. The rest of the URL may hold a key. */
  name: string;
  /** The endpoint's slot, or null when the endpoint did not respond. */
  slot: number | null;
  /** Number of slots behind the endpoint with the highest slot. */
  lag: number | null;
  answeredMs: number | null;
  /**
   * Why the endpoint is unusable: it did not respond, refused a request or is of another cluster.
   * Null when the endpoint is usable.
   */
  fault: string | null;
}

export interface ChainStatus {
  cluster: string;
  /** The chain's clock, which decides when payments are due. Null when no endpoint responded. */
  time: Date | null;
  /**
   * Seconds by which the chain's clock is ahead of this host's clock. Null on a local chain,
   * because the time of a local chain jumps.
   */
  offsetSeconds: number | null;
  endpoints: EndpointStatus[];
}

/** Milliseconds without a response after which an endpoint counts as down. */
const TIMEOUT_MS = 5000;
const LAMPORTS_PER_SOL = 1_000_000_000;

/**
 * Reads the chain and the keeper's balance. `chain` is null when no endpoint is configured.
 * `keeper` is null when no keeper address is configured. Throws an OperatorError for a malformed
 * keypair file.
 */
export async function chainStatus(
  config: Pick<Config, 'rpcUrls' | 'cluster' | 'keeperAddress' | 'keeperKeypair'>,
  log: Pick<Log, 'warn' | 'info'>,
): Promise<{ chain: ChainStatus | null; keeper: { address: string; sol: number | null } | null }> {
  const address = await keeperAddressOf(config);
  const states = await Promise.all(
    (config.rpcUrls ?? []).map((url) => askEndpoint(url, config.cluster, address, log)),
  );
  const best = states.toSorted((a, b) => (b.slot ?? -1) - (a.slot ?? -1))[0];
  const endpoints = states.map(({ name, slot, answeredMs, fault }) => {
    const lag = slot === null || best === undefined || best.slot === null ? null : best.slot - slot;
    return { name, slot, lag, answeredMs, fault };
  });
  return {
    chain:
      config.rpcUrls === undefined
        ? null
        : {
            cluster: config.cluster,
            time: best?.time ?? null,
            offsetSeconds: config.cluster === 'localnet' ? null : (best?.offsetSeconds ?? null),
            endpoints,
          },
    keeper: address === undefined ? null : { address, sol: best?.sol ?? null },
  };
}

/**
 * Reads the state of one endpoint and the keeper's balance. If the endpoint does not respond,
 * refuses a request or is of another cluster, `fault` is the reason.
 */
export async function askEndpoint(
  url: string,
  cluster: Config['cluster'],
  keeper: string | undefined,
  log: Pick<Log, 'warn' | 'info'>,
) {
  const rpc = createRpc({
    urls: [url],
    timeoutMs: TIMEOUT_MS,
    probeMs: Infinity,
    log: { info: log.info.bind(log), warn: () => undefined },
  });
  const name = rpc.health()[0]?.name ?? '';
  const none = { name, slot: null, time: null, offsetSeconds: null, sol: null, answeredMs: null };
  const startedAt = performance.now();
  try {
    const slot = Number(await rpc.getSlot());
    const answeredMs = Math.round(performance.now() - startedAt);
    const mismatch = clusterMismatch(cluster, await rpc.getGenesisHash());
    if (mismatch !== null) return { ...none, fault: mismatch };
    const { unixTimestamp } = await rpc.getClock();
    const offsetSeconds = Number(unixTimestamp) - Date.now() / 1000;
    const sol =
      keeper === undefined ? null : Number(await rpc.getBalance(keeper)) / LAMPORTS_PER_SOL;
    const time = timeOf(unixTimestamp);
    return { name, slot, time, offsetSeconds, sol, answeredMs, fault: null };
  } catch (error) {
    if (!(error instanceof RpcUnreachable || error instanceof RpcError)) throw error;
    return {
      ...none,
      fault:
        error instanceof RpcUnreachable
          ? (error.failures[0]?.reason ?? 'no answer')
          : messageOf(error),
    };
  } finally {
    await rpc.close();
  }
}
