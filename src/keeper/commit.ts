// Commits one claimed batch: reads, decides, signs, and writes each transaction with its payments
// before the first send, in the database transaction that writes what else was decided.
import { timeOf } from '../chain/time.ts';
import { readBrake } from '../db/collection-holds.ts';
import { heldUnder, releaseClaims } from '../db/subscription-leases.ts';
import {
  type HeldSubscription,
  readSubscriptions,
  type ReadSubscription,
} from '../db/subscription-work.ts';
import { Books } from '../domain/collecting/books.ts';
import { isBraked, isHeld } from '../domain/collecting/brake.ts';
import type { Collectable, Decision } from '../domain/collecting/decision.ts';
import { heldUntil } from '../domain/collecting/keeper-backoff.ts';
import { type Assessment, settle } from '../domain/collecting/settlement.ts';
import { assess, assessAll, withBooks } from './assess.ts';
import type { Closed } from './close.ts';
import type { OpenAttempt } from './in-flight.ts';
import type { Context } from './preflight.ts';
import { report, reportBlocked } from './reports.ts';
import { withinFunds } from './shared-funds.ts';
import type { Signer, Terms } from './signer.ts';
import { afterSimulation } from './simulate.ts';
import type { Snapshot } from './snapshot.ts';

/** How often a row is assessed that keeps changing while it is signed for. */
const TRIES = 3;

/** What became of a batch. */
export interface Committed {
  /** Committed payments. */
  taken: OpenAttempt[];
  /** Rows whose on-chain account must be closed first. */
  closable: ReadSubscription[];
  /** Rows whose pulls must be looked up first. */
  asking: ReadSubscription[];
  /** What was decided, as it was written. */
  written: HeldSubscription[];
}

/**
 * Reads, decides, signs and commits one claimed batch. `closed`: closing was tried, and these
 * accounts are closed; `history`: pulls are looked up on chain. Throws when chain or database
 * cannot be reached; the claims are held still.
 */
export async function commit(
  context: Context,
  signer: Signer,
  lease: { claimId: string; leasedAt: number },
  batch: readonly ReadSubscription[],
  how: { closed?: Closed; history: boolean },
): Promise<Committed> {
  const { sql, clock } = context;
  const { snapshot, decisions, decide, timeline, isStopped } = await read(context, batch, how);
  clock.observe(snapshot.now);
  const held = batch.filter((row) => isStopped(row, decisions.get(row)));
  const rowsThat = (need: Decision['needs']) =>
    batch.filter((row) => decisions.get(row)?.needs === need && !held.includes(row));
  const taken: OpenAttempt[] = [];
  const written: HeldSubscription[] = [];
  const books = new Books();
  const noticesOf = new Map(batch.map(({ id, notices }) => [id, notices]));
  let rows = rowsThat(undefined);
  const left = new Set(rows.map(({ id }) => id));
  let terms: Terms | undefined;
  const round = async () => {
    const alone = rows
      .map((row) => ({ row, decision: decide(row, books) }))
      .filter(({ row, decision }) => !isStopped(row, decision));
    const decided = withinFunds(alone, taken, (row) => snapshot.of(row));
    const due = decided.flatMap(({ row, decision: { collect } }) =>
      collect === undefined ? [] : [{ row, collect }],
    );
    if (due.length > 0) terms ??= await signer.terms(due);
    const attempts = terms === undefined ? undefined : attemptsOf(signer.sign(due, terms), terms);
    const simulated = await afterSimulation(context, decided, snapshot, attempts);
    const assessments = simulated.flatMap(({ row, decision }) => {
      const claim = { id: row.id, claimId: lease.claimId, notices: noticesOf.get(row.id) ?? 0 };
      const attempt = decision.collect && attempts?.get(row.id);
      // A row that changed may need a look-up now: the next claim makes it.
      if (decision.needs !== undefined) return [];
      const { draft, blocks } = decision;
      return [{ claim, row, decision, draft, blocks, ...(attempt && { attempt }) }];
    });
    const settled = await settle(sql, assessments, timeOf(snapshot.now), timeline);
    context.deliveries.notify(settled.queued);
    for (const one of settled.written) {
      const row = { ...one.row, ...one.draft.state };
      left.delete(row.id);
      written.push(row);
      report(context, one.draft, one.decision.alert?.reason, one.decision.alert?.detail);
      taken.push(...openAttempt({ ...one, row }, settled.attempts, snapshot, lease.leasedAt));
    }
    for (const one of settled.blocked) reportBlocked(context, one);
    books.include(settled.books);
    const ids = settled.changed.map(({ row }) => row.id);
    rows = ids.length === 0 ? [] : await readSubscriptions(sql, ids);
  };
  try {
    for (let tries = 0; rows.length > 0 && tries < TRIES; tries += 1) await round();
  } catch (error) {
    // What is committed goes on; the rest is claimed again.
    if (taken.length === 0) throw error;
    context.log.warn({ err: error }, 'part of a batch was not signed');
  }
  const released = (some: readonly ReadSubscription[], until?: Date) =>
    releaseClaims(sql, heldUnder(lease.claimId, some), { ...(until && { until }) });
  const unwritten = batch.filter(({ id }) => left.has(id));
  if (unwritten.length > 0) await released(unwritten);
  if (held.length > 0) await released(held, heldUntil(snapshot.now));
  return { taken, closable: rowsThat('closing'), asking: rowsThat('pulls'), written };
}

