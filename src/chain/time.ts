// Chain time. The process's own clock never decides what is due.
import type { Rpc } from './rpc.ts';

/** Unix seconds of a time, rounded down. */
export function unixSeconds(time: Date): bigint {
  return BigInt(Math.floor(time.getTime() / 1000));
}

/** The end of the year 9999, the last time that ISO 8601 writes with four digits. */
const LAST_SECOND = 253_402_300_799n;

/** The time of Unix seconds. A plan may end at any int64: times after the year 9999 are cut to its last second. */
export function timeOf(seconds: bigint): Date {
  return new Date(Number(seconds < LAST_SECOND ? seconds : LAST_SECOND) * 1000);
}

export interface ChainClock {
  /** The chain's time; it never runs backwards. Throws as the RPC client does. */
  now(): Promise<Date>;
  /** Takes a slot of a stream. Returns whether time may have jumped; the next `now` then reads the clock. */
  slot(slot: bigint): boolean;
  /** A clock was read along with other accounts (Unix seconds). */
  heard(seconds: bigint): void;
}

export interface ChainClockOptions {
  /** Milliseconds for which a reading is advanced while a stream delivers new slots. */
  readonly maxAgeMs?: number;
  /** The same while no stream does: the chain may stand still. */
  readonly silentMs?: number;
  /** Milliseconds of a clock that only runs forward. */
  readonly monotonicMs?: () => number;
}

/** Slots that leaders skip at once. A larger step is a stream that was off, or a local chain whose time was moved. */
const MOST_SKIPPED = 8n;
/** Milliseconds after which a stream without a new slot counts as silent. */
const SILENCE_MS = 5000;
/** After a jump readings are not carried on for so long (ms): an endpoint may show the time before it. */
const UNSETTLED_MS = 2000;
const UNSETTLED_AGE_MS = 500;

/** A clock that advances from its last reading, and reads again when that is too old. */
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
    return now - jumpedAt < UNSETTLED_MS ? Math.min(maxAgeMs, UNSETTLED_AGE_MS) : maxAgeMs;
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
      const isJump = newest !== undefined && slot - newest.slot > MOST_SKIPPED;
      if (isJump) jumpedAt = at;
      if (newest === undefined || slot > newest.slot) newest = { slot, at };
      return isJump;
    },
    heard(seconds) {
      if (Number(seconds) * 1000 > time()) reading = { seconds, at: monotonicMs() };
      latest = Math.max(latest, time());
    },
  };
}
