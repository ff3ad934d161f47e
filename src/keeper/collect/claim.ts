// Claims due subscriptions and takes over open attempts whose claim expired. commit.ts commits a
// claimed batch, and the tracker sends the committed payments.
import { randomUUID } from 'node:crypto';
import { unixSeconds } from '../../chain/time.ts';
import { readOpenAttempts } from '../../db/money/payment-attempts.ts';
import {
  claimKeysOf,
  claimDue,
  claimOrphans,
  type DuePlace,
  readNextDue,
  releaseClaims,
} from '../../db/subscriptions/leases.ts';
import {
  type KeeperSubscriptionForEvents,
  readSubscriptions,
} from '../../db/subscriptions/work.ts';
import { keeperRetryAt } from '../../domain/collecting/keeper-backoff.ts';
import { LEASE_SECONDS } from '../../domain/collecting/settlement.ts';
import type { Context } from '../base/context.ts';
import { splitBatch } from '../base/split-batch.ts';
import { newPayment, type Queue } from '../track/in-flight.ts';
import { ClockWitness } from './clock-witness.ts';
import { type Closed, closeAccounts, MAX_CLOSINGS } from './close.ts';
import { commit } from './commit.ts';
import { SideQueue, type SideWork } from './side-queue.ts';
import type { Signer } from './signer.ts';

/**
 * Maximum number of subscriptions in a claimed batch. Reading the accounts of such a batch takes
 * about seven requests of 100 accounts.
 */
const BATCH = 200;

/**
 * Maximum number of concurrent look-ups of pulls. A look-up makes several requests and takes 10 s
 * or more for a long history.
 */
const LOOKUPS_AT_ONCE = 8;
/**
 * Maximum number of look-ups of pulls that wait or run. With this limit, each look-up begins within
 * 40 s, even if all look-ups are slow. Leases last 45 s, so each look-up can renew the lease of its
 * subscription in time.
 */
const MAX_TAKEN = 32;

/**
 * Claims due subscriptions, commits their payments and hands the payments to the queue. Look-ups of
 * pulls and closings of accounts run outside the turns of the loop.
 */
export class Collector {
  readonly #context: Context;
  readonly #signer: Signer;
  readonly #clocks: ClockWitness;
  readonly #queue: Queue;
  readonly #closings: SideQueue;
  readonly #lookups: SideQueue;
  #after: DuePlace | undefined;
  #passedAt = -Infinity;
  #waitMs = 0;

