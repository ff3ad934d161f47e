// Steps 4 and 5 of collecting (chain.md): signed and committed transactions on their way. The same bytes go out every 2 s until the chain has
// them, and are watched until their end is final: a confirmed block can still be dropped by a fork, and then they go out again.
//
//   committed -> sent -> seen (processed, confirmed) -> final: landed | failed       (settled in landing.ts)
//                  \-> never seen, blockhash expired, finally                        -> expired
import { RpcUnreachable } from '../chain/rpc-errors.ts';
import type { SignatureStatus } from '../chain/answers.ts';
import type { AttemptRow } from '../db/payment-attempts.ts';
import { releaseClaims, renewLeases } from '../db/subscriptions.ts';
import { type Held, LEASE_SECONDS } from '../domain/settlement.ts';
import { startLoop } from '../loop.ts';
import type { Context } from './context.ts';
import { isolating } from './isolate.ts';
import type { Landing } from './landing.ts';
import { type Outgoing, sendAll } from './send.ts';

/** An open attempt that this keeper watches. */
export interface Flying extends Held {
  readonly attempt: AttemptRow;
  /** Unix seconds; what the payment buys as it was when it was signed. Null for an attempt that another process signed. */
  readonly periodEnd: bigint | null;
}

export interface Flight {
  /** How many more can be taken in. */
  room(): number;
  /** Takes committed attempts in and sends them. */
  add(flying: readonly Flying[]): void;
  /** Waits up to `ms` until nothing is in the air, then gives what is left back to whoever comes. */
  stop(ms: number): Promise<void>;
}

interface Watched extends Outgoing {
  readonly takenAt: number;
  renewedAt: number;
  sentAt: number;
  polledAt: number;
  settleAt: number;
  status: SignatureStatus | null;
}

const MOST_IN_FLIGHT = 8192;
const RESEND_MS = 2000;
const RESEND_UNSEEN_MS = 3 * RESEND_MS;
const MOST_SENDS = 1024;
const STATUSES_AT_ONCE = 256;
/** A transaction is looked for again after three tenths of its age, between these bounds. */
const POLL_SOONEST_MS = 150;
const POLL_LATEST_MS = 1000;
/** The endpoints' status caches reach back some 150 blocks; what is older is looked up in their history. */
const RECENT_MS = 45_000;
const EXPIRY_CHECK_MS = 2000;
/** What could not be settled, for want of its transaction or by a fault in the books, is tried again after these. */
const SETTLE_AGAIN_MS = 5000;
const FAULT_PAUSE_MS = 60_000;
const RENEW_MS = (LEASE_SECONDS * 1000) / 3;

