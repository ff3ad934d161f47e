// Wraps an RPC client for work that anyone can cause, so that a part of the rate limit is left to
// other work.
import { setTimeout as pause } from 'node:timers/promises';
import { createRateLimit } from './rate-limit.ts';
import type { Rpc } from './rpc.ts';

/** Share of the rate that the wrapper's calls may use. */
const SHARE = 0.75;
/** Methods without a delay: they send no request, or their requests have a separate rate limit. */
const UNLIMITED = ['health', 'endpoints', 'close', 'sendRate', 'readDelay', 'sendTransaction'];

/**
 * Wraps an RPC client. The calls of the wrapper take turns and use at most three quarters of `rate`
 * (requests per second). The rest is left to calls of the client itself. At a rate of 1 no rest is
 * left.
 */
export function leavingRoom(rpc: Rpc, rate: () => number): Rpc {
  const limit = createRateLimit(() => Math.min(rate(), Math.max(1, Math.floor(rate() * SHARE))));
  let lastTurn: Promise<void> = Promise.resolve();
  const takeTurn = async () => {
    for (let wait; (wait = limit.delay(performance.now())) > 0;) await pause(wait);
    limit.take(performance.now());
  };
  const turn = () => (lastTurn = lastTurn.then(takeTurn));
  const methods = Object.entries(rpc) as [string, (...args: unknown[]) => Promise<unknown>][];
  const wrapped = methods.map(([name, method]): [string, unknown] => [
    name,
    UNLIMITED.includes(name)
      ? method
      : async (...args: unknown[]) => {
          await turn();
          return method(...args);
        },
  ]);
  return Object.fromEntries(wrapped) as unknown as Rpc;
}
