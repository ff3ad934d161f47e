// The database transaction in which the keeper changes subscriptions. Assessments are made before
// the transaction. Under the row locks it writes an assessment only if the row has not changed
// since (the API may have cancelled the subscription). Changed rows are assessed again.
import {
  AddressTaken,
  type AttemptRow,
  insertAttempts,
  resolveAttempts,
  type Resolution,
} from '../../db/payment-attempts.ts';
import { insertPayments } from '../../db/payments.ts';
import type { Sql, Transaction } from '../../db/postgres/connect.ts';
import type { ClaimKey } from '../../db/subscription-leases.ts';
import { lockClaimed } from '../../db/subscription-leases.ts';
import {
  type KeeperSubscriptionForEvents,
  readSubscriptions,
  writeStates,
  type Written,
} from '../../db/subscription-work.ts';
import { appendEvents, storeEvents } from '../outbox/events.ts';
import type { BlockReason } from '../reasons.ts';
import { Books, readBooks } from './books.ts';
import { stopped } from './brake.ts';
import type { Pull } from './chain-view.ts';
import { blockPlans, type BlockedPlan, lockBlocked } from './plan-block.ts';
import type { KnownPull } from './pulls.ts';
import { markRecovered } from './recovered.ts';
import type { SubscriptionUpdate } from './transitions.ts';

/** Length of a lease. A transaction is usually finalized after some 15 s. */
export const LEASE_SECONDS = 45;

/** A claimed subscription, and its count of notifications (`notices`) as the keeper read it. */
export interface ClaimedRow extends ClaimKey {
  notices: number;
}

/** The changes to write for one subscription. */
export interface Assessment {
  update: SubscriptionUpdate;
  /** A signed payment to commit. The lease is kept while the payment is in flight. */
  attempt?: Omit<AttemptRow, 'id' | 'subscriptionId'>;
  /** Keeps the lease, because a payment is already in flight. */
  keepsLease?: true;
  /** The end of the attempt in flight. */
  resolution?: Resolution;
  /** The reason why the plan is blocked. The plan is marked in the same database transaction. */
  blocks?: BlockReason | undefined;
}

/** An assessment with its claim and the row that it was decided from. */
export type ClaimedAssessment<O extends Assessment = Assessment> = O & {
  readonly claim: ClaimedRow;
  readonly row: KeeperSubscriptionForEvents;
};

export interface Settled<A> {
  /** Assessments that were written, or needed no write. */
  readonly written: readonly A[];
  /**
   * Assessments that were not written, because the row changed, a payment was already recorded,
   * collection is held, or another payment of the same transaction was not written.
   */
  readonly changed: readonly A[];
  /** Ids of the committed attempts, by subscription id. */
  readonly attempts: ReadonlyMap<string, string>;
  /** Recorded pulls and paid periods of the assessments. */
  readonly books: Books;
  /** Plans that were marked as blocked. */
  readonly blocked: readonly BlockedPlan[];
  /** Names to notify (db/postgres/notify.ts): apps and endpoints with new deliveries. */
  readonly queued: ReadonlySet<string>;
}

const nothing: Settled<never> = {
  written: [],
  changed: [],
  attempts: new Map(),
  books: new Books(),
  blocked: [],
  queued: new Set(),
};

/**
 * Writes assessments. A row whose claim is lost, or whose address has another open attempt, is in
 * neither list of the result. An attempt is only committed while collection is not held. If
 * `timeline` is given (the timeline of Postgres when the assessment began), it must still be the
 * same.
 */
export async function settle<A extends ClaimedAssessment>(
  sql: Sql,
  assessments: readonly A[],
  chainNow: Date,
  timeline?: string | null,
): Promise<Settled<A>> {
  if (assessments.length === 0) return nothing;
  try {
    return await sql.begin((tx) => write(tx, assessments, { chainNow, timeline }));
  } catch (error) {
    if (!(error instanceof AddressTaken)) throw error;
    const { subscriptionIds: taken } = error;
    const others = assessments.filter(({ row }) => !taken.has(row.id));
    return settle(sql, others, chainNow, timeline);
  }
}

