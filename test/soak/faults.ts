// Faults of chain, RPC and processes, chosen by the seed: alone and in combination.
import { setTimeout as pause } from 'node:timers/promises';
import { expireKeeperLeases } from '../../src/db/operating/sandbox.ts';
import type { Random } from '../../src/local/sandbox/random.ts';
import type { Ground, SoakKeeper } from './ground.ts';

export interface Trouble {
  /** Possibly injects faults in this step. */
  strike(random: Random): void;
  /** Whether each kind has occurred at least once. */
  allTried(): boolean;
  /** Everything that was begun has happened, and every fault is off. */
  over(): Promise<void>;
  /** Number of occurrences of each fault. */
  counts: Record<string, number>;
}

/** Faults of the chain and its nodes, with their own random numbers. */
type Fault = (random: Random, cheat: Ground['cheat']) => Promise<unknown>;

const ENDPOINTS = ['main', 'lagging', 'both'] as const;
const set = (cheat: Ground['cheat'], settings: Record<string, unknown>) =>
  cheat('localnet_setFault', settings);
const many = (random: Random) => 1 + random.below(30);

const faults: Readonly<Record<string, Fault>> = {
  drop: (random, cheat) => set(cheat, { kind: 'drop', count: many(random) }),
  hold: (random, cheat) =>
    set(cheat, { kind: 'hold', blocks: 1 + random.below(200), count: many(random) }),
  429: (random, cheat) =>
    set(cheat, {
      kind: 'status',
      status: 429,
      count: many(random),
      retryAfter: random.below(2),
      endpoint: random.pick(ENDPOINTS),
    }),
  500: (random, cheat) =>
    set(cheat, {
      kind: 'status',
      status: 500,
      count: many(random),
      endpoint: random.pick(ENDPOINTS),
    }),
  silence: (random, cheat) =>
    set(cheat, { kind: 'silence', count: 1 + random.below(3), endpoint: random.pick(ENDPOINTS) }),
  lag: (random, cheat) => set(cheat, { kind: 'lag', slots: random.below(33) }),
  fork: (random, cheat) => cheat('localnet_forgetBlocks', 1 + random.below(28), { replay: true }),
  'fork without its transactions': (random, cheat) =>
    cheat('localnet_forgetBlocks', 1 + random.below(28), { replay: false }),
};

/** Faults of a soak with a standby. */
const lies: Readonly<Record<string, Fault>> = {
  // Up to two lifetimes of a blockhash, too high or too low, by one of the endpoints.
  'lying heights': (random, cheat) =>
    set(cheat, {
      kind: 'height',
      blocks: random.below(601) - 300,
      endpoint: random.pick(['main', 'lagging']),
    }),
};
const SLOW_MS = 3000;

/** Every kind of fault: a soak without one of them does not test it. */
export const TROUBLES = [
  ...Object.keys(faults),
  'Postgres killed',
  'keeper killed',
  'leases lapsed',
];

/** Faults for `ground`; none before the first strike. */
export function createTrouble(ground: Ground): Trouble {
  const { cheat, keepers, sql, pair } = ground;
  const ofChain = pair === undefined ? faults : { ...faults, ...lies };
  const kinds = [
    ...TROUBLES,
    ...(pair === undefined ? [] : [...Object.keys(lies), 'Postgres slow']),
  ];
  const counts: Record<string, number> = {};
  const underWay = new Set<Promise<unknown>>();
  const down = new Set<SoakKeeper>();
  const begin = (name: string, work: () => Promise<unknown>) => {
    const count = (ended: string) => (counts[ended] = (counts[ended] ?? 0) + 1);
    const done = work().then(
      () => count(name),
      // A fork cannot revert finalized blocks, and Postgres may be down at the moment.
      () => count(`${name} refused`),
    );
    underWay.add(done);
    void done.finally(() => underWay.delete(done));
  };

  const strikes: Readonly<Record<string, (random: Random) => void>> = {
    ...Object.fromEntries(
      Object.entries(ofChain).map(([name, fault]) => [
        name,
        (random: Random) => {
          begin(name, () => fault(random, cheat));
        },
      ]),
    ),
    'Postgres killed': () => {
      begin('Postgres killed', () => {
        return Promise.resolve(ground.killPostgres());
      });
    },
    'keeper killed': (random) => {
      const [victim, afterMs] = [random.pick(keepers), random.below(500)];
      // A keeper that is down is not killed again, because on a slow machine it would never come
      // up.
      if (down.has(victim)) return;
      down.add(victim);
      begin('keeper killed', async () => {
        await pause(afterMs);
        void victim.fall().finally(() => down.delete(victim));
      });
    },
    'Postgres slow': (random) => {
      const ms = random.below(SLOW_MS);
      begin('Postgres slow', async () => pair?.slow(ms));
    },
    // Leases expire after 45 s. Occasionally a pause of that length expires all of them together,
    // even those of live keepers.
    'leases lapsed': () => {
      begin('leases lapsed', () => expireKeeperLeases(sql));
    },
  };
  const strike = (name: string, random: Random) => strikes[name]?.(random);
  // Even a short soak has each kind once; Postgres first, so that the verdict has live connections.
  const untried = () => kinds.filter((name) => counts[name] === undefined);
  let begun = false;

  return {
    counts,
    allTried: () => untried().length === 0,
    strike(random) {
      const missing = untried();
      if (!begun) strike('Postgres killed', random);
      else if (missing.length > 0) strike(random.pick(missing), random);
      begun = true;
      if (random.below(4) === 0) strike(random.pick(Object.keys(ofChain)), random);
      if (random.below(15) === 0) begin('cleared', () => cheat('localnet_clearFaults'));
      if (random.below(15) === 0) strike('keeper killed', random);
      if (random.below(20) === 0) strike('leases lapsed', random);
      if (random.below(250) === 0) strike('Postgres killed', random);
      if (pair !== undefined && random.below(20) === 0) strike('Postgres slow', random);
    },
    async over() {
      while (underWay.size > 0) await Promise.allSettled(underWay);
      await cheat('localnet_clearFaults');
    },
  };
}
