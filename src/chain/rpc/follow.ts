// Rules for every signed transaction that is sent and polled: when it is sent again, when its
// status is polled, and what a status proves. landing.ts decides whether it can never land. The
// keeper's follower and closings, the relay and the wallet command use these rules with different
// intervals.
import { chunks } from '../../each.ts';
import type { SignatureStatus } from './responses.ts';
import type { Rpc } from './rpc.ts';
import { STATUSES_AT_ONCE } from './transactions.ts';

/** A transaction that this process sends and polls. Times are milliseconds of performance.now(). */
export interface Followed {
  readonly signature: string;
  readonly bytes: Uint8Array;
  readonly takenAt: number;
  /**
   * Whether this process signed it. If not, another process may have sent it even if `sends` is 0.
   */
  isOwn: boolean;
  /** Number of sends by this process. */
  sends: number;
  /** Time of the last send. -Infinity if the transaction must be sent at once. */
  sentAt: number;
  polledAt: number;
  /** The last accepted status. Null while the transaction counts as unseen. */
  status: SignatureStatus | null;
  /**
   * The slot in which it landed, according to a notification or to a poll with status confirmed.
   */
  slot: bigint | null;
}

/** Returns the state of a transaction that this process has not sent yet. */
export function follow({ signature, bytes }: Pick<Followed, 'signature' | 'bytes'>): Followed {
  const now = performance.now();
  const times = { takenAt: now, sentAt: -Infinity, polledAt: now };
  return { signature, bytes, ...times, isOwn: true, sends: 0, status: null, slot: null };
}

/**
 * Whether to send the transaction now, for the first time or again. False while a notification or a
 * poll shows that the transaction landed. If it was not polled after its last send, it may have
 * landed. The interval is then three times as long.
 */
export function isSentAgain(
  { status, slot, sentAt, polledAt, sends }: Followed,
  now: number,
  resendMs: number,
): boolean {
  const pause = polledAt > sentAt || sends === 0 ? resendMs : 3 * resendMs;
  return status === null && slot === null && now - sentAt >= pause;
}

/** Records a send that begins now. */
export function markSent(transaction: Pick<Followed, 'sends' | 'sentAt'>): void {
  transaction.sends += 1;
  transaction.sentAt = performance.now();
}

/** The newest root of the streaming node. This slot is finalized or will soon be finalized. */
export interface Root {
  readonly slot: bigint;
  readonly receivedAt: number;
}

type Interval = 'rootAgeMs' | 'streamedMs' | 'landedMs' | 'soonestMs' | 'latestMs';

/**
 * Whether to poll the transaction's status now. Until the transaction should be finalized, its
 * status is polled only rarely, because a fixed rate would make up most of the RPC requests.
 */
export function shouldPoll(
  { takenAt, polledAt, sends, isOwn, status, slot }: Followed,
  root: Root,
  now: number,
  times: Readonly<Record<Interval, number>>,
): boolean {
  // A finalized status does not change, and a transaction that was never sent has no status.
  if (status?.commitment === 'finalized' || (isOwn && sends === 0)) return false;
  const isStreaming = now - root.receivedAt < times.rootAgeMs;
  if (isStreaming && slot === null) return now - polledAt >= times.streamedMs;
  if (isStreaming && slot !== null && slot > root.slot) return now - polledAt >= times.landedMs;
  const ageMs = now - takenAt;
  return now - polledAt >= Math.min(times.latestMs, Math.max(times.soonestMs, 0.3 * ageMs));
}

/** Reads the statuses of transactions and records them (`see`). Throws as the RPC client does. */
export async function pollStatuses(
  rpc: Pick<Rpc, 'getSignatureStatuses'>,
  some: readonly Followed[],
  options: { history?: boolean; everywhere?: boolean },
): Promise<void> {
  for (const batch of chunks(some, STATUSES_AT_ONCE)) {
    const signatures = batch.map(({ signature }) => signature);
    const { statuses, slot } = await rpc.getSignatureStatuses(signatures, options);
    const now = performance.now();
    for (const [index, one] of batch.entries()) {
      one.polledAt = now;
      see(one, statuses[index] ?? null, slot);
    }
  }
}

/**
 * Records the status that an endpoint at the slot `at` reports. An endpoint that lags behind the
 * last status is ignored. With a doubted failure, the transaction counts as unseen: it is sent
 * again and may expire. If a fork has dropped the block, the transaction is sent again at once.
 */
export function see(transaction: Followed, found: SignatureStatus | null, at: bigint): void {
  const { status: before } = transaction;
  const status = found?.isDoubted === true ? null : found;
  const isProcessed = status?.commitment === 'processed';
  if (before !== null && status === null) {
    if (at < before.slot) return;
    transaction.sentAt = -Infinity;
  }
  if (isProcessed && status.slot === before?.slot && before.commitment !== 'processed') return;
  transaction.status = status;
  transaction.slot = status === null || isProcessed ? null : status.slot;
}

/**
 * Returns the outcome that a status proves: a success when it is confirmed, a failure when it is
 * finalized. An earlier failure may be on a fork, so the transaction may still land.
 */
export function outcomeOf(status: SignatureStatus | null): 'landed' | 'failed' | undefined {
  if (status === null || status.commitment === 'processed') return undefined;
  if (status.err === null) return 'landed';
  return status.commitment === 'finalized' ? 'failed' : undefined;
}
