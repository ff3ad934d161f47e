// Decides when a transaction in flight is resent and when its status is polled. Until a transaction
// should be finalized, its status is polled only rarely. Polling all transactions at a fixed rate
// would make up most of a keeper's RPC requests.
import type { SignatureStatus } from '../../chain/rpc/responses.ts';
import type { KeeperTimes } from '../base/times.ts';

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

/** Whether to poll the transaction's status now. */
export function shouldPoll(
  { takenAt, polledAt, sends, isOwn, status, slot }: Polled,
  root: Root,
  now: number,
  { rootAgeMs, streamedMs, landedMs, soonestMs, latestMs }: KeeperTimes['poll'],
): boolean {
  // A finalized status does not change, and a transaction that was never sent has no status.
  if (status?.commitment === 'finalized' || (isOwn && sends === 0)) return false;
  const isStreaming = now - root.receivedAt < rootAgeMs;
  if (isStreaming && slot === null) return now - polledAt >= streamedMs;
  if (isStreaming && slot !== null && slot > root.slot) return now - polledAt >= landedMs;
  return now - polledAt >= Math.min(latestMs, Math.max(soonestMs, 0.3 * (now - takenAt)));
}

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
  resendMs: number,
): boolean {
  const pause = polledAt > sentAt || sends === 0 ? resendMs : 3 * resendMs;
  return status === null && slot === null && now - sentAt >= pause;
}

/** Whether to ask all endpoints about a transaction that one of them shows as not final. */
export const isOverdue = (
  { status, takenAt }: Pick<Polled, 'status' | 'takenAt'>,
  now: number,
  overdueMs: number,
): boolean => status !== null && status.commitment !== 'finalized' && now - takenAt >= overdueMs;
