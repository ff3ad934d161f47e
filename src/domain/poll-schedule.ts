// When a transaction in flight is sent again, and when its status is polled: once when it should be final, and seldom before that. Polling each
// transaction at a fixed rate would be most of a keeper's RPC requests.
import type { SignatureStatus } from '../chain/answers.ts';

/** What decides whether a transaction is polled. Times are milliseconds of the process's own clock. */
export interface Polled {
  readonly takenAt: number;
  readonly polledAt: number;
  /** How often this process sent it. */
  readonly sends: number;
  /** Signed by this process; another one may have sent what it signed. */
  readonly isOwn: boolean;
  readonly status: SignatureStatus | null;
  /** Where it seems to have landed: what the stream or an endpoint said last. */
  readonly slot: bigint | null;
}

/** The newest root of the node that streams: final, or about to be. */
export interface Root {
  readonly slot: bigint;
  readonly heardAt: number;
}

/** A transaction that was not seen is polled again after three tenths of its age, between these bounds. */
const SOONEST_MS = 150;
const LATEST_MS = 1000;
/** A landed transaction that is not rooted: a fork may have dropped it, or a notice was wrong. */
const LANDED_MS = 2500;
/** Roots come with every slot; an older one means that the stream is silent. */
const ROOT_AGE_MS = 2000;

/** Whether to poll its status now. Pure. */
export function shouldPoll(
  { takenAt, polledAt, sends, isOwn, status, slot }: Polled,
  root: Root,
  now: number,
): boolean {
  // A final status does not change, and a transaction that was never sent has none.
  if (status?.commitment === 'finalized' || (isOwn && sends === 0)) return false;
  const isLanded = slot !== null && slot > root.slot && now - root.heardAt < ROOT_AGE_MS;
  const pause = isLanded
    ? LANDED_MS
    : Math.min(LATEST_MS, Math.max(SOONEST_MS, 0.3 * (now - takenAt)));
  return now - polledAt >= pause;
}

/** An unseen transaction is sent again after this; three times as late while no endpoint tells its status. */
export const RESEND_MS = 2000;

/** Whether to send it now, for the first time or again; not where a notice or a poll has seen it, until a poll says otherwise. Pure. */
export function isSentAgain(
  {
    status,
    slot,
    sentAt,
    polledAt,
    sends,
  }: Pick<Polled, 'status' | 'slot' | 'polledAt' | 'sends'> & { sentAt: number },
  now: number,
): boolean {
  const pause = polledAt > sentAt || sends === 0 ? RESEND_MS : 3 * RESEND_MS;
  return status === null && slot === null && now - sentAt >= pause;
}
