// The database transaction in which the keeper changes subscriptions. Each assessment is computed
// before this transaction. The transaction locks the rows. If a row has changed since its
// assessment, for example by a cancellation through the API, the row is assessed again. Otherwise
// the assessment is written.
import { type Invoice, NotWritten, writeInvoices } from '../../db/invoices/invoices.ts';
import {
  type AttemptRow,
  insertAttempts,
  resolveAttempts,
  type Resolution,
} from '../../db/money/payment-attempts.ts';
import { insertPayments } from '../../db/money/payments.ts';
import type { Sql, Transaction } from '../../db/postgres/connect.ts';
import type { ClaimKey } from '../../db/subscriptions/leases.ts';
import { lockClaimed } from '../../db/subscriptions/leases.ts';
import { endRefundedAccess } from '../../db/subscriptions/refunded.ts';
import {
  type KeeperSubscriptionForEvents,
  readSubscriptions,
  writeStates,
} from '../../db/subscriptions/work.ts';
import { storeCreditEvents } from '../outbox/events.ts';
import type { BlockReason } from '../reasons.ts';
import { Books, readBooks } from './books.ts';
import { stopped } from './brake.ts';
import type { Pull } from './chain-view.ts';
import { blockPlans, type BlockedPlan, lockBlocked } from './plan-block.ts';
import type { KnownPull } from './pulls.ts';
import { staleCredit } from './stale-credit.ts';
import type { SubscriptionUpdate } from './transitions.ts';
import { eventsOf, storeNewEvents } from './update-events.ts';

/**
 * Length of a lease in seconds. This is longer than a payment's transaction usually takes to be
 * finalized (about 15 s).
 */
export const LEASE_SECONDS = 45;

/**
 * The claim of a subscription. `notices` is the row's number of chain notifications when the keeper
 * read the row.
 */
export interface ClaimedRow extends ClaimKey {
  notices: number;
}

/** The changes to write for one subscription. */
export interface Assessment {
  update: SubscriptionUpdate;
  /**
   * The signed payment attempt that is committed. The lease is kept while the payment is in flight.
   */
  attempt?: Omit<AttemptRow, 'id' | 'subscriptionId'>;
  /** True if a payment is already in flight. The lease is then kept. */
  keepsLease?: true;
  /** How the attempt in flight has ended. */
  resolution?: Resolution;
  /**
   * The reason why the whole plan is blocked. The plan is marked as blocked in the same database
   * transaction.
   */
  blocks?: BlockReason | undefined;
}

/**
 * An assessment, with the subscription's claim and the row from which the assessment was computed.
 */
export type ClaimedAssessment<O extends Assessment = Assessment> = O & {
  readonly claim: ClaimedRow;
  readonly row: KeeperSubscriptionForEvents;
};

export interface Settled<A> {
  /** Assessments that were written, or for which nothing had to be written. */
  readonly written: readonly A[];
  /**
   * Assessments that were not written. The row had changed, a payment was already recorded,
   * collection is held, or another payment of the same transaction could not be written.
   */
  readonly changed: readonly A[];
  /** Ids of the committed attempts, by subscription id. */
  readonly attempts: ReadonlyMap<string, string>;
  /** Ids of the invoices that were drawn up or changed. */
  readonly invoiceIds: ReadonlyMap<Invoice, string>;
  /** Recorded payments and paid periods of the subscriptions, as read in this transaction. */
  readonly books: Books;
  /** Plans that this transaction has newly marked as blocked. */
  readonly blocked: readonly BlockedPlan[];
  /**
   * Names of apps and endpoints to notify because they have new deliveries (db/postgres/notify.ts).
   */
  readonly queued: ReadonlySet<string>;
}

const nothing: Settled<never> = {
  written: [],
  changed: [],
  attempts: new Map(),
  invoiceIds: new Map(),
  books: new Books(),
  blocked: [],
  queued: new Set(),
};

interface SettleOptions {
  readonly chainNow: Date;
  /**
   * The timeline of Postgres when the assessment began. If the timeline has changed since, no
   * attempt is committed. Undefined allows any timeline.
   */
  readonly timeline?: string | null | undefined;
  /** The books with which the assessments were computed. Empty by default. */
  readonly known?: Books;
}

/**
 * Writes assessments. A row whose claim is lost, whose address has another open attempt or another
 * invoice for the same time, or whose invoice a failover has lost, is neither in `written` nor in
 * `changed`. An attempt is committed only if collection is not held.
 */
export async function settle<A extends ClaimedAssessment>(
  sql: Sql,
  assessments: readonly A[],
  options: SettleOptions,
): Promise<Settled<A>> {
  if (assessments.length === 0) return nothing;
  try {
    return await sql.begin((tx) => writeAssessments(tx, assessments, options));
  } catch (error) {
    if (!(error instanceof NotWritten)) throw error;
    const { subscriptionIds: refused } = error;
    const others = assessments.filter(({ row }) => !refused.has(row.id));
    return settle(sql, others, options);
  }
}

/**
 * Writes assessments as `settle` does, but in the caller's transaction. Throws AddressTaken when an
 * address has another open attempt or another invoice for the same time, InvoiceLost when an
 * invoice is gone.
 */
