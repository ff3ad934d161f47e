// This process's share of a rate that all processes of its kind keep together, by leases in
// Postgres. Without Postgres the process keeps its share until its lease ends, and then has none.
import { createHash, randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { Gauge, type Registry } from 'prom-client';
import type { Sql } from '../db/postgres/connect.ts';
import { endLease, type Holder, listHolders, renewLease } from '../db/rate-leases.ts';
import type { Log } from '../log.ts';
import { startLoop } from '../loop.ts';

/**
 * The rates: requests of keepers and of serve to each RPC endpoint, transactions to it, and
 * requests in flight to a webhook endpoint.
 */
export type RateName = 'rpc' | 'serve' | 'send' | 'webhook';

export interface RateShare {
  /** What this process may use now. */
  readonly now: () => number;
  /** Called after each renewal. */
  onRenewed?: () => void;
  /** Ends the lease. The caller makes no request after that. */
  stop(): Promise<void>;
}

interface RateShareOptions {
  sql: Sql;
  log: Log;
  /** Without it the share is no metric. */
  registry?: Registry;
  /**
   * Milliseconds for which a request counts. The process stops this long before its lease ends, and
   * reports a smaller share this long after it took effect.
   */
  countedMs?: number;
}

const RENEW_MS = 1500;
/** A share is in use for this long without a renewal. */
const IN_USE_MS = 4800;
/** A request counts for a second at its receiver, and arrives a moment after it was sent. */
const COUNTED_MS = 1200;

/**
 * Starts to renew a lease on a share of `rate`, and resolves after the first attempt. A rate of 0
 * means no limit: then there is no lease.
 */
export async function startRateShare(
  name: RateName,
  rate: number,
  { sql, log, registry, countedMs = COUNTED_MS }: RateShareOptions,
): Promise<RateShare> {
  if (rate === 0) return { now: () => Infinity, stop: () => Promise.resolve() };
  const own: Holder = { name, holder: randomUUID(), place: readPlace(), pid: process.pid };
  const share = new Share(countedMs);
  let processes = 0;
  const renew = async () => {
    const startedAt = performance.now();
    const leaseMs = IN_USE_MS + countedMs;
    const lease = await renewLease(sql, { ...own, rate, holds: share.most(startedAt), leaseMs });
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
      // If this fails, the lease ends by itself.
      await endLease(sql, own, COUNTED_MS).catch(() => undefined);
      holders.delete(own.holder);
    },
  };
  holders.add(own.holder);
  const begin = async () => {
    await endDeadLeases(sql, own);
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

/** The granted share, and a larger one before it. All times are those of performance.now(). */
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

  /** The most that counts at this time. */
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

/** Holders of this process. */
const holders = new Set<string>();

/**
 * Ends the leases of processes of this place that have died, so that a daemon that is started again
 * after a crash does not wait for them.
 */
async function endDeadLeases(sql: Sql, own: Holder): Promise<void> {
  if (own.place === null) return;
  for (const one of await listHolders(sql, own)) {
    const isAlive = one.pid === process.pid ? holders.has(one.holder) : isRunning(one.pid);
    if (!isAlive) await endLease(sql, one, COUNTED_MS);
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: a process of another user.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** Identifies the machine and the pid namespace; null where either is not known. */
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
