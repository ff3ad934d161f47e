// Steps 4 and 5 of collecting (chain.md): signed and committed transactions on their way. The same bytes go out every 2 s until the chain has
// them, and are watched until their end is final: a confirmed block can still be dropped by a fork, and then they go out again.
//
//   committed -> sent -> seen (processed, confirmed) -> final: landed | failed       (settled in landing.ts)
//                  \-> never seen, blockhash expired, finally                        -> expired
import { RpcUnreachable } from '../chain/rpc-errors.ts';
import { releaseClaims, renewLeases } from '../db/subscription-leases.ts';
import { LEASE_SECONDS } from '../domain/settlement.ts';
import { startLoop } from '../loop.ts';
import type { Context } from './context.ts';
import { createInFlight, type Flying, type InFlight, type Watched } from './in-flight.ts';
import { isolating } from './isolate.ts';
import type { Landing } from './landing.ts';
import { isWorthALook, type Root } from './looks.ts';
import { SENT_AT_ONCE, sendAll } from './send.ts';

export interface Flight extends Pick<InFlight, 'explains' | 'isOurs'> {
  /** How many more can be taken in. Whoever finds too little is told (`onRoom`) when there is more. */
  room(): number;
  /** Takes committed attempts in and sends them. */
  add(flying: readonly Flying[]): void;
  /** The node's newest root: what landed at or before it is about to be final. */
  rooted(slot: bigint): void;
  /** Waits up to `ms` until nothing is in the air, then gives what is left back to whoever comes. */
  stop(ms: number): Promise<void>;
}

const MOST_IN_FLIGHT = 8192;
/** What is signed grows old while it waits, and what is claimed is in nobody else's hands. Two collectors go on while half of these go out. */
const MOST_UNSENT = 1024;
/** Rounds of sending at once: while one waits for its locks or its commit, the other sends. */
const LANES = 2;
/** Batches that are settled at once: while one waits for the chain, another uses the database. */
const SETTLED_AT_ONCE = 2;
const RESEND_MS = 2000;
const RESEND_UNSEEN_MS = 3 * RESEND_MS;
const MOST_AGAIN = 1024;
/** How often all are looked through for what is to go out again. */
const SCAN_MS = 500;
/** How often all are looked through for those whose status is to be asked for: the more there are, the longer that takes. */
const SOONEST_POLL_MS = 100;
const POLLED_PER_MS = 15;
const STATUSES_AT_ONCE = 256;
/** The endpoints' status caches reach back some 150 blocks; what is older is looked up in their history. */
const RECENT_MS = 45_000;
const EXPIRY_CHECK_MS = 2000;
/** What could not be settled, for want of its transaction or by a fault in the books, is tried again after these. */
const SETTLE_AGAIN_MS = 5000;
const FAULT_PAUSE_MS = 60_000;
const RENEW_MS = (LEASE_SECONDS * 1000) / 3;

