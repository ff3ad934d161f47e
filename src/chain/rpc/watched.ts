// Wraps an RPC client to track whether the chain is reachable.
import { messageOf } from '../../errors.ts';
import type { Log } from '../../log.ts';
import { lacksData, RpcUnreachable } from './errors.ts';
import type { Rpc } from './rpc.ts';

export interface WatchedRpc {
  readonly rpc: Rpc;
  /** The reason why the chain is unreachable; undefined while an endpoint responds. */
  outage(): string | undefined;
}

/**
 * Whether the call failed because a responding endpoint lacks the data or the method. Such a
 * failure neither begins nor ends an outage.
 */
function hasResponded({ failures }: RpcUnreachable): boolean {
  return failures.some(({ fault }) => lacksData(fault) || fault === 'unsupported');
}

/** Wraps an RPC client. Logs an outage of the chain once when it begins and once when it ends. */
export function watchRpc(
  rpc: Rpc,
  log: Log,
  metrics: { readonly rpcReachable: { set(value: 0 | 1): void } },
): WatchedRpc {
  let outage: string | undefined;
  let calls = 0;
  // Sequence number of the latest call that got a response. A failure of an earlier call is then no
  // sign of an outage.
  let respondedCall = 0;
  const responded = (call: number) => {
    respondedCall = Math.max(respondedCall, call);
    if (outage !== undefined) log.info('the Solana RPC is back');
    outage = undefined;
    metrics.rpcReachable.set(1);
  };
  const watch = async (pending: Promise<unknown>): Promise<unknown> => {
    calls += 1;
    const call = calls;
    try {
      const result = await pending;
      responded(call);
      return result;
    } catch (error) {
      if (!(error instanceof RpcUnreachable)) responded(call);
      else if (!hasResponded(error) && call > respondedCall) {
        if (outage === undefined)
          log.error({ reason: error.message }, 'no Solana RPC endpoint answers; the keeper waits');
        outage = messageOf(error);
        metrics.rpcReachable.set(0);
      }
      throw error;
    }
  };
  const methods = Object.entries(rpc) as [string, (...args: unknown[]) => unknown][];
  const wrapped: Record<string, unknown> = {};
  for (const [name, method] of methods) {
    wrapped[name] = ['health', 'endpoints', 'close', 'sendRate', 'readDelay'].includes(name)
      ? method
      : (...args: unknown[]) => watch(method(...args) as Promise<unknown>);
  }
  return { rpc: wrapped as unknown as Rpc, outage: () => outage };
}
