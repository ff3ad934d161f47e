// When the status of a transaction that is under way is asked for. Asking about each one over and over would be most of what a keeper asks at all: it is
// enough to ask once when it has landed for good, and now and then before that.
import type { SignatureStatus } from '../chain/answers.ts';

/** What tells whether a transaction is worth a look. Times are milliseconds of the process's own clock. */
export interface Looked {
  readonly takenAt: number;
  readonly polledAt: number;
  /** How often this process sent it. */
  readonly sends: number;
  /** Null for one that another process signed, and may have sent. */
  readonly periodEnd: bigint | null;
  readonly status: SignatureStatus | null;
  /** Where it seems to have landed: what the stream or an endpoint said last. */
  readonly slot: bigint | null;
}

/** The newest root of the node that streams: final, or about to be. */
export interface Root {
  readonly slot: bigint;
  readonly heardAt: number;
}

/** Otherwise it is looked for again after three tenths of its age, between these bounds. */
const SOONEST_MS = 150;
const LATEST_MS = 1000;
/** What has landed and is not rooted: a fork may have dropped it, and a notice may have been wrong. */
const LANDED_MS = 2500;
/** Roots come with every slot; older than this, the stream tells nothing. */
const ROOT_AGE_MS = 2000;

/** Whether to ask for its status now. Pure. */
export function isWorthALook({ takenAt, polledAt, sends, periodEnd, status, slot }: Looked, root: Root, now: number): boolean {
  // What is final does not change any more, and what was never sent is nowhere.
  if (status?.commitment === 'finalized' || (periodEnd !== null && sends === 0)) return false;
  const isLanded = slot !== null && slot > root.slot && now - root.heardAt < ROOT_AGE_MS;
  const pause = isLanded ? LANDED_MS : Math.min(LATEST_MS, Math.max(SOONEST_MS, 0.3 * (now - takenAt)));
  return now - polledAt >= pause;
}