async function write<A extends ClaimedAssessment>(
  tx: Transaction,
  assessments: readonly A[],
  { chainNow, timeline }: { chainNow: Date; timeline: string | null | undefined },
): Promise<Settled<A>> {
  const isStopped = await stopped(tx, assessments, timeline);
  await lockBlocked(tx, assessments);
  const claims = assessments.map(({ claim }) => claim);
  const versions = new Map(
    (await lockClaimed(tx, claims)).map(({ id, version }) => [id, version] as const),
  );
  const claimed = assessments.filter(({ row }) => versions.has(row.id));
  const books = await readBooks(
    tx,
    claimed.map(({ update }) => update),
  );
  const current = wholeTransactions(
    claimed.filter(
      (one) =>
        versions.get(one.row.id) === one.row.version &&
        !one.update.payments.some((payment) => books.refuses(payment)) &&
        !isStopped(one),
    ),
  );
  const isCurrent = new Set<A>(current);

  const blocked = await blockPlans(tx, current);
  const payments = current.flatMap(({ update }) => update.payments);
  if (payments.length > 0) await insertPayments(tx, payments);
  const resolutions = current.flatMap(({ resolution }) => resolution ?? []);
  if (resolutions.length > 0) await resolveAttempts(tx, resolutions);
  const signed = current.flatMap(({ attempt, claim: { claimId }, row }) => {
    const { id: subscriptionId, subscriptionPda } = row;
    return attempt === undefined ? [] : [{ subscriptionId, subscriptionPda, claimId, ...attempt }];
  });
  const attempts =
    signed.length === 0 ? new Map<string, string>() : await insertAttempts(tx, signed);
  const touched = current.filter((one) => !isUntouched(one));
  const written =
    touched.length === 0
      ? []
      : await writeStates(
          tx,
          touched.map(({ update, attempt, keepsLease, claim: { id, claimId, notices } }) => ({
            id,
            claimId,
            notices,
            state: update.state,
            keepsLease: keepsLease ?? attempt !== undefined,
            withEvent: update.events.length > 0,
          })),
          chainNow,
          LEASE_SECONDS,
        );
  return {
    written: current,
    changed: claimed.filter((one) => !isCurrent.has(one)),
    attempts,
    books,
    blocked,
    queued: await storeNewEvents(tx, touched, new Map(written.map((one) => [one.id, one]))),
  };
}

/**
 * Removes the payments of incomplete transactions. A signed transaction is committed with all of
 * its payments or not at all.
 */
function wholeTransactions<A extends ClaimedAssessment>(assessments: readonly A[]): A[] {
  const present = new Map<string, number>();
  for (const { attempt } of assessments)
    if (attempt !== undefined)
      present.set(attempt.signature, (present.get(attempt.signature) ?? 0) + 1);
  return assessments.filter(
    ({ attempt }) => attempt === undefined || present.get(attempt.signature) === attempt.payments,
  );
}

/** How often a row that keeps changing is assessed. */
const TRIES = 3;

/**
 * Assesses rows. A row without an assessment in the result is not written, and its lease is kept.
 */
export type AssessRows<A extends ClaimedAssessment> = (
  rows: readonly KeeperSubscriptionForEvents[],
  /** Recorded pulls and paid periods of these rows, as far as known. */
  books: Books,
) => readonly A[] | Promise<readonly A[]>;

interface SettleRowsOptions<A extends ClaimedAssessment> {
  readonly chainNow: Date;
  /** As in `settle`. */
  readonly timeline?: string | null | undefined;
  readonly assess: AssessRows<A>;
  /**
   * Called with the result of each database transaction after its commit, even if a later
   * transaction fails.
   */
  readonly onSettled?: (settled: Settled<A>) => void;
}

/** The result of `settleRows`. */
export interface SettledRows<A> {
  readonly written: readonly A[];
  /** Ids of rows that were not written because they kept changing. Their leases are kept. */
  readonly left: readonly string[];
  readonly queued: ReadonlySet<string>;
}

/**
 * Assesses rows and writes the outcomes. A row that changed meanwhile is read and assessed again,
 * up to three assessments in all.
 */
