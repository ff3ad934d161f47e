// Finds payments on chain that were never recorded. Reports (1) pulled payments without a record,
// (2) unreadable transactions. With `repair`, records the payments of (1).
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { timeOf } from '../../../chain/time.ts';
import { readPulled } from '../../../db/money/payments.ts';
import {
  findOwner,
  findPulledFrom,
  listKnown,
  readFeeBps,
} from '../../../db/operating/reconciliation.ts';
import type { Sql } from '../../../db/postgres/connect.ts';
import { claimOne } from '../../../db/subscriptions/leases.ts';
import { readSubscriptions } from '../../../db/subscriptions/work.ts';
import type { Pull } from '../../../domain/collecting/chain-view.ts';
import type { Difference, PlanPull } from '../../../domain/collecting/differences.ts';
import { isLeftToReconcile, recordPull } from '../../../domain/collecting/pulls.ts';
import { rowByRow, settleRows } from '../../../domain/collecting/settlement.ts';
import { updateOf, isLive } from '../../../domain/collecting/transitions.ts';
import { split } from '../../../domain/money.ts';
import { chunks } from '../../../each.ts';
import { keyOf } from './on-chain.ts';

const PAGE = 500;

interface Repair {
  repair: boolean;
  /** Base URL of the pages. */
  publicUrl: string;
  /** Signatures of recorded payments that are missing on chain. */
  unfounded: ReadonlySet<string>;
}

/**
 * Returns a difference for each pull that is not recorded and belongs to no open payment attempt.
 * With `repair`, records these pulls, oldest first.
 */
export async function compareOnChain(
  sql: Sql,
  pulls: readonly PlanPull[],
  how: Repair,
): Promise<Difference[]> {
  const differences: Difference[] = [];
  const oldestFirst = [...pulls].sort((a, b) => Number(a.pull.at - b.pull.at));
  for (const page of chunks(oldestFirst, PAGE)) {
    const recorded = await listKnown(
      sql,
      page.map(({ pull }) => pull.signature),
    );
    const have = new Set(recorded.map(keyOf));
    for (const one of page)
      if (!have.has(keyOf({ ...one, signature: one.pull.signature }))) {
        const difference = await missing(sql, one, how);
        if (difference !== undefined) differences.push(difference);
      }
  }
  return differences;
}

/**
 * Returns the difference of one unrecorded pull. With `repair`, records the pull first. Returns
 * undefined for a pull of another puller from an account that was not registered then, because its
 * merchant collects from it without this service.
 */
async function missing(
  sql: Sql,
  { subscriptionPda, pull }: PlanPull,
  { repair, publicUrl, unfounded }: Repair,
): Promise<Difference | undefined> {
  const { signature, source } = pull;
  const periodStart = timeOf(pull.periodStart);
  const puller = source === 'keeper' ? 'the keeper' : 'another puller';
  const moved = `${puller} pulled ${pull.gross.toString()} for the period from ${periodStart.toISOString()}`;
  const about = { signature, subscriptionPda };
  const owner =
    source === 'keeper'
      ? await findOwner(sql, subscriptionPda, signature)
      : await findPulledFrom(sql, subscriptionPda, periodStart);
  if (owner === undefined) {
    if (source === 'foreign') return undefined;
    const detail = `${moved}, and no subscription is registered`;
    return { ...about, kind: 'no_subscription', detail, repaired: false };
  }
  const recorded = await readPulled(sql, [{ subscriptionPda, periodStart }]);
  // If a recorded payment for this period is missing on chain, the pull is not recorded. An
  // operator decides which of the two payments is right.
  const isDoubtful = recorded.some(({ txSignature }) => unfounded.has(txSignature));
  const repaired = repair && !isDoubtful && (await record(sql, owner.id, pull));
  const { planId, subscriberWallet, committedAt } = owner;
  const isAfterEnd = isLeftToReconcile(owner, { source, committedAt });
  const page = `${publicUrl}/s/${planId}`;
  const detail = isAfterEnd
    ? `${moved} after the subscription had ended, and it is not recorded: if wallet ${subscriberWallet} has subscribed again, it has to register on ${page}`
    : `${moved}, and it is not recorded`;
  const [paid] = isDoubtful ? [] : recorded;
  const kind = isAfterEnd ? 'after_end' : 'not_recorded';
  if (paid === undefined || source === 'foreign') return { ...about, kind, detail, repaired };
  const twice = `${detail}; ${paid.txSignature} paid this period`;
  return { ...about, kind: 'charged_twice', detail: twice, repaired };
}

/**
 * Returns a difference for each unreadable transaction. Leaves out recorded transactions, because
 * they are already reported. Leaves out transactions with an open attempt, because they are in
 * flight.
 */
export async function nameUnknown(sql: Sql, unreadable: readonly string[]): Promise<Difference[]> {
  const recorded = new Set((await listKnown(sql, unreadable)).map(({ signature }) => signature));
  return unreadable
    .filter((signature) => !recorded.has(signature))
    .map((signature) => ({
      kind: 'unreadable',
      signature,
      subscriptionPda: '',
      detail:
        'it names the keeper or a plan and succeeded, but no RPC endpoint returns it readable: it may be a payment that is not recorded',
      repaired: false,
    }));
}

/**
 * Records one pull with its event. If the period was already paid, there is no event. Returns false
 * when nothing was recorded, for example because a keeper held the subscription's lease for a whole
 * minute.
 */
async function record(sql: Sql, id: string, pull: Pull): Promise<boolean> {
  const claimId = randomUUID();
  for (let tries = 0; !(await claimOne(sql, { id, claimId }, 30)); tries += 1) {
    if (tries >= 60) return false;
    await pause(1000);
  }
  const feeBps = await readFeeBps(sql);
  const { written } = await settleRows(sql, await readSubscriptions(sql, [id]), {
    chainNow: timeOf(pull.at),
    assess: rowByRow([{ id, claimId, notices: 0 }], (row, mark) => {
      const update = updateOf(row);
      recordPull(update, mark(withFee(pull, row.feeBps ?? feeBps)), timeOf(pull.periodEnd));
      // The subscription becomes due at once, so that a keeper soon works on the subscription and
      // updates the rest of its state.
      if (isLive(update.state)) update.state.dueAt = timeOf(pull.at);
      return { update };
    }),
  });
  return written.length > 0;
}

/** Adds the owed fee to a pull of another puller. */
const withFee = (pull: Pull, feeBps: number): Pull =>
  pull.source === 'foreign' ? { ...pull, feeOwed: split(pull.gross, feeBps).fee } : pull;
