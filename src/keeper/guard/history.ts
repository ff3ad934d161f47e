// Stops signing while Postgres may have lost commits. If a commit was lost, its signed transaction
// may still land, but the database does not know the payment. Each keeper runs these checks itself.
// The keepers share the WAL timeline and the block height that are recorded in Postgres.
//
//   starting --signatures on chain compared with the database--> open
//   open --WAL timeline of Postgres changed (a failover)--> waiting
//   waiting --every endpoint finalized the recorded height, signatures compared again--> open
//
// commit.ts and settlement.ts compare the timeline again when they commit an attempt. A restored
// backup does not change the timeline. Payments that are on chain but not in the database show
// that a backup was restored.
import { hostname } from 'node:os';
import { programEvents } from '../../chain/program/events.ts';
import { ChainDataError } from '../../chain/program/layouts.ts';
import { BLOCKHASH_LIFE } from '../../chain/rpc/blocks.ts';
import { oldestSlot } from '../../chain/rpc/responses.ts';
import { readListed } from '../../chain/rpc/transactions.ts';
import { timeOf } from '../../chain/time.ts';
import {
  type Brake,
  type Hold,
  holdForMissing,
  listHolds,
  readBrake,
} from '../../db/operating/collection-holds.ts';
import {
  endWait,
  findMissing,
  hasPlan,
  readAcceptedUntil,
  recordFirstTimeline,
  recordTimeline,
} from '../../db/operating/history.ts';
import { heldInWords } from '../../domain/collecting/brake.ts';
import { chunks } from '../../each.ts';
import type { Context } from '../base/context.ts';

/**
 * Number of signatures of each keeper wallet that are compared with the database. One page of
 * getSignaturesForAddress has this size.
 */
const COMPARED = 1000;
const AT_ONCE = 16;
/**
 * Age (ms) above which a payment that is on chain but not in the database causes a hold on
 * collection. A younger payment may belong to an attempt that a failover of Postgres lost. The
 * keeper finds and records such a payment itself.
 */
const RESTORED_MS = 600_000;

/** A payment that is on chain but not in the database. */
interface Missing {
  readonly signature: string;
  readonly keeper: string;
}

/** Detects commits that the database has lost. */
export class History {
  readonly #context: Context;
  readonly #onOpen: () => void;
  #reason: string | undefined = 'the payments on chain are not compared with the database yet';
  #holds: readonly Hold[] = [];
  #isCompared = false;

  /** `onOpen` is called when payments may be signed again. */
  constructor(context: Context, onOpen: () => void) {
    this.#context = context;
    this.#onOpen = onOpen;
  }

  /**
   * Returns why no payment may be signed now, or undefined when payments may be signed. Ignores the
   * holds that operators and the keeper place on collection.
   */
  reason(): string | undefined {
    return this.#reason;
  }

  /**
   * Returns one text that lists (1) the reason why no payment may be signed now, if there is one,
   * and (2) all holds on collection. Returns undefined when there are none.
   */
  note(): string | undefined {
    const reasons = this.#holds.map(heldInWords);
    const all = this.#reason === undefined ? reasons : [this.#reason, ...reasons];
    return all.length === 0 ? undefined : all.join('; ');
  }