/**
 * Reads and decides. `decide` takes what the books are known to have by now; `isStopped`:
 * collection is held, and with it this decision.
 */
async function read(
  context: Context,
  batch: readonly ReadSubscription[],
  how: { closed?: Closed; history: boolean },
) {
  // Before the accounts: what is decided from them is only signed on this timeline of Postgres.
  const brake = await readBrake(context.sql);
  const minSlot = brake.readsFromSlot;
  const { snapshot, findings, decisions } = await assessAll(context, batch, { ...how, minSlot });
  const isStopped = (row: ReadSubscription, decision: Decision | undefined) =>
    decision !== undefined && isBraked(decision) && isHeld(brake, row);
  const decide = (row: ReadSubscription, books: Books) => {
    const known = findings.get(row.id);
    // The same row without findings leads to the same decision.
    const earlier = known === undefined ? decisions.get(row) : undefined;
    return earlier ?? assess(context, row, snapshot, withBooks(known, row, books));
  };
  return { snapshot, decisions, decide, timeline: brake.timeline, isStopped };
}

type NewAttempt = NonNullable<Assessment['attempt']>;

/** The attempts of signed transactions, by subscription. */
function attemptsOf(
  transactions: ReturnType<Signer['sign']>,
  { blockhash }: Terms,
): Map<string, NewAttempt> {
  return new Map(
    transactions.flatMap(({ payments, signed }) =>
      payments.map(({ row, collect }, position): [string, NewAttempt] => [
        row.id,
        {
          position,
          payments: payments.length,
          periodStart: timeOf(collect.periodStart),
          signature: signed.signature,
          transaction: signed.bytes,
          lastValidBlockHeight: blockhash.lastValidBlockHeight,
          blockhashSlot: blockhash.slot,
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
 * The committed payment of an assessment, whose row is as it was written; nothing where it had
 * none.
 */
function openAttempt(
  { row, decision, attempt, claim }: Assessment & { decision: Decision },
  ids: ReadonlyMap<string, string>,
  snapshot: Snapshot,
  leasedAt: number,
): OpenAttempt[] {
  const id = ids.get(row.id);
  if (attempt === undefined || decision.collect === undefined || id === undefined) return [];
  return [
    {
      ...claim,
      leasedAt,
      row,
      periodEnd: decision.collect.periodEnd,
      afterwards: afterwardsOf(row, snapshot, decision.collect),
      attempt: { id, subscriptionId: row.id, ...attempt },
    },
  ];
}

/** The on-chain subscription after this payment and nothing else. */
function afterwardsOf(
  row: HeldSubscription,
  snapshot: Snapshot,
  { periodStart, amounts }: Collectable,
): OpenAttempt['afterwards'] {
  const view = snapshot.of(row);
  if (view instanceof Error || view.subscription === null) return null;
  return {
    address: row.subscriptionPda,
    account: { ...view.subscription, periodStart, amountPulled: amounts.gross },
  };
}
