// An RPC client that tracks whether the chain is reachable.
import { messageOf } from '../../errors.ts';
import type { Log } from '../../log.ts';
import { RpcUnreachable } from './errors.ts';
import type { Rpc } from './rpc.ts';

export interface WatchedRpc {
  readonly rpc: Rpc;
  /** The reason why the chain is unreachable; undefined while an endpoint responds. */
  outage(): string | undefined;
}

/**
 * Whether an endpoint that is behind or lacks the method answered: that neither begins an outage
 * nor ends one.
 */
function isThere({ failures }: RpcUnreachable): boolean {
  return failures.some(({ fault }) => fault === 'behind' || fault === 'unsupported');
}

/** Wraps the client; logs an outage once when it begins and once when it ends. */
export function watchRpc(
  rpc: Rpc,
  log: Log,
  metrics: { readonly rpcReachable: { set(value: 0 | 1): void } },
): WatchedRpc {
  let outage: string | undefined;
  let calls = 0;
  // Number of the latest answered call. An earlier call that fails after it is no sign of an
  // outage.
  let answeredCall = 0;
  const answered = (call: number) => {
    answeredCall = Math.max(answeredCall, call);
    if (outage !== undefined) log.info('the Solana RPC is back');
    outage = undefined;
    metrics.rpcReachable.set(1);
  };
  const watch = async (answering: Promise<unknown>): Promise<unknown> => {
    calls += 1;
    const call = calls;
    try {
      const answer = await answering;
      answered(call);
      return answer;
    } catch (error) {
      if (!(error instanceof RpcUnreachable)) answered(call);
      else if (!isThere(error) && call > answeredCall) {
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
    wrapped[name] =
      name === 'health' || name === 'endpoints' || name === 'close' || name === 'sendRate'
        ? method
        : (...args: unknown[]) => watch(method(...args) as Promise<unknown>);
  }
  return { rpc: wrapped as unknown as Rpc, outage: () => outage };
}
