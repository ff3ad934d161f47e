// Builds the RPC client from its parts: reads and sends over separate endpoints.
import { accountMethods } from './accounts.ts';
import { blockMethods } from './blocks.ts';
import { Failover, type FailoverOptions } from './failover.ts';
import type { Rpc } from './rpc.ts';
import { historyMethods, sendMethods } from './transactions.ts';
import type { TrustedClockOptions } from './trusted-clock.ts';

export interface RpcOptions extends FailoverOptions {
  /** Endpoints for sending transactions; default: `urls`. */
  readonly sendUrls?: readonly string[] | undefined;
  /** Transactions per second to each endpoint. */
  readonly sendsPerSecond?: number | undefined;
  /**
   * Skips an endpoint with an implausible clock. Without this every clock is accepted, as on a
   * local chain, whose users move the clock.
   */
  readonly clock?: TrustedClockOptions | undefined;
}

/**
 * Endpoints for sending, with separate rate limits, so that a 429 on a send does not delay reads.
 * Send-only endpoints have no getGenesisHash; an endpoint of another chain would drop the
 * transaction, because its blockhash is unknown there.
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

/** Creates a client over several RPC URLs; sends nothing yet. Throws a TypeError for a bad URL. */
export function createRpc(options: RpcOptions): Rpc {
  const reads = new Failover(options);
  const sends = createSends(options);
  return {
    ...accountMethods(reads, options.clock),
    ...blockMethods(reads),
    ...historyMethods(reads),
    ...sendMethods(reads, sends),
    endpoints: () => reads.size,
    sendRate: () => ({ perSecond: options.sendsPerSecond ?? Infinity, allowed: sends.allowed() }),
    health: () => [...reads.health(), ...(options.sendUrls === undefined ? [] : sends.health())],
    async close() {
      await Promise.all([reads.close(), sends.close()]);
    },
  };
}
