// Reads the chain's time. Payments fall due by the chain's clock, so due times are never compared
// with the clock of this process.
import type { Rpc } from './rpc/rpc.ts';

/** Unix seconds of a Date, rounded down. */
export function unixSeconds(time: Date): bigint {
  return BigInt(Math.floor(time.getTime() / 1000));
}

/** The last second of the year 9999, in Unix seconds. ISO 8601 years have four digits. */
const LAST_SECOND = 253_402_300_799n;

/**
 * Converts Unix seconds to a Date. A plan's end can be any int64. A time after the year 9999
 * becomes the last second of that year, so that the Date has an ISO 8601 form.
 */
export function timeOf(seconds: bigint): Date {
  return new Date(Number(seconds < LAST_SECOND ? seconds : LAST_SECOND) * 1000);
}

export interface ChainClock {
  /**
   * Returns the chain's time. A later call never returns an earlier time. Throws RpcUnreachable or
   * RpcError.
   */
  now(): Promise<Date>;
  /**
   * Records a new slot from a stream. Returns true when the slot number rose by so much that the
   * chain's time may have jumped. The next call of `now` then reads the chain's clock.
   */
  slot(slot: bigint): boolean;
  /** Records the chain's time (Unix seconds) that a caller read from the chain's clock. */
  observe(seconds: bigint): void;
  /**
   * Returns the chain's time in Unix milliseconds, extrapolated from the last clock reading without
   * an RPC request. Returns null before the first reading.
   */
  peek(): number | null;
}

export interface ChainClockOptions {
  /** Maximum age (ms) of a clock reading while a stream delivers new slots. */
  readonly maxAgeMs?: number;
  /**
   * Maximum age (ms) of a clock reading while no new slots arrive. The chain may have stopped, and
   * then its time does not advance.
   */
  readonly silentMs?: number;
  /** A monotonic clock in milliseconds. */
  readonly monotonicMs?: () => number;
}

/**
 * Maximum number of slots that block leaders skip in a row. A larger step between two reported
 * slots means that the stream was down, or that a local chain's time was moved.
 */
const MAX_SKIPPED = 8n;
/** A slot stream counts as silent after this time (ms) without a new slot. */
const SILENCE_MS = 5000;
/**
 * A clock reading within this time (ms) after a jump of the chain's time may be wrong, because a
 * lagging endpoint still reports the earlier time. Such a reading expires after UNSETTLED_AGE_MS.
 */
const UNSETTLED_MS = 2000;
const UNSETTLED_AGE_MS = 500;

/**
 * Creates a clock that extrapolates the chain's time from the last reading of the chain's clock. If
 * this reading is too old, the chain's clock is read again.
 */
export function createChainClock(
  rpc: Pick<Rpc, 'getClock'>,
  {
    maxAgeMs = 300_000,
    silentMs = 5000,
    monotonicMs = () => performance.now(),
  }: ChainClockOptions = {},
): ChainClock {
  let reading: { seconds: bigint; at: number } | undefined;
  let askedAt = -Infinity;
  let newest: { slot: bigint; at: number } | undefined;
  let jumpedAt = -Infinity;
  let latest = 0;
  let asking: Promise<void> | undefined;

  const ageAllowed = (now: number) => {
    if (newest === undefined || now - newest.at > SILENCE_MS) return silentMs;
    return askedAt - jumpedAt < UNSETTLED_MS ? Math.min(maxAgeMs, UNSETTLED_AGE_MS) : maxAgeMs;
  };
  const time = () =>
    reading === undefined ? 0 : Number(reading.seconds) * 1000 + monotonicMs() - reading.at;
  const ask = async () => {
    const started = monotonicMs();
    const { unixTimestamp } = await rpc.getClock();
    askedAt = started;
    reading = { seconds: unixTimestamp, at: monotonicMs() };
  };
  return {
    async now() {
      const at = monotonicMs();
      if (askedAt <= jumpedAt || at - askedAt > ageAllowed(at)) {
        asking ??= ask().finally(() => (asking = undefined));
        await asking;
      }
      latest = Math.max(latest, time());
      return timeOf(BigInt(Math.floor(latest / 1000)));
    },
    slot(slot) {
      const at = monotonicMs();
      const isJump = newest !== undefined && slot - newest.slot > MAX_SKIPPED;
      if (isJump) jumpedAt = at;
      if (newest === undefined || slot > newest.slot) newest = { slot, at };
      return isJump;
    },
    observe(seconds) {
      if (Number(seconds) * 1000 > time()) reading = { seconds, at: monotonicMs() };
      latest = Math.max(latest, time());
    },
    peek: () => (reading === undefined ? null : time()),
  };
}