export async function settleRows<A extends ClaimedAssessment>(
  sql: Sql,
  claimed: readonly KeeperSubscriptionForEvents[],
  { chainNow, timeline, assess, onSettled }: SettleRowsOptions<A>,
): Promise<SettledRows<A>> {
  const written: A[] = [];
  const queued = new Set<string>();
  const books = new Books();
  let rows = claimed;
  for (let tries = 0; tries < TRIES && rows.length > 0; tries += 1) {
    const settled = await settle(sql, await assess(rows, books), chainNow, timeline);
    onSettled?.(settled);
    written.push(...settled.written);
    for (const endpoint of settled.queued) queued.add(endpoint);
    books.include(settled.books);
    const ids = settled.changed.map(({ row }) => row.id);
    rows = ids.length === 0 ? [] : await readSubscriptions(sql, ids);
  }
  return { written, left: rows.map(({ id }) => id), queued };
}

/**
 * Turns a pure function that assesses one row into AssessRows. If `assess` returns undefined, the
 * row is not written. `mark` tells whether a pull of the row's account and its period are recorded.
 */
export function rowByRow<O extends Assessment>(
  claims: readonly ClaimedRow[],
  assess: (row: KeeperSubscriptionForEvents, mark: (pull: Pull) => KnownPull) => O | undefined,
): AssessRows<ClaimedAssessment<O>> {
  const byId = new Map(claims.map((claim) => [claim.id, claim]));
  return (rows, books) =>
    rows.flatMap((row) => {
      const outcome = assess(row, (pull) => books.mark(row.subscriptionPda, pull));
      const claim = byId.get(row.id);
      return outcome === undefined || claim === undefined ? [] : [{ ...outcome, claim, row }];
    });
}

/**
 * Whether the row needs no write when its attempt is committed. This is the case if only
 * observedSlot changed, because the end of the attempt writes it. The lease then still counts from
 * the claim.
 */
function isUntouched({ attempt, update: { row, state, events } }: Assessment): boolean {
  if (attempt === undefined || events.length > 0) return false;
  return (Object.keys(state) as (keyof typeof state)[]).every(
    (field) => field === 'observedSlot' || state[field] === row[field],
  );
}

/**
 * Stores the events of the written outcomes. Resolves with the names to notify
 * (db/postgres/notify.ts).
 */
async function storeNewEvents(
  tx: Transaction,
  outcomes: readonly { update: SubscriptionUpdate; row: KeeperSubscriptionForEvents }[],
  written: ReadonlyMap<string, Written>,
): Promise<Set<string>> {
  const marked = await markRecovered(tx, outcomes);
  // The state update has assigned the sequence number of the first event. A second update only for
  // this would write one more row version.
  const first = outcomes.flatMap(({ update: { state, events }, row }) => {
    const { eventId = null, createdAt = new Date(0), sequence = 0n } = written.get(row.id) ?? {};
    const [event] = events;
    if (event === undefined || eventId === null) return [];
    const {
      id: subscriptionId,
      appId,
      planId,
      planName,
      subscriptionPda,
      subscriberWallet,
      accountWallet: merchantWallet,
      externalId,
      metadata,
      ownIdsFrom,
      periodHours,
      graceHours,
      trialEndsAt,
      pausedAt,
    } = row;
    const { status, paidThrough, nextPaymentDue, cancelRequestedAt, refundedThrough } = state;
    const parties = {
      subscriptionId,
      appId,
      planId,
      planName,
      subscriptionPda,
      subscriberWallet,
      merchantWallet,
      externalId,
      metadata,
      ownIdsFrom,
    };
    const access = { status, paidThrough, nextPaymentDue, cancelRequestedAt, refundedThrough };
    const terms = { periodHours, graceHours, trialEndsAt, pausedAt };
    return [
      {
        context: { eventId, createdAt, sequence, ...parties, ...access, ...terms },
        ...marked(event),
      },
    ];
  });
  const later = outcomes.flatMap(({ update: { events }, row }) =>
    events.slice(1).map((event) => ({ ...marked(event), subscriptionId: row.id })),
  );
  if (first.length === 0) return new Set();
  const endpoints = await storeEvents(tx, first);
  return new Set([...endpoints, ...(await appendEvents(tx, later))]);
}
