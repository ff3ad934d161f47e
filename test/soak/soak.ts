// The soak: keepers collect for months of chain time while wallets act at random, the chain and its
// nodes have faults and processes die. This file has its start and its end; the steps are in
// scene.ts.
import { setTimeout as pause } from 'node:timers/promises';
import { expireKeeperLeases } from '../../src/db/operating/sandbox.ts';
import { seeded } from '../../src/local/sandbox/random.ts';
import { creditBreaches } from '../fixtures/credit-breaches.ts';
import { afterTheEnd, revived } from '../fixtures/ends.ts';
import { invoiceBreaches } from '../fixtures/invoice-breaches.ts';
import { journalBreaches } from '../fixtures/journal-breaches.ts';
import { subscribeAnew } from './acts.ts';
import { gatherMerchants, gatherPlayers } from './cast.ts';
import { type CreditFigures, readCreditFigures } from './credits.ts';
import { failOver, type Lost, nothingLost, tendHold } from './failover.ts';
import { createTrouble } from './faults.ts';
import { type Ground, startGround } from './ground.ts';
import {
  chainNow,
  createScene,
  hasPostponed,
  passPostponement,
  stubborn,
  workLeft,
} from './scene.ts';
import { patiently } from './send.ts';
import { type Sleep, watchSleep } from './sleep.ts';
import { createStranger, readKeeperLogs, reconcileBreaches } from './stranger.ts';
import { judge, readBooks } from './verdict.ts';
import { createWitness } from './witness.ts';

export interface SoakOptions {
  seed: number;
  keepers: number;
  subscriptions: number;
  /**
   * Runs until this number is recorded, each kind of fault has occurred and a transaction has
   * failed because of a payer.
   */
  payments: number;
  /** Runs until each of these actions has been taken and a payment was announced, too. */
  acts?: readonly string[];
  /** Looks at the work left that a step takes at the most, while it waits for the keepers. */
  patience?: number;
  /** Milliseconds that the keepers have at the end. */
  drainMs?: number;
  /** Maximum average cost of a payment. */
  maxLamports: number;
  /** Runs without faults and kills, to find problems that do not depend on them. */
  calm?: boolean;
  /**
   * A third of the payments at 40 % or less, a standby to which Postgres fails over with a loss,
   * endpoints that lie about heights, and apps with registerUnclaimed.
   */
  halfPrice?: boolean;
  /** Merchants grant credit to customers, who may share it, take it back and forgive invoices. */
  credits?: boolean;
  /** The keepers reach Postgres through PgBouncer in transaction mode. */
  pooler?: boolean;
  /** Keeps Postgres's data and all logs even without a breach. */
  keepData?: boolean;
  /** Ends the run early; the verdict is on the results so far. */
  signal?: AbortSignal;
  /** Called with progress messages. */
  report: (line: string) => void;
}

export interface Soak {
  seed: number;
  keepers: number;
  subscriptions: number;
  steps: number;
  chainDays: number;
  /** `byCredit`: those of the succeeded ones that credit paid whole. */
  payments: { succeeded: number; failed: number; foreign: number; byCredit: number };
  /** Pulls on chain that the books have, of those under a registration. */
  pullsBooked: number;
  /** Payments of at most 40 % of the plan's amount. */
  cheapPayments: number;
  pullsOnChain: number;
  foreignPullsUnregistered: number;
  /** Signed payments by outcome. */
  attempts: Record<string, number>;
  /** Their transactions by outcome. */
  transactions: Record<string, number>;
  paymentsPerTransaction: number;
  /** Network fees per succeeded payment, including those of failed transactions. */
  lamportsPerPayment: number;
  events: Record<string, number>;
  /** Number of refunds by status. */
  refunds: Record<string, number>;
  /** Actions of wallets and merchants. */
  acts: Record<string, number>;
  /** Injected faults. */
  faults: Record<string, number>;
  /** Only with `credits`. */
  credits?: CreditFigures;
  /** The losses of the failovers; only with `halfPrice`. */
  lost?: Lost;
  /**
   * Landed transactions of the stranger, by the form in which the keepers' endpoints return them.
   */
  junk: Record<string, number>;
  /** Number of the unreadable ones in the keepers' logs. */
  junkNamed: number;
  /** The keepers' alerts by reason. */
  alerts: Record<string, number>;
  paymentsPerSecond: number;
  elapsedMs: number;
  /** Part of the duration in which the machine was suspended. */
  sleptMs: number;
  /** Result of each check. */
  invariants: Record<string, boolean>;
}

const PATIENCE = 20;
const DRAIN_MS = 120_000;
/** Between reads of refunds: the keepers read them every three seconds. */
const FIND_MS = 4000;
/** Maximum steps between counts of the payments. */
const COUNT_EVERY = 10;
const REPORT_MS = 30_000;
const SETUP_AT_ONCE = 32;
/** Steps between failovers. */
const FAILOVER_STEPS = 12;