  /**
   * Checks the timeline of Postgres, the recorded block height and the holds on collection. Always
   * resolves with false, so that the loop waits before its next turn. Throws when the chain or the
   * database cannot be reached.
   */
  async turn(): Promise<boolean> {
    const { sql, metrics } = this.#context;
    const before = this.#reason;
    this.#reason = await this.#check(await readBrake(sql));
    if (before !== undefined && this.#reason === undefined) this.#onOpen();
    this.#holds = await listHolds(sql);
    metrics.held.set({ scope: 'timeline' }, this.#reason === undefined ? 0 : 1);
    for (const scope of ['all', 'merchant', 'plan'] as const) {
      const count = this.#holds.filter((hold) => kindOf(hold) === scope).length;
      metrics.held.set({ scope }, count);
    }
    return false;
  }

  async #check(brake: Brake): Promise<string | undefined> {
    const { sql } = this.#context;
    const { timeline, recorded } = brake;
    if (timeline === null) return 'Postgres is a standby';
    if (recorded === null) await recordFirstTimeline(sql, timeline);
    else if (recorded !== timeline) return this.#changed(recorded, timeline);
    if (brake.collectsAfterHeight !== null)
      return this.#passed({ timeline, height: brake.collectsAfterHeight });
    if (!this.#isCompared) await this.#compare();
    return undefined;
  }

  /**
   * Called when the timeline of Postgres differs from the recorded timeline. The first keeper that
   * sees the difference records the new timeline and the block height after which signing
   * continues.
   */
  async #changed(before: string, now: string): Promise<string> {
    const { sql, rpc, log } = this.#context;
    const heights = await rpc.getHeights({ commitment: 'processed' });
    const highest = heights.reduce(
      (most, one) => (one.blockHeight > most ? one.blockHeight : most),
      0n,
    );
    // A transaction that was signed before the failover cannot land after this block height.
    const collectsAfterHeight = highest + BLOCKHASH_LIFE;
    if (await recordTimeline(sql, { before, now, collectsAfterHeight }))
      log.warn(
        { before, timeline: now, collectsAfterHeight },
        'Postgres failed over and may have lost commits; signing waits',
      );
    return waitsFor(collectsAfterHeight);
  }

  async #passed({
    timeline,
    height,
  }: {
    timeline: string;
    height: bigint;
  }): Promise<string | undefined> {
    const { sql, rpc, log } = this.#context;
    const heights = await rpc.getHeights({ commitment: 'finalized' });
    if (heights.some(({ blockHeight }) => blockHeight <= height)) return waitsFor(height);
    await this.#compare();
    await endWait(sql, { timeline, height, slot: oldestSlot(heights) });
    log.info({ timeline, height }, 'signing continues after the failover of Postgres');
    return undefined;
  }

  /**
   * Places a hold on collection when a payment older than RESTORED_MS is on chain but not in the
   * database. Such a payment means that a backup was restored, or that another database collects
   * with the same key.
   */
  async #compare(): Promise<void> {
    const { sql, log, metrics, clock, keeperWallets } = this.#context;
    const now = await clock.now();
    const accepted = await readAcceptedUntil(sql);
    for (const keeper of keeperWallets) {
      const missing = await this.#missingOf(keeper, {
        after: accepted ?? new Date(0),
        before: new Date(now.getTime() - RESTORED_MS),
      });
      if (missing === undefined) continue;
      const by = { who: 'keeper', host: hostname() };
      if (!(await holdForMissing(sql, { reason: reasonOf(missing), missingUntil: now, by }))) break;
      metrics.alerts.inc({ reason: 'history_missing' });
      log.error({ ...missing }, 'the database lacks payments of the chain; collection is held');
      break;
    }
    this.#isCompared = true;
  }

  /**
   * Finds a pull by this keeper wallet that is on chain but not in the database. Looks only at
   * pulls of plans in the database, with a block time between `after` and `before`. Returns
   * undefined when there is no such pull.
   */
  async #missingOf(
    keeper: string,
    { after, before }: { after: Date; before: Date },
  ): Promise<Missing | undefined> {
    const { sql, rpc } = this.#context;
    const listed = await rpc.getSignaturesForAddress(keeper, {
      limit: COMPARED,
      commitment: 'finalized',
      everywhere: true,
    });
    const signatures = listed
      .filter(({ err }) => err === null)
      .filter(({ blockTime: at }) => at !== null && timeOf(at) > after && timeOf(at) < before)
      .map(({ signature }) => signature);
    const unknown = await findMissing(sql, signatures);
    for (const some of chunks([...unknown], AT_ONCE)) {
      const plans = await Promise.all(some.map((signature) => this.#plansOf(keeper, signature)));
      for (const [index, signature] of some.entries())
        if (await hasPlan(sql, plans[index] ?? [])) return { signature, keeper };
    }
    return undefined;
  }

  /**
   * Returns the plans of the keeper's pulls in this transaction. An unreadable transaction counts
   * as a transaction without pulls. Otherwise anyone could stop collection with an unreadable
   * transaction that names the keeper.
   */
  async #plansOf(keeper: string, signature: string): Promise<string[]> {
    const { rpc, programId } = this.#context;
    const found = await readListed(rpc, signature);
    if ('unreadable' in found) return [];
    try {
      return programEvents(found, programId).flatMap((event) =>
        event.kind === 'transfer' && event.puller === keeper ? [event.plan] : [],
      );
    } catch (error) {
      if (error instanceof ChainDataError) return [];
      throw error;
    }
  }
}

const waitsFor = (height: bigint) =>
  `Postgres failed over and may have lost commits: nothing is signed before block height ${height} is finalized`;

const reasonOf = ({ signature, keeper }: Missing) =>
  `The chain has a payment by the keeper ${keeper} that the database lacks (${signature}): a backup was restored, or another database collects ` +
  'the same plans with this key. Run "billing reconcile --repair", tell the merchants, then "billing collection resume".';

const kindOf = ({ merchantId, planId }: Hold) =>
  merchantId !== null ? 'merchant' : planId !== null ? 'plan' : 'all';