/** Starts watching; `landing` settles what has come to its end. */
export function createFlight(context: Context, landing: Landing): Flight {
  const { sql, rpc, log, metrics } = context;
  const flying = new Map<string, Watched>();
  let expiryCheckedAt = -Infinity;
  let emptied: (() => void) | undefined;

  /** A subscription may be back under a new claim by now: that one stays. */
  const forget = (done: Iterable<Pick<Flying, 'id' | 'claimId'>>) => {
    for (const { id, claimId } of done) if (flying.get(id)?.claimId === claimId) flying.delete(id);
    metrics.inFlight.set(flying.size);
    if (flying.size === 0) emptied?.();
  };

  /**
   * One round of sending (send.ts); those that may not go out now are asked about again with the next. What went out is looked for before it goes
   * out again, unless no endpoint tells for a while.
   */
  async function send(): Promise<boolean> {
    const now = performance.now();
    const ready = [...flying.values()]
      .filter(({ status, sentAt, polledAt }) => status === null && now - sentAt >= (polledAt > sentAt ? RESEND_MS : RESEND_UNSEEN_MS))
      .slice(0, MOST_SENDS);
    if (ready.length === 0) return false;
    for (const one of ready) one.sentAt = now;
    await sendAll(context, ready);
    return ready.length === MOST_SENDS;
  }

  /** One round of looking. */
  async function poll(): Promise<boolean> {
    const now = performance.now();
    await renew(now);
    const ready = [...flying.values()].filter(({ polledAt, takenAt, status }) => {
      const pause = Math.min(POLL_LATEST_MS, Math.max(POLL_SOONEST_MS, 0.3 * (now - takenAt)));
      // What is final does not change any more.
      return now - polledAt >= pause && status?.commitment !== 'finalized';
    });
    const isRecent = ({ takenAt, periodEnd }: Watched) => periodEnd !== null && now - takenAt < RECENT_MS;
    await look(ready.filter(isRecent), false);
    await look(
      ready.filter((one) => !isRecent(one)),
      true,
    );
    if (isSettleable(performance.now())) settling.wake();
    return false;
  }

  const settleable = (now: number) =>
    [...flying.values()].filter(({ status, settleAt }) => status?.commitment === 'finalized' && now >= settleAt);
  const isSettleable = (now: number) => settleable(now).length > 0;

  /** One round of settling what is final, while the next is looked for. */
  async function settle(): Promise<boolean> {
    const now = performance.now();
    const batch = settleable(now)
      .slice(0, STATUSES_AT_ONCE)
      .flatMap((one) => (one.status === null ? [] : [{ ...one, status: one.status }]));
    for (const { id } of batch) {
      const one = flying.get(id);
      if (one !== undefined) one.settleAt = now + SETTLE_AGAIN_MS;
    }
    if (batch.length > 0) await isolating(batch, async (some) => forget(await landing.landed(some)), fault);
    if (now - expiryCheckedAt >= EXPIRY_CHECK_MS) {
      expiryCheckedAt = now;
      const unseen = [...flying.values()].filter(
        ({ status, takenAt, periodEnd }) => status === null && (periodEnd === null || now - takenAt > RESEND_MS),
      );
      if (unseen.length > 0) await isolating(unseen, async (some) => forget(await landing.expired(some)), fault);
    }
    return isSettleable(performance.now());
  }

  const fault = ({ id, attempt }: Flying, error: unknown) => {
    const one = flying.get(id);
    if (one !== undefined) one.settleAt = performance.now() + FAULT_PAUSE_MS;
    metrics.alerts.inc({ reason: 'cannot_be_settled' });
    log.error({ err: error, subscription: id, signature: attempt.signature }, 'a payment cannot be settled: run "billing reconcile"');
  };

  async function look(ready: readonly Watched[], history: boolean): Promise<void> {
    for (let start = 0; start < ready.length; start += STATUSES_AT_ONCE) {
      const batch = ready.slice(start, start + STATUSES_AT_ONCE);
      const { statuses } = await rpc.getSignatureStatuses(
        batch.map(({ attempt }) => attempt.signature),
        { history },
      );
      const now = performance.now();
      batch.forEach((one, place) => {
        one.polledAt = now;
        one.status = statuses[place] ?? null;
      });
    }
  }

  /** Prolongs the claims; what was taken from us (a cancellation, a lease that ran out) is somebody else's to watch. */
  async function renew(now: number): Promise<void> {
    const old = [...flying.values()].filter(({ renewedAt }) => now - renewedAt >= RENEW_MS);
    if (old.length === 0) return;
    const kept = new Set(await renewLeases(sql, old, LEASE_SECONDS));
    for (const one of old) one.renewedAt = now;
    forget(old.filter(({ id }) => !kept.has(id)));
  }

  const onError = (what: string) => (error: unknown, failures: number) => {
    if (!(error instanceof RpcUnreachable)) log.error({ err: error, failures }, what);
  };
  const sending = startLoop({ idleMs: 500, turn: send, onError: onError('payments could not be sent') });
  const settling = startLoop({ idleMs: 500, turn: settle, onError: onError('payments could not be settled') });
  const watching = startLoop({ idleMs: 100, turn: poll, onError: onError('payments could not be watched') });

  return {
    room: () => MOST_IN_FLIGHT - flying.size,
    add(taken) {
      const now = performance.now();
      for (const one of taken) {
        flying.set(one.id, {
          ...one,
          takenAt: now,
          renewedAt: now,
          sentAt: -Infinity,
          sends: 0,
          // What another process signed may be old: the chain is looked at before it goes out.
          heeded: one.periodEnd === null ? null : one.notices,
          polledAt: now,
          settleAt: now,
          status: null,
        });
      }
      metrics.inFlight.set(flying.size);
      sending.wake();
    },
    async stop(ms) {
      if (flying.size > 0) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          emptied = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      await Promise.all([sending, watching, settling].map((loop) => loop.stop()));
      if (flying.size > 0) {
        log.info({ attempts: flying.size }, 'payments on their way are left to the next keeper');
        await releaseClaims(sql, [...flying.values()]);
      }
      flying.clear();
      metrics.inFlight.set(0);
    },
  };
}
