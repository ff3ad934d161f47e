// Queue for slow work on claimed subscriptions that runs outside the collect loop: look-ups of
// pulls and closings of accounts. The queue has a limit. Work beyond the limit is postponed.
import { RpcUnreachable } from '../../chain/rpc/errors.ts';
import { type ClaimKey, claimKeysOf } from '../../db/subscriptions/leases.ts';
import { releaseClaims, renewLeases } from '../../db/subscriptions/leases.ts';
import type { KeeperSubscriptionForEvents } from '../../db/subscriptions/work.ts';
import { putOffUntil } from '../../domain/collecting/keeper-backoff.ts';
import { LEASE_SECONDS } from '../../domain/collecting/settlement.ts';
import type { Context } from '../base/context.ts';

/** A work item: subscriptions that were claimed together and are worked on together. */
export interface SideWork {
  readonly claimId: string;
  readonly rows: readonly KeeperSubscriptionForEvents[];
}

interface SideQueueOptions {
  /** Maximum number of work items in the queue, including running items. */
  readonly max: number;
  readonly atOnce: number;
  /**
   * Whether to renew the leases before `run`. Work may wait in the queue so long that its leases
   * would expire.
   */
  readonly renewsLeases?: boolean;
  /**
   * Does the work and writes its outcome to Postgres. The queue's method `stop` aborts `signal`.
   */
  readonly run: (work: SideWork, signal: AbortSignal) => Promise<void>;
  /**
   * Called when `run` throws an error other than RpcUnreachable. After RpcUnreachable the queue
   * postpones the work.
   */
  readonly onFault: (work: SideWork, error: unknown) => Promise<void>;
}

const claimsOf = ({ claimId, rows }: SideWork): ClaimKey[] => claimKeysOf(claimId, rows);

export class SideQueue {
  readonly #context: Pick<Context, 'sql' | 'clock'>;
  readonly #options: SideQueueOptions;
  readonly #taken = new Set<SideWork>();
  readonly #waiting: SideWork[] = [];
  readonly #stopping = new AbortController();
  #running = 0;

  constructor(context: Pick<Context, 'sql' | 'clock'>, options: SideQueueOptions) {
    this.#context = context;
    this.#options = options;
  }

  /**
   * Queues work items and postpones the items beyond the queue's limit. Resolves before the work is
   * done.
   */
  async take(works: readonly SideWork[]): Promise<void> {
    const { max, atOnce } = this.#options;
    const room = this.#stopping.signal.aborted ? 0 : max - this.#taken.size;
    const taken = works.slice(0, Math.max(0, room));
    for (const work of taken) this.#taken.add(work);
    this.#waiting.push(...taken);
    while (this.#running < atOnce && this.#waiting.length > 0) void this.#runAll();
    const others = works.slice(taken.length);
    if (others.length > 0) await this.#putOff(others);
  }

  /** Aborts all work in the queue and releases the claims. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#waiting.length = 0;
    const claims = [...this.#taken].flatMap(claimsOf);
    await releaseClaims(this.#context.sql, claims).catch(() => undefined);
  }

  async #putOff(works: readonly SideWork[]): Promise<void> {
    const { sql, clock } = this.#context;
    await releaseClaims(sql, works.flatMap(claimsOf), { until: putOffUntil(await clock.now()) });
  }

  async #runAll(): Promise<void> {
    this.#running += 1;
    for (let work = this.#waiting.shift(); work !== undefined; work = this.#waiting.shift()) {
      await this.#run(work);
      this.#taken.delete(work);
    }
    this.#running -= 1;
  }

  async #run(work: SideWork): Promise<void> {
    const { signal } = this.#stopping;
    try {
      const claimed = this.#options.renewsLeases === true ? await this.#renewed(work) : work;
      if (claimed.rows.length > 0) await this.#options.run(claimed, signal);
    } catch (error) {
      // The method `stop` has already released the claims.
      if (signal.aborted) return;
      // An error of Postgres is ignored here, because the leases expire by themselves.
      const end =
        error instanceof RpcUnreachable ? this.#putOff([work]) : this.#options.onFault(work, error);
      await end.catch(() => undefined);
    }
  }

  /**
   * Renews the leases of the work's rows. Returns the work without the rows whose claim was lost.
   */
  async #renewed(work: SideWork): Promise<SideWork> {
    const held = await renewLeases(this.#context.sql, claimsOf(work), LEASE_SECONDS);
    return { ...work, rows: work.rows.filter(({ id }) => held.has(id)) };
  }
}
