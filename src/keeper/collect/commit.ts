// Commits one batch of claimed subscriptions: reads their accounts, decides about each subscription
// and signs the due payments. The signed transactions and all decisions are written to Postgres
// before the first send.
import { newestSlot } from '../../chain/rpc/responses.ts';
import { timeOf } from '../../chain/time.ts';
import { readBrake } from '../../db/operating/collection-holds.ts';
import { claimKeysOf, releaseClaims } from '../../db/subscriptions/leases.ts';
import {
  type KeeperSubscription,
  type KeeperSubscriptionForEvents,
} from '../../db/subscriptions/work.ts';
import type { Books } from '../../domain/collecting/books.ts';
import { isBraked } from '../../domain/collecting/brake.ts';
import type { Collectable, Decision } from '../../domain/collecting/decision.ts';
import { noteTried } from '../../domain/collecting/due-invoice.ts';
import { heldUntil } from '../../domain/collecting/keeper-backoff.ts';
import {
  type Assessment,
  type ClaimedAssessment,
  type Settled,
  settleRows,
} from '../../domain/collecting/settlement.ts';
import type { Context } from '../base/context.ts';
import type { Snapshot } from '../read/snapshot.ts';
import { type InFlightPayment, newPayment } from '../track/in-flight.ts';
import { report, reportBlocked } from '../track/reports.ts';
import { assess, assessAll, withBooks } from './assess.ts';
import { type ClockWitness, withWitnessedClock } from './clock-witness.ts';
import type { Closed } from './close.ts';
import { withinFunds } from './shared-funds.ts';
import type { Signer, SigningTerms } from './signer.ts';
import { afterSimulation } from './simulate.ts';

/** The result of committing a batch. */
export interface Committed {
  /** Payments that were signed and written to Postgres. */
  payments: InFlightPayment[];
  /**
   * Subscriptions whose on-chain account must be closed before the keeper can decide about them.
   */
  closable: KeeperSubscriptionForEvents[];
  /**
   * Subscriptions whose pulls must be looked up on chain before the keeper can decide about them.
   */
  lookups: KeeperSubscriptionForEvents[];
  /** The subscription rows as they were written to Postgres. */
  written: KeeperSubscription[];
}

interface Lease {
  readonly claimId: string;
  readonly leasedAt: number;
}

/**
 * Reads, decides, signs and commits one claimed batch. `closed` lists the accounts that the keeper
 * has just closed. With `history`, past pulls are also looked up on chain. Throws when the chain or
 * the database cannot be reached; the batch then stays claimed.
 */
export async function commit(
  context: Context,
  signing: Signing,
  lease: Lease,
  batch: readonly KeeperSubscriptionForEvents[],
  how: { closed?: Closed; history: boolean },
): Promise<Committed> {
  const { sql, clock, log } = context;
  const found = await read(context, batch, how);
  const { snapshot, decisions, timeline, isStopped } = found;
  clock.observe(snapshot.now);
  const stopped = batch.filter((row) => isStopped(row, decisions.get(row)));
  const rowsThat = (need: Decision['needs']) =>
    batch.filter((row) => decisions.get(row)?.needs === need && !stopped.includes(row));
  const decidable = rowsThat(undefined);
  const settlement = new BatchSettlement(context, signing, lease, { batch, found });
  try {
    await settleRows(sql, decidable, {
      chainNow: timeOf(snapshot.now),
      timeline,
      assess: (rows, books) => settlement.assess(rows, books),
      onSettled: (settled) => settlement.record(settled),
    });
  } catch (error) {
    // Payments that were committed before the error are returned and sent. The claims of the other
    // rows are released, so that these rows can be claimed again.
    if (settlement.payments.length === 0) throw error;
    log.warn({ err: error }, 'part of a batch was not signed');
  }
  const { payments, written } = settlement;
  const isWritten = new Set(written.map(({ id }) => id));
  const unwritten = decidable.filter(({ id }) => !isWritten.has(id));
  await release(context, lease.claimId, unwritten);
  await release(context, lease.claimId, stopped, heldUntil(snapshot.now));
  return { payments, closable: rowsThat('closing'), lookups: rowsThat('pulls'), written };
}

interface Signing {
  readonly signer: Signer;
  readonly clocks: ClockWitness;
}

type Row = KeeperSubscriptionForEvents;

/**
 * Signs and writes one batch. The rows are settled in several database transactions. This class
 * collects their results.
 */
