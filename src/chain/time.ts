// Chain time. Due times are compared with the chain's clock, never with the process's clock.
import type { Rpc } from './rpc/rpc.ts';

/** Unix seconds of a Date, rounded down. */
export function unixSeconds(time: Date): bigint {
  return BigInt(Math.floor(time.getTime() / 1000));
}

/** The last second of the year 9999, in Unix seconds. ISO 8601 years have four digits. */
const LAST_SECOND = 253_402_300_799n;

/**
 * Converts Unix seconds to a Date. A plan's end can be any int64, so later times are clamped to the
 * last second of the year 9999.
 */
export function timeOf(seconds: bigint): Date {
  return new Date(Number(seconds < LAST_SECOND ? seconds : LAST_SECOND) * 1000);
}

export interface ChainClock {
  /** Returns the chain's time, which never runs backwards. Throws as the RPC client does. */
  now(): Promise<Date>;
  /**
   * Reports a slot that a stream delivered. Returns true when the chain's time may have jumped; the
   * next `now` then reads the clock.
   */
  slot(slot: bigint): boolean;
  /** Takes a reading of the clock (Unix seconds) that was read together with other accounts. */
  observe(seconds: bigint): void;
  /**
   * Returns the chain's time in Unix milliseconds, extrapolated from the last reading without a
   * request. Returns null before the first reading.
   */
  peek(): number | null;
}

export interface ChainClockOptions {
  /** Maximum age (ms) of a clock reading while a stream delivers new slots. */
  readonly maxAgeMs?: number;
  /**
   * Maximum age (ms) of a clock reading when no new slots arrive, because the chain may have
   * stopped.
   */
  readonly silentMs?: number;
  /** A monotonic clock in milliseconds. */
  readonly monotonicMs?: () => number;
}

/**
 * Maximum number of consecutive slots that leaders skip. A larger step means that the stream was
 * down, or that the time of a local chain was moved.
 */
const MAX_SKIPPED = 8n;
/** Milliseconds without a new slot after which a stream counts as silent. */
const SILENCE_MS = 5000;
/**
 * For this time (ms) after a jump, clock readings expire sooner. A lagging endpoint may still show
 * the time before the jump.
 */
const UNSETTLED_MS = 2000;
const UNSETTLED_AGE_MS = 500;

/**
 * Creates a clock that extrapolates from its last reading. It reads the chain's clock again when
 * that reading is too old.
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
