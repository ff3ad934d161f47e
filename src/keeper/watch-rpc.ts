// Says once per outage that the chain is out of reach, and once that it is back.
import type { Rpc } from '../chain/rpc.ts';
import { RpcUnreachable } from '../chain/rpc-errors.ts';
import { messageOf } from '../errors.ts';
import type { Log } from '../log.ts';
import type { KeeperMetrics } from './metrics.ts';

export interface WatchedRpc {
  readonly rpc: Rpc;
  /** Why the chain is out of reach right now; undefined while it answers. */
  outage(): string | undefined;
}

/** Whether an endpoint answered that it is not yet at the slot that was asked for: no outage, and no news of one that is over either. */
function isBehind({ failures }: RpcUnreachable): boolean {
  return failures.some(({ fault }) => fault === 'behind');
}

/** The same client, watched. */
export function watchRpc(rpc: Rpc, log: Log, metrics: Pick<KeeperMetrics, 'rpcReachable'>): WatchedRpc {
  let outage: string | undefined;
  const answered = () => {
    if (outage !== undefined) log.info('the Solana RPC is back');
    outage = undefined;
    metrics.rpcReachable.set(1);
  };
  const watch = async (call: Promise<unknown>): Promise<unknown> => {
    try {
      const answer = await call;
      answered();
      return answer;
    } catch (error) {
      if (!(error instanceof RpcUnreachable)) answered();
      else if (!isBehind(error)) {
        if (outage === undefined)
          log.error({ reason: error.message }, 'no Solana RPC endpoint answers; the keeper waits and goes on when one does');
        outage = messageOf(error);
        metrics.rpcReachable.set(0);
      }
      throw error;
    }
  };
  const methods = Object.entries(rpc) as [string, (...args: unknown[]) => unknown][];
  const wrapped: Record<string, unknown> = {};
  for (const [name, method] of methods) {
    wrapped[name] = name === 'health' || name === 'close' ? method : (...args: unknown[]) => watch(method(...args) as Promise<unknown>);
  }
  return { rpc: wrapped as unknown as Rpc, outage: () => outage };
}
