// Steps 5 and 6 of collecting (chain.md): attempts whose end is final are settled in batches, each batch in one transaction.
import { classifyPullError, describeTransactionError } from '../chain/errors.ts';
import { pullPeriod } from '../chain/period.ts';
import type { SignatureStatus } from '../chain/answers.ts';
import type { ReadOptions } from '../chain/rpc.ts';
import { type HeldSubscription, readSubscriptions } from '../db/subscriptions.ts';
import type { Pull } from '../domain/chain-view.ts';
import { sameInstance } from '../domain/decide.ts';
import { hasUnknownPull } from '../domain/found-pulls.ts';
import { timeOf, unixSeconds } from '../domain/network.ts';
import { settle } from '../domain/settlement.ts';
import type { Draft } from '../domain/transitions.ts';
import { each } from '../each.ts';
import { createBlockTimes } from './block-times.ts';
import type { Context } from './context.ts';
import { type End, outcomeOf } from './end.ts';
import type { Fees } from './fees.ts';
import type { Flying } from './in-flight.ts';
import { findPulls, partiesOf, pullsIn } from './pulls.ts';
import { type Reading, readViews, type View } from './read.ts';
import { report } from './report.ts';
import { anatomyOf } from './sign.ts';

export interface Landing {
  /** Settles attempts that are final on chain, landed or failed; returns those that are done with (or not ours any more). */
  landed(batch: readonly (Flying & { status: SignatureStatus })[]): Promise<Flying[]>;
  /** Of attempts that no endpoint has seen, settles those that can never land any more; returns those that are done with. */
  expired(batch: readonly Flying[]): Promise<Flying[]>;
}

/** Transactions of a batch that are looked up at once. */
const LOOKUPS_AT_ONCE = 16;

/**
 * What a transaction of ours moved: the period as the chain's event has it, fee and net as they were signed. The events do not tell the two apart
 * where the merchant is the treasury, nor that it is ours where another key of ours signed it.
 */
const asSigned = (pull: Pull, { amountGross, platformFee: fee, amountNet: net }: Flying['attempt']): Pull =>
  pull.gross === amountGross ? { ...pull, fee, net, source: 'keeper' } : pull;

