import type { Part } from './line.tsx';
import { safeText } from './safe-text.ts';
import { moment, span } from './time.ts';

/** Age of the data on the screen. */
export interface Freshness {
  /** When it was read; null before the first answer. */
  asOf: Date | null;
  /** When the question was asked that has no answer yet. */
  askedAt: Date | null;
  /** The reason why the last poll failed. */
  trouble: string | null;
}

// Slower than this is worth a word.
const SLOW_MS = 2000;

/** The age of the data on the screen, and the error that keeps newer data away. */
export function freshness({ asOf, askedAt, trouble }: Freshness, now: Date): Part {
  const waiting = askedAt === null ? 0 : now.getTime() - askedAt.getTime();
  const age = asOf === null ? 'nothing read yet' : `as of ${moment(asOf).slice(11)}`;
  const old = asOf === null ? age : `${age}, ${span(now.getTime() - asOf.getTime())} ago`;
  if (trouble !== null) return { text: `${old} · ${safeText(trouble)}`, tone: 'bad' };
  if (waiting > SLOW_MS)
    return { text: `${old} · waiting for Postgres for ${span(waiting)}`, tone: 'warn' };
  return { text: asOf === null ? 'reading' : `live, ${age} UTC`, tone: 'dim' };
}
