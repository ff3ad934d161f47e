// Health of a daemon: Postgres outages and failing loops. An outage is logged once when it begins
// and once when it ends.
import { Counter, type Registry } from 'prom-client';
import { RpcUnreachable } from '../chain/rpc/errors.ts';
import { isOutage } from '../db/postgres/outage.ts';
import { messageOf } from '../errors.ts';
import type { Log } from '../log.ts';
import type { LoopObserver } from '../loop.ts';

export interface Health extends LoopObserver {
  /**
   * Tells whether an error belongs to a Postgres outage. Only this file logs outages, so callers do
   * not log such errors.
   */
  takes: (error: unknown) => boolean;
  /** Reports a successful write to Postgres. The write ends an outage. */
  written: () => void;
  /**
   * Describes the current problem: Postgres is unavailable, or a loop has failed for more than a
   * few seconds. Returns undefined when there is no problem.
   */
  trouble: () => string | undefined;
}

/** A loop may fail for this time (ms) before the daemon is not ready. */
const PATIENCE_MS = 5000;

/**
 * Creates a daemon's health and registers its metrics in `registry`. Calls `onOutage` when an
 * outage begins. `log` returns the logger and is called before each log line.
 */
export function createHealth(registry: Registry, log: () => Log, onOutage: () => void): Health {
  const failures = new Counter({
    name: 'billing_loop_failures_total',
    help: 'Failed turns of the daemon’s loops, by loop and cause (database, chain, other)',
    labelNames: ['loop', 'cause'] as const,
    registers: [registry],
  });
  const failing = new Map<object, { name: string; since: number; reason: string }>();
  let outage: { since: number; reason: string } | undefined;

  const takes = (error: unknown): boolean => {
    if (!isOutage(error)) return false;
    if (outage === undefined) {
      outage = { since: performance.now(), reason: messageOf(error) };
      log().error({ reason: outage.reason }, 'Postgres is unavailable');
      onOutage();
    } else {
      // The reason can change during an outage, for example when new connections are read-only. The
      // latest reason is reported.
      outage.reason = messageOf(error);
    }
    return true;
  };

  return {
    takes,
    written() {
      if (outage === undefined) return;
      const seconds = Math.round((performance.now() - outage.since) / 1000);
      outage = undefined;
      log().info({ seconds }, 'Postgres is available again');
    },
    started(loop) {
      // Counters start at 0, because Prometheus sees no increase in a counter that first appears
      // with its first event.
      for (const cause of ['database', 'chain', 'other']) failures.inc({ loop, cause }, 0);
    },
    succeeded: (loop) => void failing.delete(loop),
    stopped: (loop) => void failing.delete(loop),
    failed(loop, name, error) {
      const cause = takes(error) ? 'database' : error instanceof RpcUnreachable ? 'chain' : 'other';
      failures.inc({ loop: name, cause });
      // The keeper itself logs and reports a chain outage, so its loops do not count as failing.
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
