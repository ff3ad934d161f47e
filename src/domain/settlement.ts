// The one transaction in which the keeper changes subscriptions: rows are locked under their claims, judged as they are now (the API may have
// cancelled one since it was claimed), and written with their payments, attempts and events. Nothing is ever half of it.
import type { Sql, Transaction } from '../db/connect.ts';
import { insertAttempts, resolveAttempts, type AttemptRow, type Resolution } from '../db/payment-attempts.ts';
import { notePaidAccounts } from '../db/paid-accounts.ts';
import { insertPayments, readRecorded } from '../db/payments.ts';
import { lockHeld } from '../db/subscription-leases.ts';
import { type ReadSubscription, readSubscriptions, writeStates, type Written } from '../db/subscriptions.ts';
import { appendEvents, storeEvents } from './events.ts';
import type { Draft } from './transitions.ts';

/** Seconds that a claim is good for without being renewed. A transaction is usually final after some 15 s. */
export const LEASE_SECONDS = 45;

/** A subscription that a keeper holds: its id, the claim, and the notices that it had when the keeper began. */
export interface Held {
  id: string;
  claimId: string;
  notices: number;
  /** As it was read last: it is not read again unless somebody has changed it since. */
  seen?: ReadSubscription;
}

/** What is to be written for one subscription. */
export interface Outcome {
  draft: Draft;
  /** A signed transaction to commit; the claim is kept while it is under way. */
  attempt?: Omit<AttemptRow, 'id' | 'subscriptionId'>;
  /** One is under way already: the claim is kept. */
  keep?: true;
  /** A wallet whose token account the payment created. */
  accountPaidFor?: string;
  /** The end of the attempt that was under way. */
  resolution?: Resolution;
}

export interface Settled {
  /** Attempts by the subscription that they are of. */
  attempts: Map<string, string>;
  /** Subscriptions that were written, or were as they are to be. The others were taken away from us: whoever holds them now goes on. */
  written: Set<string>;
  /** Endpoints for which deliveries were queued: dispatchers are to be told of them. */
  queued: Set<string>;
}

/**
 * Judges and writes. `judge` must not wait for anything: rows are locked. It is told whether a pull (by its transaction's signature) is recorded
 * for the subscription's account already, among those in `signatures`; undefined leaves the row as it is, with its claim.
 */
export async function settle(
  sql: Sql,
  held: readonly Held[],
  { chainNow, signatures = [] }: { chainNow: Date; signatures?: string[] },
  judge: (row: ReadSubscription, isRecorded: (signature: string) => boolean) => Outcome | undefined,
): Promise<Settled> {
  return sql.begin(async (tx) => {
    const claims = new Map(held.map((one) => [one.id, one]));
    const rows = await readHeld(tx, [...claims.values()]);
    const recorded = new Set(
      signatures.length === 0 ? [] : (await readRecorded(tx, signatures)).map((pull) => `${pull.txSignature} ${pull.subscriptionPda}`),
    );
    const outcomes = rows.flatMap((row) => {
      const outcome = judge(row, (signature) => recorded.has(`${signature} ${row.subscriptionPda}`));
      const claim = claims.get(row.id);
      return outcome === undefined || claim === undefined ? [] : [{ claim, row, ...outcome }];
    });

    const payments = outcomes.flatMap(({ draft }) => draft.payments);
    if (payments.length > 0) await insertPayments(tx, payments);
    const resolutions = outcomes.flatMap(({ resolution }) => resolution ?? []);
    if (resolutions.length > 0) await resolveAttempts(tx, resolutions);
    const paidFor = new Set(outcomes.flatMap(({ accountPaidFor }) => accountPaidFor ?? []));
    if (paidFor.size > 0) await notePaidAccounts(tx, paidFor);
    const attempts = outcomes.flatMap(({ attempt, claim }) =>
      attempt === undefined ? [] : [{ subscriptionId: claim.id, claimId: claim.claimId, ...attempt }],
    );
    const committed = attempts.length === 0 ? [] : await insertAttempts(tx, attempts);
    const [untouched, touched] = [outcomes.filter(isUntouched), outcomes.filter((outcome) => !isUntouched(outcome))];
    const written = await writeStates(
      tx,
      touched.map(({ draft, attempt, keep, claim: { id, claimId, notices } }) => ({
        id,
        claimId,
        notices,
        state: draft.state,
        keep: keep ?? attempt !== undefined,
        tells: draft.happenings.length > 0,
      })),
      chainNow,
      LEASE_SECONDS,
    );
    const queued = await tell(tx, touched, new Map(written.map((one) => [one.id, one])));
    return {
      attempts: new Map(committed.map(({ id, subscriptionId }) => [subscriptionId, id])),
      written: new Set([...written, ...untouched.map(({ claim }) => claim)].map(({ id }) => id)),
      queued,
    };
  });
}

/** Locks what is still held, and gives it as it is now. */
async function readHeld(tx: Transaction, held: readonly Held[]): Promise<ReadSubscription[]> {
  const seen = new Map(held.map((one) => [one.id, one.seen]));
  const locked = await lockHeld(tx, [...held]);
  const isAsSeen = ({ id, version }: { id: string; version: string }) => seen.get(id)?.version === version;
  const others = locked.filter((one) => !isAsSeen(one)).map(({ id }) => id);
  const read = others.length === 0 ? [] : await readSubscriptions(tx, others);
  for (const row of read) seen.set(row.id, row);
  return locked.flatMap(({ id }) => seen.get(id) ?? []);
}

/**
 * A row that nothing changes of but how new the accounts were that it was judged by, while its transaction is under way: the attempt is the record of that,
 * and the row is written once, at the attempt's end. Its lease runs since the claim.
 */
function isUntouched({ attempt, draft: { row, state, happenings } }: Outcome): boolean {
  if (attempt === undefined || happenings.length > 0) return false;
  return (Object.keys(state) as (keyof typeof state)[]).every((field) => field === 'observedSlot' || state[field] === row[field]);
}

/** Stores the events of what was written; returns the endpoints for which deliveries were queued. */
async function tell(
  tx: Transaction,
  outcomes: readonly { draft: Draft; row: ReadSubscription }[],
  written: ReadonlyMap<string, Written>,
): Promise<Set<string>> {
  // The first event of each took its number along with the state: one version of a row less than taking it afterwards.
  const first = outcomes.flatMap(({ draft: { state, happenings }, row }) => {
    const { eventId = null, createdAt = new Date(0), sequence = 0n } = written.get(row.id) ?? {};
    const [happening] = happenings;
    if (happening === undefined || eventId === null) return [];
    const { id: subscriptionId, appId, planId, planName, subscriptionPda, subscriberWallet, accountWallet: merchantWallet } = row;
    const { status, paidThrough } = state;
    const parties = { subscriptionId, appId, planId, planName, subscriptionPda, subscriberWallet, merchantWallet };
    return [{ context: { eventId, createdAt, sequence, status, paidThrough, ...parties }, ...happening }];
  });
  const later = outcomes.flatMap(({ draft: { happenings }, row }) =>
    happenings.slice(1).map((happening) => ({ ...happening, subscriptionId: row.id })),
  );
  if (first.length === 0) return new Set();
  const endpoints = await storeEvents(tx, first);
  return new Set([...endpoints, ...(await appendEvents(tx, later))]);
}
