// Chain time: the Clock sysvar, read over RPC. The process's own clock never decides what is due.
import type { Rpc } from '../chain/rpc.ts';
import { timeOf } from '../domain/network.ts';

export interface ChainClock {
  /** The chain's time, at most `maxAgeMs` old; it never runs backwards. */
  now(): Promise<Date>;
  /** The chain's time may have moved: the next `now` asks. */
  expire(): void;
  /** A clock was read along with other accounts (Unix seconds). */
  heard(seconds: bigint): void;
}

/** A clock that asks at most once in `maxAgeMs`. */
export function createChainClock(rpc: Pick<Rpc, 'getClock'>, maxAgeMs = 500): ChainClock {
  let seconds: bigint | undefined;
  let askedAt = -Infinity;
  let asking: Promise<void> | undefined;
  const heard = (at: bigint) => {
    if (seconds === undefined || at > seconds) seconds = at;
  };
  const ask = async () => {
    const started = performance.now();
    heard((await rpc.getClock()).unixTimestamp);
    askedAt = started;
  };
  return {
    async now() {
      if (performance.now() - askedAt > maxAgeMs) {
        asking ??= ask().finally(() => (asking = undefined));
        await asking;
      }
      return timeOf(seconds ?? 0n);
    },
    expire() {
      askedAt = -Infinity;
    },
    heard,
  };
}
