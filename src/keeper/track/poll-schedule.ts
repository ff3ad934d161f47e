// Decides when a transaction in flight is resent and when its status is polled. Until a transaction
// should be finalized, its status is polled only rarely. Polling all transactions at a fixed rate
// would make up most of a keeper's RPC requests.
import type { SignatureStatus } from '../../chain/rpc/responses.ts';

/**
 * The state of a transaction from which polling and resending are decided. Times are by
 * performance.now().
 */
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
 * Bounds of the poll interval (ms) of a transaction that no endpoint has seen. Within these bounds,
 * the interval is three tenths of the transaction's age.
 */
const SOONEST_MS = 150;
const LATEST_MS = 1000;
/**
 * Poll interval of an unseen transaction while the stream works. The stream reports landed
 * transactions, so fewer polls are needed.
 */
const STREAMED_MS = 2000;
/**
 * Poll interval of a landed transaction whose block is not rooted yet. A block is usually rooted
 * after 13 s. If the block is still not rooted, a poll shows whether a fork dropped the block, or
 * whether the notification of the landing was wrong.
 */
const LANDED_MS = 15_000;
/**
 * A root arrives with every slot. If the newest root is older than this (ms), the stream is silent.
 */
const ROOT_AGE_MS = 2000;

/** Whether to poll the transaction's status now. */
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
 * Resend interval (ms) of a transaction that no endpoint has seen. If the transaction was not
 * polled after its last send, it may have landed, so the interval is three times as long.
 */
export const RESEND_MS = 2000;

/**
 * Whether to send the transaction now, for the first time or again. False while a notification or a
 * poll shows that the transaction landed.
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

/**
 * A landed transaction is usually final after 13 s. If it is not final after this time (ms), the
 * endpoint that is polled may be stuck.
 */
export const OVERDUE_MS = 30_000;

/** Whether to ask all endpoints about a transaction that one of them shows as not final. */
export const isOverdue = (
  { status, takenAt }: Pick<Polled, 'status' | 'takenAt'>,
  now: number,
): boolean => status !== null && status.commitment !== 'finalized' && now - takenAt >= OVERDUE_MS;
