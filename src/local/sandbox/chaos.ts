// Kills processes with kill -9 at random moments. Waits until all daemons are ready again, then
// expires the leases of the killed processes.
import pRetry from 'p-retry';
import { expireDispatchClaims, expireKeeperLeases } from '../../db/sandbox.ts';
import { allReady, type Processes } from './processes.ts';
import type { Random } from './random.ts';

const victims = ['serve', 'keeper', 'dispatch', 'postgres'] as const;

export interface Chaos {
  /** Schedules the kills of this period at random moments of the next second of real time. */
  strike(random: Random): void;
  /** Resolves when all scheduled kills have happened. */
  spent(): Promise<void>;
  /**
   * After a kill, waits until all daemons are ready, then expires the leases of the killed
   * processes.
   */
  recover(): Promise<void>;
  /** Returns the number of kills so far by process. */
  kills(): Readonly<Record<string, number>>;
}

/** Creates the chaos of a play. It spreads `total` kills evenly over `periods` periods. */
export function createChaos(processes: Processes, total: number, periods: number): Chaos {
  const kills: Record<string, number> = {};
  const armed: Promise<void>[] = [];
  let struck = 0;
  let period = 0;
  let wounded = false;

  const kill = (victim: (typeof victims)[number]) => {
    if (victim === 'postgres') processes.killPostgres();
    else processes.daemons[victim].kill();
    kills[victim] = (kills[victim] ?? 0) + 1;
    wounded = true;
  };

  return {
    strike(random) {
      period += 1;
      const planned = Math.ceil((total * period) / periods) - struck;
      struck += planned;
      for (let each = 0; each < planned; each += 1) {
        const victim = random.pick(victims);
        const afterMs = random.below(1000);
        armed.push(
          new Promise<void>((resolve) => setTimeout(resolve, afterMs)).then(() => kill(victim)),
        );
      }
    },
    async spent() {
      await Promise.all(armed);
    },
    async recover() {
      if (!wounded) return;
      wounded = false;
      await allReady(processes);
      await retrying(() => expireKeeperLeases(processes.sql));
      await retrying(() => expireDispatchClaims(processes.sql));
    },
    kills: () => kills,
  };
}
/**
 * Retries a query for at most 20 s. Chaos kills Postgres, and a connection pool notices a lost
 * connection only at its next query.
 */
export function retrying<T>(query: () => Promise<T>): Promise<T> {
  return pRetry(query, { retries: 200, factor: 1, minTimeout: 100, maxRetryTime: 20_000 });
}
