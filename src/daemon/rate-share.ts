// This process's share of a rate limit. Leases in Postgres ensure that all processes together stay
// within the rate limit. When Postgres fails, the process uses its last share until that share
// expires. Afterwards the share is 0.
import { createHash, randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { Gauge, type Registry } from 'prom-client';
import { endLease, type Holder, listHolders, renewLease } from '../db/operating/rate-leases.ts';
import type { Sql } from '../db/postgres/connect.ts';
import type { Log } from '../log.ts';
import { startLoop } from '../loop.ts';

/**
 * Names of the shared rates:
 * - `rpc`: requests per second of all keepers to an RPC endpoint
 * - `serve`: requests per second of all API processes to an RPC endpoint
 * - `send`: transactions per second to an RPC endpoint
 * - `webhook`: requests in flight to a webhook endpoint
 */
export type RateName = 'rpc' | 'serve' | 'send' | 'webhook';

export interface RateShare {
  /** Returns the part of the rate that this process may use now. */
  readonly now: () => number;
  /** Called after each renewal of the lease. */
  onRenewed?: () => void;
  /** Ends the lease. The caller must not send requests afterwards. */
  stop(): Promise<void>;
}

interface RateShareOptions {
  sql: Sql;
  log: Log;
  /** Registry for the metric of the share. Without a registry there is no such metric. */
  registry?: Registry;
  /**
   * Milliseconds for which a sent request counts against the rate. The process sends no requests in
   * the last `countedMs` of its lease, so that no request still counts when the lease has ended.
   * After a decrease of its share, the process reports the old share to Postgres for `countedMs`,
   * because requests sent under the old share still count.
   */
  countedMs?: number;
}

/** Interval at which a lease is renewed. */
const RENEW_MS = 1500;
/** After a renewal, the process may use its share for this many milliseconds. */
const IN_USE_MS = 4800;
/**
 * Default of `countedMs`. The receiver counts a request for one second, and the request arrives up
 * to 200 ms after it was sent.
 */
const COUNTED_MS = 1200;

/**
 * Starts to renew a lease on a share of `rate`. Resolves after the first attempt, even if this
 * attempt failed. A rate of 0 means no limit and needs no lease.
 */
export async function startRateShare(
  name: RateName,
  rate: number,
  { sql, log, registry, countedMs = COUNTED_MS }: RateShareOptions,
): Promise<RateShare> {
  if (rate === 0) return { now: () => Infinity, stop: () => Promise.resolve() };
  const holder: Holder = { name, holder: randomUUID(), place: readPlace(), pid: process.pid };
  const share = new Share(countedMs);
  let processes = 0;
  const renew = async () => {
    const startedAt = performance.now();
    const leaseMs = IN_USE_MS + countedMs;
    const lease = await renewLease(sql, { ...holder, rate, holds: share.most(startedAt), leaseMs });
    share.set(lease.granted, startedAt + IN_USE_MS);
    if (registry !== undefined) gauge(registry).set({ budget: name }, lease.granted);
    if (lease.holders > rate && lease.holders !== processes)
      log.warn(
        { name, rate, processes: lease.holders },
        'a rate has more processes than its value',
      );
    processes = lease.holders;
    result.onRenewed?.();
  };
  const onError = (error: unknown, failures: number) =>
    log.warn({ name, failures, err: error }, 'share of a rate cannot be renewed');
  const result: RateShare = {
    now: () => share.now(performance.now()),
    async stop() {
      await loop.stop();
      // If `endLease` fails, the lease expires by itself.
      await endLease(sql, holder, COUNTED_MS).catch(() => undefined);
      holders.delete(holder.holder);
    },
  };
  holders.add(holder.holder);
  const begin = async () => {
    await endDeadLeases(sql, holder);
    await renew();
  };
  await begin().catch((error: unknown) => onError(error, 1));
  const loop = startLoop({
    name: 'sharing a rate',
    idleMs: RENEW_MS,
    async turn() {
      await renew();
      return false;
    },
    onError,
  });
  return result;
}

/**
 * The share that Postgres granted last, and the share before the last change. All times are those
 * of performance.now().
 */
class Share {
  readonly #countedMs: number;
  #granted = 0;
  #until = -Infinity;
  #before = 0;
  #changedAt = -Infinity;

  constructor(countedMs: number) {
    this.#countedMs = countedMs;
  }

  now(at: number): number {
    return at < this.#until ? this.#granted : 0;
  }

  /**
   * Returns the share to report to Postgres. While requests of the previous share still count, this
   * is the larger of the previous and the current share.
   */
  most(at: number): number {
    const granted = at < this.#until + this.#countedMs ? this.#granted : 0;
    const isSettled = at - this.#changedAt >= this.#countedMs;
    return isSettled ? granted : Math.max(granted, this.#before);
  }

  set(granted: number, until: number): void {
    const at = performance.now();
    if (granted !== this.#granted) {
      this.#before = this.most(at);
      this.#changedAt = at;
    }
    this.#granted = granted;
    this.#until = until;
  }
}

/** Ids under which this process holds leases. */
const holders = new Set<string>();

/**
 * Ends the leases of processes that ran on this machine and have exited. Otherwise a daemon that
 * restarts after a crash would wait until its old lease expires.
 */
async function endDeadLeases(sql: Sql, holder: Holder): Promise<void> {
  if (holder.place === null) return;
  for (const one of await listHolders(sql, holder)) {
    const isAlive = one.pid === process.pid ? holders.has(one.holder) : isRunning(one.pid);
    if (!isAlive) await endLease(sql, one, COUNTED_MS);
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM means that the process is running as another user.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/**
 * Returns a hash that identifies the machine and the pid namespace. Returns null when the machine
 * or the pid namespace is unknown.
 */
function readPlace(): string | null {
  try {
    const machine = readFileSync('/etc/machine-id', 'utf8').trim();
    const parts = [machine, hostname(), readlinkSync('/proc/self/ns/pid')];
    return machine === '' ? null : createHash('sha256').update(parts.join('\n')).digest('hex');
  } catch {
    return null;
  }
}

const METRIC = 'billing_rate_share';

function gauge(registry: Registry): Gauge<'budget'> {
  return (
    (registry.getSingleMetric(METRIC) as Gauge<'budget'> | undefined) ??
    new Gauge({
      name: METRIC,
      help: 'What this process may use of a rate that all processes share',
      labelNames: ['budget'] as const,
      registers: [registry],
    })
  );
}
