// Kills processes with kill -9 at random moments. Then waits until all daemons are ready again, and
// expires the leases that the killed processes held.
import pRetry from 'p-retry';
import { expireDispatchClaims, expireKeeperLeases } from '../../db/operating/sandbox.ts';
import { allReady, type Processes } from './processes.ts';
import type { Random } from './random.ts';

const victims = ['serve', 'keeper', 'dispatch', 'postgres'] as const;

export interface Chaos {
  /**
   * Begins the next period and schedules its kills. Each kill happens at a random moment of the
   * next second of real time.
   */
  strike(random: Random): void;
  /** Resolves when all scheduled kills have happened. */
  spent(): Promise<void>;
  /**
   * If a process was killed since the last call, waits until all daemons are ready, then expires
   * the leases that the killed processes held.
   */
  recover(): Promise<void>;
  /** Returns the number of kills so far, by process name. */
  kills(): Readonly<Record<string, number>>;
}

/**
 * Prepares the kills of one run of the scenario. Spreads `total` kills evenly over the `periods`
 * periods of the run.
 */
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
 * Runs a query and retries it for at most 20 s. The first query after the sandbox kills Postgres
 * may fail, because a connection pool notices a lost connection only at the next query.
 */
export function retrying<T>(query: () => Promise<T>): Promise<T> {
  return pRetry(query, { retries: 200, factor: 1, minTimeout: 100, maxRetryTime: 20_000 });
}
