// Collecting, steps 1 to 3 of chain.md: claim what is due, read its accounts, and commit what follows from them in one transaction: events, failed
// payments, ends, and signed transactions, which then take off (flight.ts).
import { randomUUID } from 'node:crypto';
import { claimDue, type DuePlace, releaseClaims } from '../db/subscription-leases.ts';
import { type HeldSubscription, type ReadSubscription, readSubscriptions } from '../db/subscriptions.ts';
import type { Collectable, Decision } from '../domain/decision.ts';
import { timeOf, unixSeconds } from '../domain/network.ts';
import { setbackUntil } from '../domain/setbacks.ts';
import { LEASE_SECONDS, settle } from '../domain/settlement.ts';
import type { ChainClock } from './clock.ts';
import { type Closed, createClosings } from './close.ts';
import type { Context } from './context.ts';
import type { Fees } from './fees.ts';
import type { Flight } from './flight.ts';
import type { Flying } from './in-flight.ts';
import { isolating } from './isolate.ts';
import { judge, lookInto, withRecorded } from './judge.ts';
import { createLookups } from './lookups.ts';
import type { Reading } from './read.ts';
import { report } from './report.ts';
import { signCollection, signingTerms, type SigningTerms } from './sign.ts';

/** Subscriptions claimed at once: their accounts are some seven requests of 100. */
const BATCH = 200;
/** A pass over what is due begins anew after this, so that what has come back meanwhile (a lease that ran out, news) waits no longer. */
const PASS_MS = 2000;

export interface Collector {
  /** Collects one batch; resolves with true when there is probably more. Throws when chain or database cannot be reached: nothing is lost then. */
  turn(): Promise<boolean>;
  /** Gives up what goes on behind the turns. */
  stop(): Promise<void>;
}

export interface CollectorParts {
  clock: ChainClock;
  fees: Fees;
  flight: Flight;
  /** Told of every subscription that is claimed. */
  onRead?: (rows: readonly HeldSubscription[]) => void;
}

/** A collector that hands its transactions to `flight`. */
export function createCollector(context: Context, { clock, fees, flight, onRead }: CollectorParts): Collector {
  const { sql } = context;
  let after: DuePlace | undefined;
  let passedAt = -Infinity;

  /** What was committed takes off; what takes long is done beside the turns. */
  const goOn = async (claimId: string, { taken, closable, asking }: Committed) => {
    flight.add(taken);
    if (asking.length > 0) await lookups.take(claimId, asking);
    if (closable.length > 0) await closings.take(claimId, closable);
  };
  const onFault = async (claimId: string, row: ReadSubscription, error: unknown) => {
    context.metrics.alerts.inc({ reason: 'cannot_be_processed' });
    context.log.error({ err: error, subscription: row.id }, 'a subscription cannot be processed; it is tried again later');
    const until = setbackUntil(unixSeconds(await clock.now()), row.setbacks + 1);
    await releaseClaims(sql, [{ id: row.id, claimId }], { until, setback: true });
  };
  const closings = createClosings(context, fees, async (claimId, rows, closed) => {
    // However long the closing took: the lease is prolonged at once.
    await goOn(claimId, await commit(context, fees, { claimId, leasedAt: -Infinity }, rows, clock, { closed, history: false }));
  });
  const lookups = createLookups(
    context,
    clock,
    async (claimId, row) =>
      goOn(claimId, await commit(context, fees, { claimId, leasedAt: performance.now() }, [row], clock, { history: true })),
    onFault,
  );
  return {
    async stop() {
      await Promise.all([closings.stop(), lookups.stop()]);
    },
    async turn() {
      const limit = Math.min(BATCH, flight.room());
      if (limit <= 0) return false;
      const claimId = randomUUID();
      const leasedAt = performance.now();
      if (performance.now() - passedAt > PASS_MS) after = undefined;
      const due = await claimDue(sql, { claimId, chainNow: await clock.now(), limit, leaseSeconds: LEASE_SECONDS, after });
      if (after === undefined) passedAt = performance.now();
      // Behind the last one there is nothing: the next turn looks at all of them again.
      after = due.length < limit ? undefined : furthest(due, after);
      if (due.length === 0) return false;
      const ids = due.map(({ id }) => id);
      const rows = await readSubscriptions(sql, ids);
      onRead?.(rows);
      try {
        await isolating(
          rows,
          async (some) => goOn(claimId, await commit(context, fees, { claimId, leasedAt }, some, clock, { history: false })),
          (row, error) => onFault(claimId, row, error),
        );
      } catch (error) {
        // Whoever comes next does it over. When the database is gone, the leases run out by themselves.
        await releaseClaims(
          sql,
          ids.map((id) => ({ id, claimId })),
        ).catch(() => undefined);
        throw error;
      }
      return ids.length === limit;
    },
  };
}

