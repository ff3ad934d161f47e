// When a transaction in flight is resent and when its status is polled: once when it should be
// finalized, and rarely before. Polling each transaction at a fixed rate would be most of a
// keeper's RPC requests.
import type { SignatureStatus } from '../chain/rpc/responses.ts';

/** The fields that decide whether a transaction is polled. Times are by performance.now(). */
export interface Polled {
  readonly takenAt: number;
  readonly polledAt: number;
  /** Number of sends by this process. */
  readonly sends: number;
  /**
   * Signed by this process. Another process may have sent what it signed, even while `sends` is 0.
   */
  readonly isOwn: boolean;
  readonly status: SignatureStatus | null;
  /** The slot in which it landed, according to the last notification or poll. */
  readonly slot: bigint | null;
}

/** The newest root reported by the streaming node: finalized, or about to be. */
export interface Root {
  readonly slot: bigint;
  readonly receivedAt: number;
}

/** An unseen transaction is polled again after three tenths of its age, within these bounds. */
const SOONEST_MS = 150;
const LATEST_MS = 1000;
/**
 * Poll interval of a landed transaction that is not rooted: a fork may have dropped it, or the
 * notification was wrong.
 */
const LANDED_MS = 2500;
/** Roots arrive with every slot; an older root means that the stream is silent. */
const ROOT_AGE_MS = 2000;

/** Whether to poll the transaction's status now. Pure. */
export function shouldPoll(
  { takenAt, polledAt, sends, isOwn, status, slot }: Polled,
  root: Root,
  now: number,
): boolean {
  // A finalized status does not change, and a transaction that was never sent has no status.
  if (status?.commitment === 'finalized' || (isOwn && sends === 0)) return false;
  const isLanded = slot !== null && slot > root.slot && now - root.receivedAt < ROOT_AGE_MS;
  const pause = isLanded
    ? LANDED_MS
    : Math.min(LATEST_MS, Math.max(SOONEST_MS, 0.3 * (now - takenAt)));
  return now - polledAt >= pause;
}

/**
 * Resend interval of an unseen transaction; three times as long until it has been polled since the
 * last send.
 */
export const RESEND_MS = 2000;

/**
 * Whether to send the transaction now, for the first time or again; false while a notification or a
 * poll has seen it. Pure.
 */
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