export async function writeAssessments<A extends ClaimedAssessment>(
  tx: Transaction,
  assessments: readonly A[],
  { chainNow, timeline, known = new Books() }: SettleOptions,
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
  const isStale = await staleCredit(tx, claimed);
  const current = wholeTransactions(
    claimed.filter(
      (one) =>
        versions.get(one.row.id) === one.row.version &&
        !isStale.has(one) &&
        !one.update.payments.some((payment) => books.refuses(payment, known)) &&
        !isStopped(one),
    ),
  );
  const isCurrent = new Set<A>(current);

  const blocked = await blockPlans(tx, current);
  const { creditIds, ...money } = await writeMoney(tx, current);
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
            withEvent: eventsOf(update).length > 0,
          })),
          chainNow,
          LEASE_SECONDS,
        );
  for (const { row, update } of touched)
    if (update.state.refundedThrough !== row.refundedThrough) await endRefundedAccess(tx, row.id);
  const changes = await storeNewEvents(tx, touched, {
    written: new Map(written.map((one) => [one.id, one])),
    invoiceIds: money.invoiceIds,
  });
  const credited = await storeCreditEvents(tx, creditIds);
  return {
    written: current,
    changed: claimed.filter((one) => !isCurrent.has(one)),
    ...money,
    books,
    blocked,
    queued: new Set([...changes, ...credited]),
  };
}

/** Writes the ends of attempts, then invoices, payments and new attempts. Throws NotWritten. */
async function writeMoney(
  tx: Transaction,
  assessments: readonly ClaimedAssessment[],
): Promise<Pick<Settled<never>, 'attempts' | 'invoiceIds'> & { creditIds: string[] }> {
  const resolutions = assessments.flatMap(({ resolution }) => resolution ?? []);
  if (resolutions.length > 0) await resolveAttempts(tx, resolutions);
  const changes = assessments.flatMap(({ update: { invoices }, row: { id: subscriptionId } }) =>
    invoices.map((invoice) => ({ subscriptionId, invoice })),
  );
  const invoiceIds = await writeInvoices(tx, changes);
  const payments = assessments.flatMap(({ update }) => update.payments);
  const creditIds = payments.length === 0 ? [] : await insertPayments(tx, payments, invoiceIds);
  const signed = assessments.flatMap(({ attempt, claim: { claimId }, row }) => {
    const { id: subscriptionId, subscriptionPda } = row;
    if (attempt === undefined) return [];
    const invoiceId = attempt.invoice.id ?? invoiceIds.get(attempt.invoice);
    return [{ subscriptionId, subscriptionPda, claimId, ...attempt, invoiceId }];
  });
  const attempts =
    signed.length === 0 ? new Map<string, string>() : await insertAttempts(tx, signed);
  return { attempts, invoiceIds, creditIds };
}

/**
 * Removes each assessment whose signed transaction also pays for a subscription that is not in
 * `assessments`. A signed transaction is committed with all of its payments or not at all.
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

/** Maximum number of times that a row is assessed when the row keeps changing. */
const TRIES = 3;

/**
 * Computes assessments of rows. A row without an assessment in the result is not written, and its
 * lease is kept.
 */
export type AssessRows<A extends ClaimedAssessment> = (
  rows: readonly KeeperSubscriptionForEvents[],
  /** Recorded payments and paid periods that earlier tries have read. Empty at the first try. */
  books: Books,
) => readonly A[] | Promise<readonly A[]>;

interface SettleRowsOptions<A extends ClaimedAssessment> extends Omit<SettleOptions, 'known'> {
  readonly assess: AssessRows<A>;
  /**
   * Called with the result of each database transaction after its commit. The call happens even if
   * a later database transaction fails.
   */
  readonly onSettled?: (settled: Settled<A>) => void;
}

export interface SettledRows<A> {
  readonly written: readonly A[];
  /**
   * Ids of the rows that were not written because they kept changing. The leases of these rows are
   * kept.
   */
  readonly left: readonly string[];
  readonly queued: ReadonlySet<string>;
}

/**
 * Assesses rows and writes the assessments. If a row has changed before the write, the row is read
 * and assessed again, at most TRIES times in all.
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
    const assessments = await assess(rows, books);
    const settled = await settle(sql, assessments, { chainNow, timeline, known: books });
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
 * Turns `assess`, a pure function for one row, into AssessRows. If `assess` returns undefined, the
 * row is not written. `mark` adds to a pull what the database has recorded about the pull and its
 * period (Books.mark).
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
 * Whether the row can stay unwritten when its attempt is committed. This is so if the row has no
 * event and nothing but observedSlot would change. observedSlot is written at the end of the
 * attempt. If the row stays unwritten, the lease keeps the expiry time that the claim has set.
 */
function isUntouched({ attempt, update }: Assessment): boolean {
  const { row, state } = update;
  if (attempt === undefined || eventsOf(update).length > 0) return false;
  return (Object.keys(state) as (keyof typeof state)[]).every(
    (field) => field === 'observedSlot' || state[field] === row[field],
  );
}