/** Settles for `context`; `fees` learns of exceeded compute limits. */
export function createLanding(context: Context, fees: Fees): Landing {
  const { sql, rpc, log } = context;
  const blockTimes = createBlockTimes(rpc);

  /**
   * What a landed transaction moved. It is atomic: it moved exactly what it says, under this subscription. Which period that was is certain
   * without asking further when the account, read later, still counts that very period: a period start never goes back. Anything else is read
   * from the transaction's own events. Undefined when no endpoint has the transaction yet.
   */
  async function pullOf(
    one: Flying & { status: SignatureStatus },
    row: HeldSubscription,
    view: View,
    times: ReadonlyMap<bigint, bigint>,
  ): Promise<Pull | undefined> {
    const { attempt, periodEnd } = one;
    const { amountGross: gross, platformFee: fee, amountNet: net, signature } = attempt;
    const periodStart = unixSeconds(attempt.periodStart);
    if (periodEnd !== null && !(view instanceof Error)) {
      const account = sameInstance(row, view.subscription);
      if (
        account?.periodStart === periodStart &&
        account.amountPulled >= gross &&
        pullPeriod(account, view.plan, periodStart).end === periodEnd
      ) {
        return { signature, at: times.get(one.status.slot) ?? view.now, periodStart, periodEnd, gross, fee, net, source: 'keeper' };
      }
    }
    const transaction = await rpc.getTransaction(signature, { commitment: 'finalized' });
    const pull = transaction === null ? undefined : pullsIn(transaction, partiesOf(context, row))[0];
    return pull && asSigned(pull, attempt);
  }

  /** Of what landed only the period matters; a failure is explained by the other accounts too. */
  async function readAfter(
    batch: readonly (Flying & { status: SignatureStatus })[],
    rows: ReadonlyMap<string, HeldSubscription>,
    options: ReadOptions,
  ): Promise<Reading> {
    const failed = new Set(batch.flatMap(({ id, status }) => (status.err === null ? [] : [id])));
    const some = [...rows.values()].filter(({ id }) => failed.has(id));
    const others = [...rows.values()].filter(({ id }) => !failed.has(id));
    if (some.length === 0) return readViews(context, others, { ...options, periodsOnly: true });
    const [all, periods] = await Promise.all([
      readViews(context, some, options),
      readViews(context, others, { ...options, periodsOnly: true }),
    ]);
    return { ...(all.now < periods.now ? all : periods), of: (row) => (failed.has(row.id) ? all : periods).of(row) };
  }

  /**
   * The end of a payment that landed. In a later period than it was signed for, it leaves periods behind that somebody else may have pulled since the
   * accounts were read, and the account tells only of the last. Undefined while no endpoint's history is complete up to the payment itself.
   */
  async function paid({ attempt }: Flying, row: HeldSubscription, pull: Pull): Promise<End | undefined> {
    const signedFor = unixSeconds(attempt.periodStart);
    if (pull.periodStart <= signedFor) return { kind: 'paid', pull, earlier: [] };
    const found = await findPulls(rpc, partiesOf(context, row), signedFor);
    if (found === undefined || !found.some(({ signature }) => signature === pull.signature)) return undefined;
    return { kind: 'paid', pull, earlier: found.filter(({ periodStart }) => periodStart < pull.periodStart).reverse() };
  }

  async function conclude(batch: readonly Flying[], reading: Reading, ends: Map<string, End>): Promise<Flying[]> {
    const concluded = batch.filter(({ id }) => ends.has(id));
    if (concluded.length === 0) return [];
    const byId = new Map(concluded.map((one) => [one.id, one]));
    const drafts: { draft: Draft; alert: string | undefined }[] = [];
    const signatures = [...ends.values()].flatMap((end) =>
      end.kind === 'paid' ? [...end.earlier, end.pull].map((pull) => pull.signature) : [],
    );
    const settled = await settle(sql, concluded, { chainNow: timeOf(reading.now), signatures }, (row, isRecorded) => {
      const one = byId.get(row.id);
      const end = ends.get(row.id);
      if (one === undefined || end === undefined) return undefined;
      const outcome = outcomeOf(context, fees, row, one, end, { view: reading.of(row), now: reading.now, isRecorded });
      drafts.push({ draft: outcome.draft, alert: outcome.alert });
      return outcome;
    });
    context.deliveries.notify(settled.queued);
    for (const { draft, alert } of drafts) if (settled.written.has(draft.row.id)) report(context, draft, alert);
    return concluded;
  }

  return {
    async landed(batch) {
      const rows = new Map(batch.map(({ row }) => [row.id, row]));
      const minSlot = batch.reduce((highest, { status }) => (status.slot > highest ? status.slot : highest), 0n);
      const [reading, times] = await Promise.all([
        readAfter(batch, rows, { commitment: 'finalized', minSlot }),
        blockTimes(batch.flatMap(({ status, periodEnd }) => (status.err === null && periodEnd !== null ? [status.slot] : []))),
      ]);
      const ends = new Map<string, End>();
      await each(batch, LOOKUPS_AT_ONCE, async (one) => {
        const { row } = one;
        const view = reading.of(row);
        if (one.status.err === null) {
          const pull = await pullOf(one, row, view, times);
          const end = pull && (await paid(one, row, pull));
          if (end === undefined)
            log.warn({ signature: one.attempt.signature }, 'a payment is final, but no RPC endpoint has its transaction yet');
          else ends.set(one.id, end);
          return;
        }
        const failure = classifyPullError(one.status.err, {
          layout: anatomyOf(one.attempt).layout,
          logs: null,
          gross: one.attempt.amountGross,
          subscriberAccount: view instanceof Error ? undefined : view.subscriberTokens,
        });
        ends.set(one.id, { kind: 'failed', failure, error: describeTransactionError(one.status.err) });
      });
      return conclude(batch, reading, ends);
    },

    async expired(batch) {
      // The order matters: what the finalized height rules out cannot land after it, and the signatures are looked up after that.
      const { slot, blockHeight } = await rpc.getHeight({ commitment: 'finalized' });
      const past = batch.filter(({ attempt }) => attempt.lastValidBlockHeight < blockHeight).slice(0, 256);
      if (past.length === 0) return [];
      const { statuses } = await rpc.getSignatureStatuses(
        past.map(({ attempt }) => attempt.signature),
        { history: true, everywhere: true, minSlot: slot },
      );
      const unknown = past.filter((_, place) => statuses[place] === null);
      if (unknown.length === 0) return [];
      const rows = new Map(
        (
          await readSubscriptions(
            sql,
            unknown.map(({ id }) => id),
          )
        ).map((row) => [row.id, row]),
      );
      const reading = await readViews(context, [...rows.values()], { commitment: 'finalized', minSlot: slot });
      const ends = new Map<string, End>();
      await each(unknown, LOOKUPS_AT_ONCE, async (one) => {
        const row = rows.get(one.id);
        const end = row && (await endOfUnknown(one, row, reading.of(row)));
        if (end !== undefined) ends.set(one.id, end);
      });
      return conclude(unknown, reading, ends);
    },
  };

  /** Expired when the account shows that nothing was pulled; otherwise the pull's own signature tells whose it was. */
  async function endOfUnknown(one: Flying, row: HeldSubscription, view: View): Promise<End | undefined> {
    if (view instanceof Error) return undefined;
    const account = sameInstance(row, view.subscription);
    if (account !== null && !hasUnknownPull(row, account)) return { kind: 'expired' };
    const pulls = await findPulls(rpc, partiesOf(context, row), unixSeconds(one.attempt.periodStart));
    if (pulls === undefined) return undefined;
    const ours = pulls.find(({ signature }) => signature === one.attempt.signature);
    if (ours !== undefined) return paid(one, row, asSigned(ours, one.attempt));
    // What the account still counts is of a period before: the attempt's own would have moved it on.
    const isBefore = account !== null && account.periodStart < unixSeconds(one.attempt.periodStart);
    if (account === null || isBefore || pulls.length > 0) return { kind: 'expired' };
    log.warn({ signature: one.attempt.signature }, 'something was pulled and no RPC endpoint tells by which transaction: waiting');
    return undefined;
  }
}