/** Runs it once. Throws an Error when it cannot be set up. */
export async function soak(options: SoakOptions): Promise<{ result: Soak; breaches: string[] }> {
  const {
    seed,
    keepers,
    subscriptions,
    payments,
    maxLamports,
    report,
    calm = false,
    halfPrice = false,
    credits = false,
    pooler = false,
    keepData = false,
    acts = [],
    patience = PATIENCE,
    drainMs = DRAIN_MS,
    signal,
  } = options;
  const startedAt = Date.now();
  const random = seeded(seed);
  const sleep = watchSleep();
  const ground = await startGround({
    ...{ keepers, random },
    hasStandby: halfPrice,
    hasPooler: pooler,
    hasCredits: credits,
  });
  let keep = true;
  try {
    const offers = await gatherMerchants(ground, random);
    const players = await gatherPlayers(ground, offers, subscriptions, random);
    const witness = createWitness(ground.rpc, {
      keeper: ground.keeper.address,
      treasury: ground.treasury,
    });
    const stopWatching = witness.follow();
    await eachOf(players, SETUP_AT_ONCE, (player) => subscribeAnew(ground, player));
    // The setup is finalized before the first fork.
    await ground.cheat('localnet_mineBlocks', 40);
    report(
      `${players.length} wallets have subscribed after ${since(startedAt)}; logs are in ${ground.logDirectory}`,
    );

    const chainStart = await chainNow(ground);
    const trouble = createTrouble(ground);
    const stranger = await createStranger(ground, players, random);
    const scene = createScene(ground, offers, players, { random, patience });
    const lost = nothingLost();
    let steps = 0;
    let paid = 0;
    let hasFailed = false;
    let hasAnnounced = false;
    const reportProgress = createReporter(async (perSecond) => {
      const chainDays = days(chainStart, await chainNow(ground));
      const struck = Object.values(trouble.counts).reduce((sum, count) => sum + count, 0);
      report(
        `step ${steps}: ${paid} payments (${perSecond} a second), ${chainDays} days, ${struck} faults, ${since(startedAt)}`,
      );
    });
    const allActed = () => acts.every((name) => (scene.acts[name] ?? 0) > 0);
    const isOver = () =>
      (paid >= payments &&
        hasFailed &&
        (acts.length === 0 || (hasAnnounced && allActed())) &&
        (calm || trouble.allTried()) &&
        stranger.allTried()) ||
      signal?.aborted === true;
    for (; !isOver(); steps += 1) {
      const { pair } = ground;
      const isLost = pair !== undefined && !calm && steps % FAILOVER_STEPS === FAILOVER_STEPS / 2;
      const own = seeded(random.below(2 ** 31));
      if (pair !== undefined) await tendHold(ground, lost);
      await (isLost
        ? scene.step(steps, () => failOver({ ground, pair, players, lost }, own))
        : scene.step(steps));
      const dice = seeded(random.below(2 ** 31));
      if (!calm) trouble.strike(dice);
      stranger.act(dice);
      if (steps % Math.min(COUNT_EVERY, Math.ceil(payments / 50)) > 0) continue;
      ({ paid, hasFailed, hasAnnounced } = await stubborn(() => readProgress(ground)));
      await reportProgress(paid);
    }
    await trouble.over();
    await scene.over();
    await stranger.over();
    const chainDays = days(chainStart, await chainNow(ground));
    report(`${steps} steps and ${paid} payments after ${since(startedAt)}; the keepers finish`);
    const undone = [
      ...(await drain(ground, sleep, drainMs, lost)),
      ...(await findRefunds(ground, sleep, drainMs)),
    ];
    await Promise.all(ground.keepers.map((one) => one.stop()));
    // All attempts of the keepers are finalized, and no process acts any more.
    await ground.cheat('localnet_mineBlocks', 40);
    await stopWatching();
    report(`drained after ${since(startedAt)}`);

    const { breaches, figures } = judge(
      await stubborn(() => readBooks(ground, offers, witness, sleep.awake)),
    );
    const { named: junkNamed, alerts } = await readKeeperLogs(ground);
    const all: Record<string, string[]> = {
      ...breaches,
      nothingLeftUndone: undone,
      paymentsAreCheap:
        figures.lamportsPerPayment <= maxLamports
          ? []
          : [`${figures.lamportsPerPayment} lamports for each payment`],
      noAlerts: Object.entries(alerts).map(([reason, count]) => `${count} times ${reason}`),
      reconcileFindsNothingFalse: await stubborn(() => reconcileBreaches(ground)),
      invoicesAgree: await stubborn(() => invoiceBreaches(ground.sql)),
      creditsAddUp: await stubborn(() => creditBreaches(ground.sql)),
      // What the chain moved is for reconcile to compare, above.
      journalAddsUp: await stubborn(() => journalBreaches(ground.sql, () => null)),
      nothingAfterTheEnd: await stubborn(() => afterTheEnd(ground.sql)),
      whatEndedStaysEnded: await stubborn(() =>
        revived(ground.sql, { asked: ground.asked, registerUnclaimed: halfPrice }),
      ),
    };
    const elapsedMs = Date.now() - startedAt;
    const named = Object.entries(all).flatMap(([name, list]) =>
      list.map((breach) => `${name}: ${breach}`),
    );
    keep = keepData || named.length > 0;
    if (keep) await witness.leave(ground.logDirectory);
    const result = {
      seed,
      keepers,
      subscriptions,
      steps,
      chainDays,
      ...figures,
      acts: sorted(scene.acts),
      faults: sorted(trouble.counts),
      ...(halfPrice && { lost }),
      ...(credits && { credits: await stubborn(() => readCreditFigures(ground.sql)) }),
      junk: sorted(stranger.counts),
      junkNamed,
      alerts: sorted(alerts),
      paymentsPerSecond: Math.round((figures.payments.succeeded * 10_000) / elapsedMs) / 10,
      elapsedMs,
      sleptMs: sleep.total(),
      invariants: Object.fromEntries(
        Object.entries(all).map(([name, list]) => [name, list.length === 0]),
      ),
    };
    return { result, breaches: named };
  } finally {
    sleep.stop();
    await ground.stop(keep);
    if (keep) report(`the data is left in ${ground.logDirectory}/..`);
  }
}

