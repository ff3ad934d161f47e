// The health of a daemon: whether Postgres is available and whether the daemon's loops succeed. An
// outage of Postgres is logged once when it begins and once when it ends.
import { Counter, type Registry } from 'prom-client';
import { RpcUnreachable } from '../chain/rpc/errors.ts';
import { isOutage } from '../db/postgres/outage.ts';
import { messageOf } from '../errors.ts';
import type { Log } from '../log.ts';
import type { LoopObserver } from '../loop.ts';

export interface Health extends LoopObserver {
  /**
   * Returns whether an error belongs to an outage of Postgres. This file logs outages, so callers
   * do not log such an error again.
   */
  takes: (error: unknown) => boolean;
  /** Reports a successful write to Postgres, which ends an outage. */
  written: () => void;
  /** Stops logging outages: the daemon ends, and its connections are closed under its loops. */
  ended: () => void;
  /**
   * Describes the current problem: Postgres is unavailable, or a loop has failed for longer than
   * PATIENCE_MS. Returns undefined when there is no problem.
   */
  trouble: () => string | undefined;
}

/**
 * A daemon counts as not ready after one of its loops has failed for this number of milliseconds.
 */
const PATIENCE_MS = 5000;

/**
 * Creates the health of a daemon and registers its metrics in `registry`. Calls `onOutage` when an
 * outage of Postgres begins. Calls `log` to get the logger before each log line, because the logger
 * may be created later.
 */
export function createHealth(registry: Registry, log: () => Log, onOutage: () => void): Health {
  const failures = new Counter({
    name: 'billing_loop_failures_total',
    help: 'Failed turns of the daemon’s loops, by loop and cause (database, chain, other)',
    labelNames: ['loop', 'cause'] as const,
    registers: [registry],
  });
  const failing = new Map<object, { name: string; since: number; reason: string }>();
  let isEnded = false;
  let outage: { since: number; reason: string } | undefined;

  const takes = (error: unknown): boolean => {
    if (!isOutage(error)) return false;
    if (isEnded) return true;
    if (outage === undefined) {
      outage = { since: performance.now(), reason: messageOf(error) };
      log().error({ reason: outage.reason }, 'Postgres is unavailable');
      onOutage();
    } else {
      // The reason can change during an outage, for example when Postgres accepts connections again
      // but is read-only. `trouble` reports the latest reason.
      outage.reason = messageOf(error);
    }
    return true;
  };

  return {
    takes,
    ended() {
      isEnded = true;
    },
    written() {
      if (outage === undefined) return;
      const seconds = Math.round((performance.now() - outage.since) / 1000);
      outage = undefined;
      log().info({ seconds }, 'Postgres is available again');
    },
    started(loop) {
      // Each counter starts at 0. If a counter first appeared with its first failure, Prometheus
      // would see no increase.
      for (const cause of ['database', 'chain', 'other']) failures.inc({ loop, cause }, 0);
    },
    succeeded: (loop) => void failing.delete(loop),
    stopped: (loop) => void failing.delete(loop),
    failed(loop, name, error) {
      const cause = takes(error) ? 'database' : error instanceof RpcUnreachable ? 'chain' : 'other';
      failures.inc({ loop: name, cause });
      // The keeper itself logs and reports an outage of the chain. The keeper's loops therefore do
      // not count as failing during such an outage.
      if (cause === 'chain') failing.delete(loop);
      else {
        const since = failing.get(loop)?.since ?? performance.now();
        failing.set(loop, { name, since, reason: messageOf(error) });
      }
    },
    trouble() {
      if (outage !== undefined) return `Postgres is unavailable: ${outage.reason}`;
      const now = performance.now();
      const found = [...failing.values()].find(({ since }) => now - since > PATIENCE_MS);
      if (found === undefined) return undefined;
      const seconds = Math.round((now - found.since) / 1000);
      return `"${found.name}" has failed for ${seconds} s: ${found.reason}`;
    },
  };
}
