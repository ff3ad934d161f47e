// The soak: keepers collect for months of chain time while wallets do as they please, the chain and its nodes misbehave and processes die.
// Time waits for the keepers as long as they are in a passable state: what they miss beyond that, they have to make sense of.
import { setTimeout as pause } from 'node:timers/promises';
import pRetry from 'p-retry';
import { subscriptionsDue } from '../../src/db/notify.ts';
import { expireKeeperLeases, readWorkLeft } from '../../src/db/sandbox.ts';
import { measureOpenAttempts } from '../../src/db/payment-attempts.ts';
import { timeOf } from '../../src/domain/network.ts';
import { messageOf } from '../../src/errors.ts';
import { seeded, type Random } from '../../src/sandbox/random.ts';
import { act, subscribeAnew, tendOffer } from './acts.ts';
import { gatherMerchants, gatherPlayers, type Offer, type Player } from './cast.ts';
import { createTrouble } from './faults.ts';
import { type Ground, startGround } from './ground.ts';
import { judge } from './verdict.ts';
import { createWitness } from './witness.ts';

export interface SoakOptions {
  seed: number;
  keepers: number;
  subscriptions: number;
  /** Goes on until so many are recorded, and each kind of fault has struck. */
  payments: number;
  /** No faults and no kills: what is slow or wrong even so. */
  calm?: boolean;
  /** Leaves Postgres's data and all logs in place even when nothing is wrong. */
  keepData?: boolean;
  /** Ends the play early: what there is by then is judged. */
  signal?: AbortSignal;
  /** Told in words how it goes. */
  tell: (line: string) => void;
}

export interface Soak {
  seed: number;
  keepers: number;
  subscriptions: number;
  steps: number;
  chainDays: number;
  payments: { succeeded: number; failed: number; foreign: number };
  pullsOnChain: number;
  foreignPullsUnregistered: number;
  /** Signed transactions by how they ended. */
  attempts: Record<string, number>;
  events: Record<string, number>;
  /** What wallets and merchants did. */
  acts: Record<string, number>;
  /** What was inflicted. */
  faults: Record<string, number>;
  paymentsPerSecond: number;
  elapsedMs: number;
  /** Whether each held. */
  invariants: Record<string, boolean>;
}

/** Chain seconds of a step, at the least and the most. */
const STEP_SECONDS = [1200, 5400] as const;
/** Real milliseconds of a step: at least, so that faults and keepers meet; at most, since time does not wait. */
const STEP_MS = [100, 3000] as const;
/** The next step comes when no more than this part of the subscriptions is due or in hand, or the patience is at its end. */
const LEFT_PART = 0.04;
const DRAIN_MS = 300_000;
/** Steps between looks at how many payments there are. */
const COUNT_EVERY = 10;
const SETUP_AT_ONCE = 16;
/** Of so many wallets one more acts in each step: over the months each of them does so a few times. */
const WALLETS_AN_ACTOR = 1000;

/** Runs it once. Throws an Error when it cannot be set up or does not come to its end. */
export async function soak(options: SoakOptions): Promise<{ result: Soak; breaches: string[] }> {
  const { seed, keepers, subscriptions, payments, tell, calm = false, keepData = false, signal } = options;
  const startedAt = Date.now();
  const random = seeded(seed);
  const ground = await startGround({ keepers, random });
  let keep = true;
  try {
    const offers = await gatherMerchants(ground, random);
    const players = await gatherPlayers(ground, offers, subscriptions, random);
    const witness = createWitness(ground.rpc, { keeper: ground.keeper.address, treasury: ground.treasury });
    const stopWatching = witness.follow();
    await eachOf(players, SETUP_AT_ONCE, (player) => subscribeAnew(ground, player));
    // What was set up is final before anything forks.
    await ground.cheat('localnet_mineBlocks', 40);
    tell(`${players.length} wallets have subscribed after ${since(startedAt)}; logs are in ${ground.logDirectory}`);

    const chainStart = await chainNow(ground);
    const trouble = createTrouble(ground);
    const acts: Record<string, number> = {};
    const done = (name: string) => (acts[name] = (acts[name] ?? 0) + 1);
    const underWay = new Set<Promise<unknown>>();
    let steps = 0;
    const isOver = (paid: number) => (paid >= payments && (calm || trouble.allTried())) || signal?.aborted === true;
    for (let paid = 0; !isOver(paid); steps += 1) {
      await step({ ground, offers, players, random, done, underWay });
      if (!calm) trouble.strike(random);
      if (steps % Math.min(COUNT_EVERY, Math.ceil(payments / 50)) > 0) continue;
      paid = await stubborn(() => countPayments(ground));
      if (steps % (10 * COUNT_EVERY) === 0) {
        tell(`step ${steps}: ${paid} payments, ${days(chainStart, await chainNow(ground))} days, ${since(startedAt)}`);
      }
    }
    await trouble.over();
    await Promise.all(underWay);
    const chainDays = days(chainStart, await chainNow(ground));
    await drain(ground);
    await Promise.all(ground.keepers.map((one) => one.stop()));
    const { count: open } = await measureOpenAttempts(ground.sql);
    // Whatever the keepers had under way is final, and nobody is left to do more.
    await ground.cheat('localnet_mineBlocks', 40);
    await stopWatching();
    tell(`drained after ${since(startedAt)}, ${open} attempts open`);

    const { breaches, figures } = await judge(ground, offers, witness);
    const elapsedMs = Date.now() - startedAt;
    const named = Object.entries(breaches).flatMap(([name, list]) => list.map((breach) => `${name}: ${breach}`));
    keep = keepData || named.length > 0;
    if (keep) await witness.leave(ground.logDirectory);
    const result = {
      seed,
      keepers,
      subscriptions,
      steps,
      chainDays,
      ...figures,
      acts: sorted(acts),
      faults: sorted(trouble.counts),
      paymentsPerSecond: Math.round((figures.payments.succeeded * 10_000) / elapsedMs) / 10,
      elapsedMs,
      invariants: Object.fromEntries(Object.entries(breaches).map(([name, list]) => [name, list.length === 0])),
    };
    return { result, breaches: named };
  } finally {
    await ground.stop(keep);
    if (keep) tell(`the data is left in ${ground.logDirectory}/..`);
  }
}