/** Reports progress every half minute, with the payments per second since the last report. */
function createReporter(
  report: (perSecond: string) => Promise<void>,
): (paid: number) => Promise<void> {
  let [reportedAt, before] = [Date.now(), 0];
  return async (paid) => {
    const ms = Date.now() - reportedAt;
    if (ms < REPORT_MS) return;
    await report(((1000 * (paid - before)) / ms).toFixed(1));
    [reportedAt, before] = [Date.now(), paid];
  };
}

/**
 * Waits until no subscription is due and no attempt is open; reports the remaining ones after a
 * while.
 */
async function drain(ground: Ground, sleep: Sleep, ms: number, lost: Lost): Promise<string[]> {
  // Leases of dead keepers expire after 45 s; waiting for them would not test anything.
  await stubborn(() => expireKeeperLeases(ground.sql));
  const deadline = sleep.awake(Date.now()) + ms;
  for (;;) {
    await tendHold(ground, lost);
    const left = await workLeft(ground);
    if (left === 0) {
      if (!(await hasPostponed(ground))) return [];
      await passPostponement(ground);
    }
    if (sleep.awake(Date.now()) > deadline)
      return [
        `${ms / 1000} s passed and ${left} subscriptions and attempts are still to be worked on`,
      ];
    await pause(100);
  }
}

/**
 * Waits until the keepers have recorded every finalized refund, and reports the missing ones after
 * a while.
 */
async function findRefunds(ground: Ground, sleep: Sleep, ms: number): Promise<string[]> {
  await ground.cheat('localnet_mineBlocks', 40);
  const deadline = sleep.awake(Date.now()) + ms;
  for (;;) {
    // Older refunds are looked for less often, so all refunds are made due now.
    const open = await stubborn(
      () => ground.sql<{ id: string; reference: string }[]>`
        update refunds set look_at = now() where status <> 'succeeded' returning id, reference`,
    );
    const missing: string[] = [];
    for (const { id, reference } of open) {
      const listed = await patiently(() =>
        ground.rpc.getSignaturesForAddress(reference, { limit: 1, commitment: 'finalized' }),
      );
      if (listed.some(({ err }) => err === null)) missing.push(id);
    }
    if (missing.length === 0) return [];
    if (sleep.awake(Date.now()) > deadline)
      return missing.map((id) => `the transfer of refund ${id} is final and not recorded`);
    await pause(FIND_MS);
  }
}

interface Progress {
  paid: number;
  /** A transaction has failed. */
  hasFailed: boolean;
  /** A payment was announced. */
  hasAnnounced: boolean;
}

async function readProgress({ sql }: Ground): Promise<Progress> {
  const [row] = await sql<[Progress]>`
    select (select count(*)::int from payments where status = 'succeeded') as paid,
      exists (select from transactions where state = 'failed') as has_failed,
      exists (select from events where type = 'renewal_upcoming') as has_announced`;
  return row;
}

async function eachOf<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const queue = [...items];
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
    }),
  );
}

const since = (startedAt: number) => `${((Date.now() - startedAt) / 1000).toFixed(0)} s`;
const days = (from: bigint, to: bigint) => Math.round(Number(to - from) / 8640) / 10;
const sorted = (counts: Record<string, number>) =>
  Object.fromEntries(Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1)));
