// Looking up what was pulled under a subscription, beside the collecting: whoever names its account in many transactions makes that slow, and nobody
// else is to wait for it, nor for those who pull by themselves. As many as the leases allow; the others are put off.
import { releaseClaims, renewLeases } from '../db/subscription-leases.ts';
import type { ReadSubscription } from '../db/subscriptions.ts';
import { RpcUnreachable } from '../chain/rpc-errors.ts';
import { timeOf, unixSeconds } from '../domain/network.ts';
import { LEASE_SECONDS } from '../domain/settlement.ts';
import type { ChainClock } from './clock.ts';
import type { Context } from './context.ts';

/** Each makes some requests at once, and takes ten seconds and more where there is much to read. */
const AT_ONCE = 8;
/** Held at once. Where all are slow the last of them begins within some 40 s, before its lease (45 s) is over, and has it renewed then. */
const MOST_HELD = 32;
/** What there was no room for, or no answer, is looked into so many seconds later: no failure that counts, since nothing was looked at. */
const PUT_OFF_SECONDS = 30n;

export interface Lookups {
  /** Begins to look into subscriptions held under a claim, or puts them off; resolves once that is settled, not when they are looked into. */
  take(claimId: string, rows: readonly ReadSubscription[]): Promise<void>;
  /** Gives up what is under way: the claims go back, and nothing of it is written any more. */
  stop(): Promise<void>;
}

interface One {
  claimId: string;
  row: ReadSubscription;
}

const claimOf = ({ claimId, row: { id } }: One) => ({ id, claimId });

/** Lookups of pulls; `finish` looks and writes what follows, `onFault` gets what cannot be processed. */
export function createLookups(
  { sql }: Pick<Context, 'sql'>,
  clock: ChainClock,
  finish: (claimId: string, row: ReadSubscription) => Promise<void>,
  onFault: (claimId: string, row: ReadSubscription, error: unknown) => Promise<void>,
): Lookups {
  const held = new Set<One>();
  const waiting: One[] = [];
  let running = 0;
  let stopped = false;

  const putOff = async (ones: readonly One[]) => {
    const until = timeOf(unixSeconds(await clock.now()) + PUT_OFF_SECONDS);
    await releaseClaims(sql, ones.map(claimOf), { until });
  };

  async function look(one: One): Promise<void> {
    const { claimId, row } = one;
    try {
      const [kept] = await renewLeases(sql, [claimOf(one)], LEASE_SECONDS);
      if (kept !== undefined) await finish(claimId, row);
    } catch (error) {
      // Given up: the claim went back, and what was closed meanwhile is no failure.
      if (stopped) return;
      // When the database is gone, the lease runs out by itself.
      if (error instanceof RpcUnreachable) await putOff([one]).catch(() => undefined);
      else await onFault(claimId, row, error).catch(() => undefined);
    }
  }

  async function run(): Promise<void> {
    running += 1;
    for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
      await look(one);
      held.delete(one);
    }
    running -= 1;
  }

  return {
    async take(claimId, rows) {
      const taken = rows.slice(0, stopped ? 0 : MOST_HELD - held.size).map((row) => ({ claimId, row }));
      for (const one of taken) held.add(one);
      waiting.push(...taken);
      while (running < Math.min(AT_ONCE, running + waiting.length)) void run();
      const others = rows.slice(taken.length).map((row) => ({ claimId, row }));
      if (others.length > 0) await putOff(others);
    },
    async stop() {
      stopped = true;
      waiting.length = 0;
      await releaseClaims(sql, [...held].map(claimOf)).catch(() => undefined);
    },
  };
}
