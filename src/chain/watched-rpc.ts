// An RPC client that records whether the chain can be reached.
import { messageOf } from '../errors.ts';
import type { Log } from '../log.ts';
import { RpcUnreachable } from './rpc-errors.ts';
import type { Rpc } from './rpc.ts';

export interface WatchedRpc {
  readonly rpc: Rpc;
  /** Why the chain is out of reach; undefined while an endpoint answers. */
  outage(): string | undefined;
}

/** An endpoint that is behind the wanted slot, or does not have the method, is no outage, and no sign that an outage is over. */
function isThere({ failures }: RpcUnreachable): boolean {
  return failures.some(({ fault }) => fault === 'behind' || fault === 'unsupported');
}

/** The same client, which logs an outage once when it begins and once when it ends. */
export function watchRpc(
  rpc: Rpc,
  log: Log,
  metrics: { readonly rpcReachable: { set(value: 0 | 1): void } },
): WatchedRpc {
  let outage: string | undefined;
  let calls = 0;
  // Number of the latest answered call. An earlier call that fails after it is no sign of an outage.
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
      name === 'health' || name === 'close' || name === 'sendRate'
        ? method
        : (...args: unknown[]) => watch(method(...args) as Promise<unknown>);
  }
  return { rpc: wrapped as unknown as Rpc, outage: () => outage };
}
