// Builds the RPC client from its parts. Reads and sends use separate endpoint lists.
import { accountMethods } from './accounts.ts';
import { blockMethods } from './blocks.ts';
import { Failover, type FailoverOptions } from './failover.ts';
import type { Rpc } from './rpc.ts';
import { historyMethods, sendMethods } from './transactions.ts';
import type { TrustedClockOptions } from './trusted-clock.ts';

export interface RpcOptions extends FailoverOptions {
  /** URLs of the endpoints that transactions are sent to. Default: `urls`. */
  readonly sendUrls?: readonly string[] | undefined;
  /** Maximum number of transactions per second to each endpoint. */
  readonly sendsPerSecond?: number | undefined;
  /**
   * Skips an endpoint with an implausible clock. Without this option every clock is accepted. A
   * local chain needs that, because its users move the clock.
   */
  readonly clock?: TrustedClockOptions | undefined;
}

/**
 * Endpoints for sending have their own rate limits, so that a 429 on a send does not delay reads.
 * Their genesis hash is not checked, because send-only endpoints lack getGenesisHash. An endpoint
 * of another chain would drop the transaction for its unknown blockhash.
 */
function createSends({ sendUrls, sendsPerSecond, ...options }: RpcOptions): Failover {
  return new Failover({
    ...options,
    urls: sendUrls ?? options.urls,
    refuses: sendUrls === undefined ? options.refuses : undefined,
    requestsPerSecond: sendsPerSecond,
    probeMs: Infinity,
  });
}

/**
 * Creates a client over several RPC URLs without sending a request. Throws a TypeError for a bad
 * URL.
 */
export function createRpc(options: RpcOptions): Rpc {
  const reads = new Failover(options);
  const sends = createSends(options);
  return {
    ...accountMethods(reads, options.clock),
    ...blockMethods(reads),
    ...historyMethods(reads),
    ...sendMethods(reads, sends),
    endpoints: () => reads.size,
    readDelay: () => reads.delay(),
    sendRate: () => ({ perSecond: options.sendsPerSecond ?? Infinity, allowed: sends.allowed() }),
    health: () => [...reads.health(), ...(options.sendUrls === undefined ? [] : sends.health())],
    async close() {
      await Promise.all([reads.close(), sends.close()]);
    },
  };
}
