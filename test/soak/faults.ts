// What the seed inflicts on chain, RPC and processes, one thing at a time and any number at once.
import { setTimeout as pause } from 'node:timers/promises';
import { expireKeeperLeases } from '../../src/db/sandbox.ts';
import type { Random } from '../../src/sandbox/random.ts';
import type { Ground } from './ground.ts';

export interface Trouble {
  /** Perhaps something, perhaps nothing, in this step. */
  strike(random: Random): void;
  /** Whether each kind has come at least once. */
  allTried(): boolean;
  /** Everything that was begun has happened, and every fault is off. */
  over(): Promise<void>;
  /** How often each thing happened. */
  counts: Record<string, number>;
}

type Strike = (random: Random) => void;

const ENDPOINTS = ['main', 'lagging', 'both'] as const;

/** Faults for `ground`; none before the first strike. */
export function createTrouble(ground: Ground): Trouble {
  const { cheat, keepers, sql } = ground;
  const counts: Record<string, number> = {};
  const underWay = new Set<Promise<unknown>>();
  const count = (name: string) => (counts[name] = (counts[name] ?? 0) + 1);
  const begin = (name: string, work: () => Promise<unknown>) => {
    const done = work().then(
      () => count(name),
      // A fork cannot go beyond what is final, and Postgres may be down just now.
      () => count(`${name} refused`),
    );
    underWay.add(done);
    void done.finally(() => underWay.delete(done));
  };
  const fault = (name: string, settings: Record<string, unknown>) => {
    begin(name, () => cheat('localnet_setFault', settings));
  };

  const faults: Strike[] = [
    (random) => fault('drop', { kind: 'drop', count: 1 + random.below(30) }),
    (random) => fault('hold', { kind: 'hold', blocks: 1 + random.below(200), count: 1 + random.below(30) }),
    (random) =>
      fault('429', {
        kind: 'status',
        status: 429,
        count: 1 + random.below(30),
        retryAfter: random.below(2),
        endpoint: random.pick(ENDPOINTS),
      }),
    (random) => fault('500', { kind: 'status', status: 500, count: 1 + random.below(30), endpoint: random.pick(ENDPOINTS) }),
    (random) => fault('silence', { kind: 'silence', count: 1 + random.below(3), endpoint: random.pick(ENDPOINTS) }),
    (random) => fault('lag', { kind: 'lag', slots: random.below(33) }),
    (random) => {
      const [blocks, replay] = [1 + random.below(28), random.below(2) === 0];
      begin(replay ? 'fork' : 'fork without its transactions', () => cheat('localnet_forgetBlocks', blocks, { replay }));
    },
  ];
  const clear = () => begin('cleared', () => cheat('localnet_clearFaults'));
  const killKeeper = (random: Random) => {
    const [victim, afterMs] = [random.below(keepers.length), random.below(500)];
    begin('keeper killed', async () => {
      await pause(afterMs);
      keepers[victim]?.kill();
    });
  };
  // Leases lapse by themselves, after 45 s. Now and then all do so at once, those of keepers that live as well: a pause as long as that.
  const lapse = () => begin('leases lapsed', () => expireKeeperLeases(sql));
  const killPostgres = () =>
    begin('Postgres killed', () => {
      ground.killPostgres();
      return Promise.resolve();
    });
  // However short it is, each kind comes once; Postgres first, so that whoever judges has connections that live.
  const untried = new Set<Strike>([killPostgres]);
  const others = [...faults, killKeeper, lapse];

  return {
    counts,
    allTried: () => untried.size === 0,
    strike(random) {
      if (untried.size > 0 && random.below(2) === 0) {
        const one = random.pick([...untried]);
        untried.delete(one);
        for (const other of others.splice(0)) untried.add(other);
        one(random);
      }
      if (random.below(4) === 0) random.pick(faults)(random);
      if (random.below(12) === 0) clear();
      if (random.below(15) === 0) killKeeper(random);
      if (random.below(20) === 0) lapse();
      if (random.below(250) === 0) killPostgres();
    },
    async over() {
      while (underWay.size > 0) await Promise.allSettled(underWay);
      await cheat('localnet_clearFaults');
    },
  };
}