class BatchSettlement {
  readonly #context: Context;
  readonly #signing: Signing;
  readonly #lease: Lease;
  readonly #found: BatchReads;
  /** Number of notices at the claim, by subscription id. A row that is read again may have more. */
  readonly #claimedNotices: ReadonlyMap<string, number>;
  /** Terms for signing. Read when the batch has its first payment. */
  #terms: SigningTerms | undefined;
  /** Payments that were signed and written to Postgres. */
  readonly payments: InFlightPayment[] = [];
  /** The subscription rows as they were written to Postgres. */
  readonly written: KeeperSubscription[] = [];

  constructor(
    context: Context,
    signing: Signing,
    lease: Lease,
    { batch, found }: { batch: readonly Row[]; found: BatchReads },
  ) {
    this.#context = context;
    this.#signing = signing;
    this.#lease = lease;
    this.#found = found;
    this.#claimedNotices = new Map(batch.map(({ id, notices }) => [id, notices]));
  }

  /** Decides about the rows with the pulls that are recorded so far, and signs the due payments. */
  async assess(
    rows: readonly Row[],
    books: Books,
  ): Promise<(ClaimedAssessment & { decision: Decision })[]> {
    const { snapshot, decide, isStopped } = this.#found;
    const decisions = rows
      .map((row) => ({ row, decision: decide(row, books) }))
      .filter(({ row, decision }) => !isStopped(row, decision));
    const viewOf = (row: KeeperSubscription) => snapshot.of(row);
    const timely = await withWitnessedClock(this.#signing.clocks, decisions, viewOf);
    const decided = withinFunds(timely, this.payments, viewOf);
    const attempts = await this.#sign(decided);
    const simulated = await afterSimulation(this.#context, decided, snapshot, attempts);
    return simulated.flatMap(({ row, decision }) => {
      // A subscription that changed after it was claimed may now need a look-up of pulls. The
      // look-up is made when the subscription is claimed the next time.
      if (decision.needs !== undefined) return [];
      const attempt = decision.collect && attempts?.get(row.id);
      const notices = this.#claimedNotices.get(row.id) ?? 0;
      const claim = { id: row.id, claimId: this.#lease.claimId, notices };
      return [{ claim, row, decision, ...assessmentOf(decision, snapshot.now, attempt) }];
    });
  }

  async #sign(decided: readonly { row: Row; decision: Decision }[]) {
    const { signer } = this.#signing;
    const due = decided.flatMap(({ row, decision: { collect } }) =>
      collect === undefined ? [] : [{ row, collect }],
    );
    if (due.length > 0) this.#terms ??= await signer.terms(due);
    const terms = this.#terms;
    return terms && attemptsOf(signer.sign(due, terms), terms, this.#found.snapshot.slot);
  }

  /** Adds the results of one database transaction. */
  record(settled: Settled<ClaimedAssessment & { decision: Decision }>): void {
    this.#context.deliveries.notify(settled.queued);
    for (const one of settled.written) {
      // While an attempt is open, no other invoice is (KeeperSubscription.invoice).
      const invoice = one.attempt === undefined ? one.row.invoice : null;
      const row = { ...one.row, ...one.update.state, invoice };
      this.written.push(row);
      report(this.#context, one.update, one.decision.alert?.reason, one.decision.alert?.detail);
      const { snapshot } = this.#found;
      const { leasedAt } = this.#lease;
      this.payments.push(...inFlightPayment({ ...one, row }, settled, snapshot, leasedAt));
    }
    for (const one of settled.blocked) reportBlocked(this.#context, one);
  }
}

/** Releases the claims of these rows. With `until`, they are due again at that time. */
async function release(
  { sql }: Context,
  claimId: string,
  rows: readonly Row[],
  until?: Date,
): Promise<void> {
  if (rows.length > 0)
    await releaseClaims(sql, claimKeysOf(claimId, rows), { ...(until && { until }) });
}

/**
 * Reads the accounts and decides about the batch. The result has two functions. `decide` repeats
 * the decision about one subscription with the pulls that the database has recorded by now.
 * `isStopped` tells whether a hold on collection or a suspension forbids a payment.
 */
async function read(
  context: Context,
  batch: readonly KeeperSubscriptionForEvents[],
  how: { closed?: Closed; history: boolean },
) {
  // The timeline of Postgres is read before the accounts. A payment decided from these accounts is
  // committed only if Postgres is still on the same timeline.
  const brake = await readBrake(context.sql, batch);
  const minSlot = brake.readsFromSlot;
  const { snapshot, lookups, decisions } = await assessAll(context, batch, { ...how, minSlot });
  const isStopped = (row: KeeperSubscriptionForEvents, decision: Decision | undefined) =>
    decision !== undefined && isBraked(brake, decision, row);
  const decide = (row: KeeperSubscriptionForEvents, books: Books) => {
    const lookup = lookups.get(row.id);
    // A decision that used lookup results is repeated, because the database may have recorded more
    // pulls since. A decision without lookup results is still valid.
    const earlier = lookup === undefined ? decisions.get(row) : undefined;
    return earlier ?? assess(context, row, snapshot, withBooks(lookup, row, books));
  };
  return { snapshot, decisions, decide, timeline: brake.timeline, isStopped };
}

type BatchReads = Awaited<ReturnType<typeof read>>;

type NewAttempt = NonNullable<ClaimedAssessment['attempt']>;

/**
 * Returns the changes to write. A payment counts as tried, and its invoice as drawn up, only with
 * the committed attempt.
 */
function assessmentOf(
  { update, blocks, collect }: Decision,
  now: bigint,
  attempt?: NewAttempt,
): Assessment {
  if (attempt === undefined || collect === undefined) return { update, blocks };
  const { invoice } = collect;
  const invoices = [...update.invoices, ...(invoice.id === null ? [invoice] : [])];
  const tried = { ...update, state: { ...update.state }, invoices };
  noteTried(tried, collect, now);
  return { update: tried, blocks, attempt };
}

/**
 * Returns the attempts to write for the signed transactions, by subscription id. `readAt` is the
 * slot of the accounts. Nothing was signed before it, so it corrects a blockhash slot that an
 * endpoint reported too low.
 */
function attemptsOf(
  transactions: ReturnType<Signer['sign']>,
  { blockhash }: SigningTerms,
  readAt: bigint,
): Map<string, NewAttempt> {
  return new Map(
    transactions.flatMap(({ payments, signed }) =>
      payments.map(({ row, collect }, position): [string, NewAttempt] => [
        row.id,
        {
          invoice: collect.invoice,
          position,
          payments: payments.length,
          periodStart: timeOf(collect.periodStart),
          signature: signed.signature,
          transaction: signed.bytes,
          lastValidBlockHeight: blockhash.lastValidBlockHeight,
          blockhashSlot: newestSlot([blockhash.slot, readAt]),
          amountGross: collect.amounts.gross,
          platformFee: collect.amounts.fee,
          amountNet: collect.amounts.net,
          feeOwed: collect.feeOwed,
        },
      ]),
    ),
  );
}

/**
 * Returns the payment that was committed for this assessment, or an empty list when no payment was
 * committed. `row` is the subscription row as it was written to Postgres.
 */
function inFlightPayment(
  { row, decision, attempt, claim }: ClaimedAssessment & { decision: Decision },
  { attempts, invoiceIds }: Pick<Settled<ClaimedAssessment>, 'attempts' | 'invoiceIds'>,
  snapshot: Snapshot,
  leasedAt: number,
): InFlightPayment[] {
  const id = attempts.get(row.id);
  if (attempt === undefined || decision.collect === undefined || id === undefined) return [];
  const invoiceId = invoiceIds.get(attempt.invoice) ?? attempt.invoice.id;
  const invoice = { ...attempt.invoice, id: invoiceId, customerId: row.customerId };
  return [
    newPayment({
      ...claim,
      leasedAt,
      row,
      periodEnd: decision.collect.periodEnd,
      expectedAccount: expectedAccountOf(row, snapshot, decision.collect),
      attempt: { id, subscriptionId: row.id, ...attempt, invoice },
    }),
  ];
}

/**
 * Returns the on-chain subscription as it will be after this payment if nothing else changes the
 * account.
 */
function expectedAccountOf(
  row: KeeperSubscription,
  snapshot: Snapshot,
  { periodStart, amounts }: Collectable,
): InFlightPayment['expectedAccount'] {
  const view = snapshot.of(row);
  if (view instanceof Error || view.subscription === null) return null;
  return {
    address: row.subscriptionPda,
    account: { ...view.subscription, periodStart, amountPulled: amounts.gross },
  };
}
