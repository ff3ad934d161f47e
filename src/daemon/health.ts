// The health of a daemon: outages of Postgres, each logged once at its beginning and once at its
// end, and loops whose turns fail.
import { Counter, type Registry } from 'prom-client';
import { RpcUnreachable } from '../chain/rpc/errors.ts';
import { isOutage } from '../db/postgres/outage.ts';
import { messageOf } from '../errors.ts';
import type { Log } from '../log.ts';
import type { LoopObserver } from '../loop.ts';

export interface Health extends LoopObserver {
  /** Whether this error belongs to an outage of Postgres. Outages are logged only here. */
  takes: (error: unknown) => boolean;
  /** Reports a successful write to Postgres, which ends an outage. */
  written: () => void;
  /**
   * The current problem as text; undefined unless something has failed for more than a few seconds.
   */
  trouble: () => string | undefined;
}

/** Time (ms) for which a loop may fail before the daemon is not ready. */
const PATIENCE_MS = 5000;

/**
 * Registers metrics in `registry`. Calls `onOutage` when an outage begins, and `log` whenever it
 * logs.
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
      // The reason can change, for example when new connections are read-only; the latest one
      // applies.
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
      // Starts at 0: Prometheus sees no increase in a counter that appears with its first event.
      for (const cause of ['database', 'chain', 'other']) failures.inc({ loop, cause }, 0);
    },
    succeeded: (loop) => void failing.delete(loop),
    stopped: (loop) => void failing.delete(loop),
    failed(loop, name, error) {
      const cause = takes(error) ? 'database' : error instanceof RpcUnreachable ? 'chain' : 'other';
      failures.inc({ loop: name, cause });
      // The keeper logs an outage of the chain itself.
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
