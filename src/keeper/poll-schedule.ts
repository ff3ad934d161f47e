// Decides when a transaction in flight is resent and when its status is polled. Until a transaction
// should be finalized, its status is polled only rarely. Polling all transactions at a fixed rate
// would make up most of a keeper's RPC requests.
import type { SignatureStatus } from '../chain/rpc/responses.ts';

/** The fields that decide whether a transaction is polled. Times are by performance.now(). */
export interface Polled {
  readonly takenAt: number;
  readonly polledAt: number;
  /** Number of sends by this process. */
  readonly sends: number;
  /**
   * Whether this process signed the transaction. If another process signed the transaction, that
   * process may have sent it, even while `sends` is 0.
   */
  readonly isOwn: boolean;
  readonly status: SignatureStatus | null;
  /** The slot in which the transaction landed, according to the last notification or poll. */
  readonly slot: bigint | null;
}

/**
 * The newest root that the streaming node reported. This slot is finalized or will soon be
 * finalized.
 */
export interface Root {
  readonly slot: bigint;
  readonly receivedAt: number;
}

/**
 * Poll interval of a transaction that no endpoint has seen yet: three tenths of the transaction's
 * age, but at least SOONEST_MS and at most LATEST_MS.
 */
const SOONEST_MS = 150;
const LATEST_MS = 1000;
/**
 * Poll interval of an unseen transaction while the stream works. The stream reports landed
 * transactions, so fewer polls are needed.
 */
const STREAMED_MS = 2000;
/**
 * Poll interval of a transaction that landed in a slot above the root. A block is usually rooted
 * within this interval (after 13 s). Polling continues because a fork may drop the transaction, or
 * the notification may have been wrong.
 */
const LANDED_MS = 15_000;
/**
 * A root arrives with every slot. If the newest root is older than this (ms), the stream is silent.
 */
const ROOT_AGE_MS = 2000;

/** Whether to poll the transaction's status now. Pure. */
export function shouldPoll(
  { takenAt, polledAt, sends, isOwn, status, slot }: Polled,
  root: Root,
  now: number,
): boolean {
  // A finalized status does not change, and a transaction that was never sent has no status.
  if (status?.commitment === 'finalized' || (isOwn && sends === 0)) return false;
  const isStreaming = now - root.receivedAt < ROOT_AGE_MS;
  if (isStreaming && slot === null) return now - polledAt >= STREAMED_MS;
  if (isStreaming && slot !== null && slot > root.slot) return now - polledAt >= LANDED_MS;
  return now - polledAt >= Math.min(LATEST_MS, Math.max(SOONEST_MS, 0.3 * (now - takenAt)));
}

/**
 * Resend interval of an unseen transaction. The interval is three times as long if the transaction
 * was not polled after its last send.
 */
export const RESEND_MS = 2000;

/**
 * Whether to send the transaction now, for the first time or again. False while a notification or a
 * poll shows that the transaction landed. Pure.
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