/** Starts watching; `landing` settles what has come to its end. `onRoom` is called when there is room again for somebody who found none. */
export function createFlight(context: Context, landing: Landing, onRoom: () => void = () => undefined): Flight {
  const { sql, rpc, log, metrics } = context;
  const flying = createInFlight();
  /** What was just taken in. */
  const unsent: Watched[] = [];
  let scannedAt = -Infinity;
  let root: Root = { slot: 0n, heardAt: -Infinity };
  let expiryCheckedAt = -Infinity;
  let emptied: (() => void) | undefined;
  let isAwaited = false;

  const room = () => Math.min(MOST_IN_FLIGHT - flying.size, MOST_UNSENT - unsent.length);
  const tellRoom = () => {
    if (!isAwaited || room() < MOST_UNSENT / 2) return;
    isAwaited = false;
    onRoom();
  };

  const forget = (done: Iterable<Pick<Flying, 'id' | 'claimId'>>) => {
    flying.forget(done);
    metrics.inFlight.set(flying.size);
    if (flying.size === 0) emptied?.();
    tellRoom();
  };

  /**
   * One round of sending (send.ts); those that may not go out now are asked about again with a later one. What went out is looked for before it goes
   * out again, unless no endpoint tells for a while.
   */
  async function send(): Promise<boolean> {
    const now = performance.now();
    const isDue = ({ status, sentAt, polledAt, sends }: Watched) =>
      status === null && now - sentAt >= (polledAt > sentAt || sends === 0 ? RESEND_MS : RESEND_UNSEEN_MS);
    const ready = unsent.splice(0, SENT_AT_ONCE).filter((one) => flying.has(one) && one.sentAt === -Infinity);
    for (const one of ready) one.sentAt = now;
    tellRoom();
    if (now - scannedAt >= SCAN_MS) {
      scannedAt = now;
      const again = [...flying.all()].filter(isDue).slice(0, MOST_AGAIN);
      for (const one of again) one.sentAt = now;
      ready.push(...again);
    }
    if (ready.length > 0) await sendAll(context, ready);
    return unsent.length > 0;
  }

  /** One round of looking. */
  async function poll(): Promise<boolean> {
    const now = performance.now();
    // One pass over all: there are thousands.
    const [old, recent, past]: [Watched[], Watched[], Watched[]] = [[], [], []];
    for (const one of flying.all()) {
      if (now - one.renewedAt >= RENEW_MS) old.push(one);
      if (isWorthALook(one, root, now)) (one.periodEnd !== null && now - one.takenAt < RECENT_MS ? recent : past).push(one);
    }
    if (old.length > 0) await renew(old, now);
    await look(recent, false);
    await look(past, true);
    if (flying.settleable(performance.now()).length > 0) for (const lane of settling) lane.wake();
    return false;
  }

  /** One round of settling what is final, while the next is looked for. */
  async function settle(): Promise<boolean> {
    const now = performance.now();
    const batch = flying
      .settleable(now)
      .slice(0, STATUSES_AT_ONCE)
      .flatMap((one) => (one.status === null ? [] : [{ ...one, status: one.status }]));
    for (const { id } of batch) {
      const one = flying.of(id);
      if (one !== undefined) one.settleAt = now + SETTLE_AGAIN_MS;
    }
    if (batch.length > 0) await isolating(batch, async (some) => forget(await landing.landed(some)), fault);
    return flying.settleable(performance.now()).length > 0;
  }

  /** One round of looking for what can never land any more. */
  async function expire(): Promise<boolean> {
    const now = performance.now();
    if (now - expiryCheckedAt < EXPIRY_CHECK_MS) return false;
    expiryCheckedAt = now;
    const unseen = [...flying.all()].filter(
      ({ status, takenAt, periodEnd }) => status === null && (periodEnd === null || now - takenAt > RESEND_MS),
    );
    if (unseen.length > 0) await isolating(unseen, async (some) => forget(await landing.expired(some)), fault);
    return false;
  }

  const fault = ({ id, attempt }: Flying, error: unknown) => {
    const one = flying.of(id);
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
        one.slot = one.status?.slot ?? null;
        if (one.status?.commitment === 'finalized') flying.ended(one);
      });
    }
  }

  /** Prolongs the claims; what was taken from us (a cancellation, a lease that ran out) is somebody else's to watch. */
  async function renew(old: readonly Watched[], now: number): Promise<void> {
    const kept = new Set(await renewLeases(sql, [...old], LEASE_SECONDS));
    for (const one of old) one.renewedAt = now;
    forget(old.filter(({ id }) => !kept.has(id)));
  }

  const onError = (what: string) => (error: unknown, failures: number) => {
    if (!(error instanceof RpcUnreachable)) log.error({ err: error, failures }, what);
  };
  const sending = Array.from({ length: LANES }, () =>
    startLoop({ idleMs: 500, turn: send, onError: onError('payments could not be sent') }),
  );
  const settling = Array.from({ length: SETTLED_AT_ONCE }, () =>
    startLoop({ idleMs: 500, turn: settle, onError: onError('payments could not be settled') }),
  );
  const expiring = startLoop({ idleMs: 500, turn: expire, onError: onError('payments could not be settled') });
  const watching = startLoop({
    idleMs: () => Math.max(SOONEST_POLL_MS, flying.size / POLLED_PER_MS),
    turn: poll,
    onError: onError('payments could not be watched'),
  });

  return {
    room() {
      isAwaited ||= room() <= 0;
      return room();
    },
    add(taken) {
      unsent.push(...flying.take(taken));
      metrics.inFlight.set(flying.size);
      for (const lane of sending) lane.wake();
    },
    explains: (address, account, slot) => flying.explains(address, account, slot),
    isOurs: (signature) => flying.isOurs(signature),
    rooted(slot) {
      root = { slot, heardAt: performance.now() };
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
      await Promise.all([...sending, watching, ...settling, expiring].map((loop) => loop.stop()));
      if (flying.size > 0) {
        log.info({ attempts: flying.size }, 'payments on their way are left to the next keeper');
        await releaseClaims(sql, [...flying.all()]);
      }
      flying.clear();
      unsent.length = 0;
      metrics.inFlight.set(0);
    },
  };
}