interface Scene {
  ground: Ground;
  offers: readonly Offer[];
  players: readonly Player[];
  random: Random;
  done: (name: string) => void;
  underWay: Set<Promise<unknown>>;
}

/** Some wallets begin to act, time moves, and the keepers get a moment. */
async function step({ ground, offers, players, random, done, underWay }: Scene): Promise<void> {
  const begin = (work: () => Promise<string>) => {
    const ended = work().then(done, (error: unknown) => done(`interrupted: ${messageOf(error).slice(0, 40)}`));
    underWay.add(ended);
    void ended.finally(() => underWay.delete(ended));
  };
  for (let actors = 1 + Math.floor(players.length / WALLETS_AN_ACTOR); actors > 0; actors -= 1) {
    const [player, own] = [random.pick(players), seeded(random.below(2 ** 31))];
    if (player.busy) continue;
    player.busy = true;
    begin(() => act(ground, player, own).finally(() => (player.busy = false)));
  }
  if (random.below(30) === 0) {
    const [offer, own] = [random.pick(offers), seeded(random.below(2 ** 31))];
    begin(() => tendOffer(ground, offer, own));
  }
  const [least, most] = STEP_SECONDS;
  const seconds = least + random.below(most - least);
  // A look at everything done now and then, as a quiet night would allow.
  const patience = random.below(40) === 0 ? 5 * STEP_MS[1] : STEP_MS[1];
  const absoluteTimestamp = (Number(await chainNow(ground)) + seconds) * 1000;
  await ground.cheat('surfnet_timeTravel', { absoluteTimestamp });
  await stubborn(() => ground.sql.notify(subscriptionsDue, ''));
  const began = performance.now();
  await pause(STEP_MS[0]);
  while (performance.now() - began < patience && (await workLeft(ground)) > LEFT_PART * players.length) await pause(30);
}

/** What is due, in somebody's hands, or on its way. */
async function workLeft(ground: Ground): Promise<number> {
  const now = timeOf(await chainNow(ground));
  const { subscriptions, openAttempts } = await stubborn(() => readWorkLeft(ground.sql, now));
  return subscriptions + openAttempts;
}

/** Resolves when nothing is due and nothing is on its way. */
async function drain(ground: Ground): Promise<void> {
  await Promise.all(ground.keepers.map((one) => one.ready()));
  // What dead keepers held lapses after 45 s; nobody learns anything by waiting for it.
  await stubborn(() => expireKeeperLeases(ground.sql));
  const deadline = performance.now() + DRAIN_MS;
  while ((await workLeft(ground)) > 0) {
    if (performance.now() > deadline) throw new Error(`${DRAIN_MS / 1000} s passed and the keepers still have work`);
    await pause(100);
  }
}

/** The newest time there is. */
function chainNow({ rpc }: Ground): Promise<bigint> {
  return stubborn(async () => (await rpc.getClock({ commitment: 'processed' })).unixTimestamp);
}

async function countPayments({ sql }: Ground): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*)::int as count from payments where status = 'succeeded'`;
  return row?.count ?? 0;
}

/** Chain and Postgres are away for a moment now and then: whoever stages that asks again. */
function stubborn<T>(ask: () => Promise<T>): Promise<T> {
  return pRetry(ask, { retries: 300, factor: 1, minTimeout: 200 });
}

async function eachOf<T>(items: readonly T[], atOnce: number, work: (item: T) => Promise<unknown>): Promise<void> {
  const queue = [...items];
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
    }),
  );
}

const since = (startedAt: number) => `${((Date.now() - startedAt) / 1000).toFixed(0)} s`;
const days = (from: bigint, to: bigint) => Math.round(Number(to - from) / 8640) / 10;
const sorted = (counts: Record<string, number>) => Object.fromEntries(Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1)));
