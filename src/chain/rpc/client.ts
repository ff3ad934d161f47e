// Builds the RPC client from its parts. Reads and sends may use different endpoints.
import { accountMethods } from './accounts.ts';
import { blockMethods } from './blocks.ts';
import { Failover, type FailoverOptions } from './failover.ts';
import type { Rate } from './rate-limit.ts';
import type { Rpc } from './rpc.ts';
import { historyMethods, sendMethods } from './transactions.ts';
import type { TrustedClockOptions } from './trusted-clock.ts';

export interface RpcOptions extends FailoverOptions {
  /** URLs of the endpoints that transactions are sent to. Default: `urls`. */
  readonly sendUrls?: readonly string[] | undefined;
  /**
   * Maximum number of transactions per second to each endpoint. If both `sendsPerSecond` and
   * `sendUrls` are missing, `requestsPerSecond` limits reads and transactions together.
   */
  readonly sendsPerSecond?: Rate | undefined;
  /**
   * Options for the check of each endpoint's clock. An endpoint whose clock is implausible is
   * skipped. Undefined on a local chain, whose users may set the clock to any time.
   */
  readonly clock?: TrustedClockOptions | undefined;
}

/**
 * Creates the endpoints for sending. A 429 on a send pauses only these endpoints, so that reads are
 * not delayed. The genesis hash of `sendUrls` is not checked, because send-only endpoints lack
 * getGenesisHash. Sending to another chain is harmless, because that chain does not know the
 * blockhash and drops the transaction.
 */
function createSends(
  { sendUrls, sendsPerSecond, ...options }: RpcOptions,
  reads: Failover,
): Failover {
  const isCounted = sendUrls === undefined && sendsPerSecond === undefined;
  return new Failover({
    ...options,
    urls: sendUrls ?? options.urls,
    refuses: sendUrls === undefined ? options.refuses : undefined,
    requestsPerSecond: sendsPerSecond,
    within: isCounted ? reads : undefined,
    probeMs: Infinity,
  });
}

/**
 * Creates a client over several RPC URLs without sending a request. Throws a TypeError for a bad
 * URL.
 */
export function createRpc(options: RpcOptions): Rpc {
  const reads = new Failover(options);
  const sends = createSends(options, reads);
  const { sendsPerSecond = Infinity } = options;
  const perSecond = typeof sendsPerSecond === 'number' ? () => sendsPerSecond : sendsPerSecond;
  return {
    ...accountMethods(reads, options.clock),
    ...blockMethods(reads),
    ...historyMethods(reads),
    ...sendMethods(reads, sends),
    endpoints: () => reads.size,
    readDelay: () => reads.delay(),
    sendRate: () => ({ perSecond: perSecond(), allowed: sends.allowed() }),
    health: () => [...reads.health(), ...(options.sendUrls === undefined ? [] : sends.health())],
    async close() {
      await Promise.all([reads.close(), sends.close()]);
    },
  };
}