  constructor(context: Context, signer: Signer, queue: Queue) {
    this.#context = context;
    this.#signer = signer;
    this.#clocks = new ClockWitness(context);
    this.#queue = queue;
    this.#closings = new SideQueue(context, {
      max: MAX_CLOSINGS,
      atOnce: MAX_CLOSINGS,
      run: (work, signal) => this.#close(work, signal),
      onFault: async ({ claimId, rows }, error) => {
        context.log.error({ err: error }, 'closing accounts failed');
        await releaseClaims(context.sql, claimKeysOf(claimId, rows));
      },
    });
    this.#lookups = new SideQueue(context, {
      max: MAX_TAKEN,
      atOnce: LOOKUPS_AT_ONCE,
      renewsLeases: true,
      run: ({ claimId, rows }) =>
        this.#commit({ claimId, leasedAt: performance.now() }, rows, { history: true }),
      onFault: async ({ claimId, rows }, error) => {
        for (const row of rows) await this.#fault(claimId, row, error);
      },
    });
  }

  /**
   * Claims and commits one batch of subscriptions. Resolves with true when more subscriptions are
   * probably due. Throws when the chain or the database cannot be reached.
   */
  async turn(): Promise<boolean> {
    const { sql, clock, onRead, times } = this.#context;
    this.#waitMs = times.claim.maxWaitMs;
    const limit = Math.min(BATCH, this.#queue.room());
    if (limit <= 0) return false;
    const lease = { claimId: randomUUID(), leasedAt: performance.now() };
    const { claimId } = lease;
    const due = await this.#claim(claimId, await clock.now(), limit);
    if (due.length === 0) return false;
    const rows = await readSubscriptions(
      sql,
      due.map(({ id }) => id),
    );
    onRead(rows);
    try {
      await splitBatch(
        rows,
        (some) => this.#commit(lease, some, { history: false }),
        (row, error) => this.#fault(claimId, row, error),
      );
    } catch (error) {
      // Release the claims, so that the rows can be claimed again. If Postgres is unreachable, the
      // leases expire by themselves.
      await releaseClaims(sql, claimKeysOf(claimId, due)).catch(() => undefined);
      throw error;
    }
    return due.length === limit;
  }

  /** Milliseconds until the next turn, after a turn that resolved with false. */
  waitMs(): number {
    return this.#waitMs;
  }

  /** Aborts all look-ups of pulls and closings of accounts. */
  async stop(): Promise<void> {
    await Promise.all([this.#closings.stop(), this.#lookups.stop()]);
  }

  /**
   * Claims the next batch in order of the due time, after the last row of the previous batch.
   * Claimed rows stay due until they are settled, so a batch that started at the earliest due time
   * would read the claimed rows again.
   */
  async #claim(claimId: string, chainNow: Date, limit: number): Promise<DuePlace[]> {
    const { sql, times } = this.#context;
    const { maxWaitMs, leastWaitMs, passMs } = times.claim;
    if (performance.now() - this.#passedAt > passMs) this.#after = undefined;
    const after = this.#after;
    const due = await claimDue(sql, {
      claimId,
      chainNow,
      limit,
      leaseSeconds: LEASE_SECONDS,
      after,
    });
    if (after === undefined) this.#passedAt = performance.now();
    // A batch that is not full contains the last due row. The next turn then starts again at the
    // earliest due time.
    this.#after = due.length < limit ? undefined : furthest(due, after);
    if (due.length > 0 || after !== undefined) this.#waitMs = leastWaitMs;
    else {
      const next = await readNextDue(sql, chainNow);
      const untilDue = next === null ? maxWaitMs : next.getTime() - chainNow.getTime();
      this.#waitMs = Math.max(leastWaitMs, Math.min(maxWaitMs, untilDue));
    }
    return due;
  }

  async #commit(
    lease: { claimId: string; leasedAt: number },
    rows: readonly KeeperSubscriptionForEvents[],
    how: { closed?: Closed; history: boolean },
  ): Promise<void> {
    const { payments, closable, lookups, written } = await commit(
      this.#context,
      { signer: this.#signer, clocks: this.#clocks },
      lease,
      rows,
      how,
    );
    this.#queue.add(payments);
    this.#context.onRead(written);
    const { claimId } = lease;
    if (lookups.length > 0)
      await this.#lookups.take(lookups.map((row) => ({ claimId, rows: [row] })));
    if (closable.length > 0) await this.#closings.take([{ claimId, rows: closable }]);
  }

  async #close({ claimId, rows }: SideWork, signal: AbortSignal): Promise<void> {
    const closed = await closeAccounts(this.#context, rows, signal);
    // Closing may have taken so long that the lease is about to end. `leasedAt` is -Infinity, so
    // that the tracker renews the lease at once.
    await this.#commit({ claimId, leasedAt: -Infinity }, rows, { closed, history: false });
  }

  async #fault(claimId: string, row: KeeperSubscriptionForEvents, error: unknown): Promise<void> {
    const { sql, clock, metrics, log } = this.#context;
    metrics.alerts.inc({ reason: 'cannot_be_processed' });
    log.error(
      { err: error, subscription: row.id },
      'subscription cannot be processed; retried later',
    );
    const until = keeperRetryAt(unixSeconds(await clock.now()), row.setbacks + 1);
    await releaseClaims(sql, [{ id: row.id, claimId }], { until, keeperFailure: true });
  }
}

/** Returns the row that comes last in claim order (due time, then id) among `due` and `after`. */
function furthest(due: readonly DuePlace[], after?: DuePlace): DuePlace | undefined {
  const isBehind = (one: DuePlace, other: DuePlace) =>
    one.dueAt.getTime() === other.dueAt.getTime() ? one.id > other.id : one.dueAt > other.dueAt;
  return due.reduce<DuePlace | undefined>(
    (last, one) => (last === undefined || isBehind(one, last) ? one : last),
    after,
  );
}

/**
 * Claims a batch of open attempts that no keeper holds: the lease expired, or the API ended the
 * claim when it cancelled the subscription. Such an attempt may still land, so a keeper must follow
 * it. Resolves with true when more such attempts may be left.
 */
export async function recover({ sql, log }: Context, queue: Queue): Promise<boolean> {
  const limit = Math.min(BATCH, queue.room());
  if (limit <= 0) return false;
  const claimId = randomUUID();
  const leasedAt = performance.now();
  const ids = await claimOrphans(sql, { claimId, limit, leaseSeconds: LEASE_SECONDS });
  if (ids.length === 0) return false;
  try {
    const [attempts, rows] = await Promise.all([
      readOpenAttempts(sql, ids),
      readSubscriptions(sql, ids),
    ]);
    const open = new Map(attempts.map((attempt) => [attempt.subscriptionId, attempt]));
    log.info({ attempts: open.size }, 'open attempts taken over');
    queue.add(
      rows.flatMap((row) => {
        const attempt = open.get(row.id);
        if (attempt === undefined) return [];
        const { id, notices } = row;
        const from = { periodEnd: null, expectedAccount: null };
        return [newPayment({ id, claimId, notices, row, leasedAt, attempt, ...from })];
      }),
    );
  } catch (error) {
    await releaseClaims(
      sql,
      ids.map((id) => ({ id, claimId })),
    ).catch(() => undefined);
    throw error;
  }
  return ids.length === limit;
}
