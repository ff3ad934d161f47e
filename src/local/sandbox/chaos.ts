// kill -9 at random moments, as often as asked, and the certainty that each killed process is back
// before its leases are called dead.
import pRetry from 'p-retry';
import { expireDispatchClaims, expireKeeperLeases } from '../../db/sandbox.ts';
import { allReady, type Processes } from './processes.ts';
import type { Random } from './random.ts';

const victims = ['serve', 'keeper', 'dispatch', 'postgres'] as const;

export interface Chaos {
  /**
   * Arms the kills that are planned for this period: each strikes at a random moment of the next
   * second of real time.
   */
  strike(random: Random): void;
  /** Resolves when every armed kill has struck. */
  spent(): Promise<void>;
  /**
   * After a kill: waits until everything is up again and lets the leases of the dead lapse. Does
   * nothing otherwise.
   */
  recover(): Promise<void>;
  /** Kills so far, by victim. */
  kills(): Readonly<Record<string, number>>;
}

/** `total` kills spread evenly over `periods`. */
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
 * Asks Postgres until it answers, 20 s at most: the chaos kills it now and then, and a pool notices
 * on the next query only.
 */
export function retrying<T>(ask: () => Promise<T>): Promise<T> {
  return pRetry(ask, { retries: 200, factor: 1, minTimeout: 100, maxRetryTime: 20_000 });
}