/** The last of these in the order in which they fall due. */
function furthest(due: readonly DuePlace[], after?: DuePlace): DuePlace | undefined {
  const isBehind = (one: DuePlace, other: DuePlace) =>
    one.dueAt.getTime() === other.dueAt.getTime() ? one.id > other.id : one.dueAt > other.dueAt;
  return due.reduce<DuePlace | undefined>((last, one) => (last === undefined || isBehind(one, last) ? one : last), after);
}

/** What came of a batch: the attempts that were committed, and the rows that were left as they are. */
interface Committed {
  taken: Flying[];
  /** Their account is to be closed first. */
  closable: ReadSubscription[];
  /** What was pulled is to be looked up first. */
  asking: ReadSubscription[];
}

/** Everything between claim and take-off for one batch. `closed`: that was tried, and these are; `history`: what was pulled is looked up. */
async function commit(
  context: Context,
  fees: Fees,
  { claimId, leasedAt }: { claimId: string; leasedAt: number },
  batch: readonly ReadSubscription[],
  clock: ChainClock,
  how: { closed?: Closed; history: boolean },
): Promise<Committed> {
  const { sql } = context;
  const { reading, findings, decisions } = await lookInto(context, batch, how);
  clock.heard(reading.now);
  const judged = [...decisions].map(([row, decision]) => ({ row, decision }));
  const rowsThat = (need: Decision['needs']) => judged.filter(({ decision }) => decision.needs === need).map(({ row }) => row);
  const [rows, closable, asking] = [rowsThat(undefined), rowsThat('closing'), rowsThat('pulls')];
  if (rows.length === 0) return { taken: [], closable, asking };

  const collectable = judged.flatMap(({ row, decision: { collect } }) => (collect === undefined ? [] : [{ row, collectable: collect }]));
  const noticesOf = new Map(rows.map(({ id, notices }) => [id, notices]));
  const terms = collectable.length === 0 ? undefined : await signingTerms(context, fees, collectable);

  const committed: Flying[] = [];
  const reports: { decision: Decision }[] = [];
  const signatures = [...findings.values()].flatMap(({ pulls = [] }) => pulls.map(({ signature }) => signature));
  const settled = await settle(
    sql,
    rows.map((row) => ({ id: row.id, claimId, notices: row.notices, seen: row })),
    { chainNow: timeOf(reading.now), signatures },
    (row, isRecorded) => {
      // The very row that was judged already, and nothing to be found in the books: the decision is the same.
      const known = findings.has(row.id) ? undefined : decisions.get(row);
      const decision = known ?? judge(context, row, reading, withRecorded(findings.get(row.id), isRecorded));
      reports.push({ decision });
      if (decision.collect === undefined) return { draft: decision.draft };
      const attempt = terms === undefined ? undefined : sign(context, row, decision.collect, fees, terms);
      if (attempt === undefined) return { draft: decision.draft };
      const { periodEnd } = decision.collect;
      const notices = noticesOf.get(row.id) ?? row.notices;
      committed.push({
        id: row.id,
        claimId,
        notices,
        leasedAt,
        seen: row,
        row: { ...row, ...decision.draft.state },
        periodEnd,
        afterwards: afterwardsOf(row, reading, decision.collect),
        attempt: { id: '', subscriptionId: row.id, ...attempt },
      });
      return { draft: decision.draft, attempt };
    },
  );
  context.deliveries.notify(settled.queued);
  for (const { decision } of reports) {
    if (settled.written.has(decision.draft.row.id)) report(context, decision.draft, decision.alert?.reason, decision.alert?.detail);
  }
  const taken = committed.flatMap((one) => {
    const id = settled.attempts.get(one.id);
    return id === undefined ? [] : [{ ...one, attempt: { ...one.attempt, id } }];
  });
  return { taken, closable, asking };
}

/** What the payment alone makes of the on-chain subscription. */
function afterwardsOf(row: HeldSubscription, reading: Reading, { periodStart, amounts }: Collectable): Flying['afterwards'] {
  const view = reading.of(row);
  if (view instanceof Error || view.subscription === null) return null;
  return { address: row.subscriptionPda, account: { ...view.subscription, periodStart, amountPulled: amounts.gross } };
}

function sign(context: Context, row: HeldSubscription, collectable: NonNullable<Decision['collect']>, fees: Fees, terms: SigningTerms) {
  const { signature, bytes } = signCollection(context, row, collectable, fees, terms);
  const { amounts, periodStart } = collectable;
  return {
    periodStart: timeOf(periodStart),
    signature,
    transaction: bytes,
    lastValidBlockHeight: terms.blockhash.lastValidBlockHeight,
    amountGross: amounts.gross,
    platformFee: amounts.fee,
    amountNet: amounts.net,
  };
}
