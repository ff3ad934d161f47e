// Plays the scenario: wallets subscribe, then the chain's time advances period by period, and each
// subscriber takes the actions of its role. Time advances only when all due work is done, so no due
// time is skipped.
import { bringRetriesForward, readWorkLeft } from '../../db/operating/sandbox.ts';
import { SUBSCRIPTIONS_DUE } from '../../db/postgres/notify.ts';
import { each } from '../../each.ts';
import { type Chaos, retrying } from './chaos.ts';
import type { MerchantServer } from './merchant-server.ts';
import { PERIOD_HOURS, type Merchant } from './merchants.ts';
import type { Processes } from './processes.ts';
import type { Random } from './random.ts';
import {
  actMidPeriod,
  actPastDue,
  fundedPeriods,
  roles,
  subscribe,
  type SubscriberRole,
  type Stage,
  type Subscriber,
} from './subscribers.ts';
import { walletFromSeed } from './wallet.ts';

/** The options that passTimeUntil() needs. */
export type Passing = Pick<PlayOptions, 'stage' | 'processes' | 'chaos' | 'signal'>;

export interface PlayOptions {
  stage: Stage;
  processes: Processes;
  server: MerchantServer;
  merchants: Merchant[];
  subscribers: Subscriber[];
  periods: number;
  random: Random;
  chaos: Chaos;
  /** Called with each message about the progress. */
  report: (line: string) => void;
  /** When this signal aborts, play() stops and throws the signal's reason. */
  signal: AbortSignal;
}

export const periodSeconds = BigInt(PERIOD_HOURS * 3600);
/**
 * The scenario ends this long (h) before its last period ends, so that the overview of the last 30
 * days includes the payments of that period.
 */
const REST_HOURS = 240;
/** Hours of chain time that a scenario of this number of periods takes. */
export const playHours = (periods: number): number => periods * PERIOD_HOURS - REST_HOURS;
// Index of the merchant whose webhook server fails during the second period.
const FAILING_MERCHANT = 1;

/**
 * Creates `count` subscribers. Each role is given once, to the first subscribers. About half of the
 * others are steady, the rest have random roles. A subscriber's action comes in the second period
 * or later, and its effects end before the last period ends.
 */
export function cast(
  count: number,
  periods: number,
  merchants: Merchant[],
  random: Random,
): Subscriber[] {
  return Array.from({ length: count }, (_, index) => {
    const role: SubscriberRole =
      roles[index] ?? (random.below(2) === 0 ? 'steady' : random.pick(roles));
    return {
      wallet: walletFromSeed(random.seed32()),
      token: '',
      merchant: random.pick(merchants),
      role,
      at: 1 + random.below(periods - 3),
      subscriptionId: '',
      subscriptionPda: '',
    };
  });
}

/** Plays all periods. Throws an Error when due work is not finished within a minute. */
export async function play(options: PlayOptions): Promise<void> {
  const { stage, subscribers, periods, random, report, server, processes } = options;
  await each(subscribers, 8, async (subscriber) => {
    options.signal.throwIfAborted();
    const usdc = subscriber.merchant.amount * BigInt(fundedPeriods(subscriber, periods));
    await stage.chain.fund(subscriber.wallet.address, { usdc });
    await subscribe(stage, subscriber);
  });
  const start = await stage.chain.now();
  report(`${subscribers.length} wallets subscribed and registered`);

  for (let period = 0; period < periods; period += 1) {
    if (period === 1) server.setFailing(FAILING_MERCHANT, true);
    if (period === 2) {
      server.setFailing(FAILING_MERCHANT, false);
      const waiting = await retrying(() => bringRetriesForward(processes.sql));
      report(`a merchant's server is back: ${waiting} deliveries are tried again`);
    }
    // All wallets subscribed before `start`. At `due`, every payment of the period has therefore
    // been due for at least a minute.
    const due = start + BigInt(period) * periodSeconds + 60n;
    if (period > 0) await passTimeUntil(options, due);
    await untilIdle(options);
    report(`period ${period + 1} of ${periods}: due payments are settled`);

    const pastDue = subscribers.filter(
      ({ role, at }) => at === period && (role === 'topsUp' || (role === 'revokes' && period > 0)),
    );
    await passTimeUntil(options, due + 2n * 3600n);
    await each(
      pastDue.filter(({ role }) => role === 'topsUp'),
      4,
      (subscriber) => actPastDue(stage, subscriber, periods),
    );
    const revoked = subscribers.filter(({ role, at }) => role === 'revokes' && at === period - 1);
    await each(revoked, 4, (subscriber) => actPastDue(stage, subscriber, periods));
    await passTimeUntil(options, due + periodSeconds / 2n);
    await each(
      subscribers.filter(({ at }) => at === period),
      4,
      (subscriber) => actMidPeriod(stage, subscriber),
    );
    options.chaos.strike(random);
    const isLast = period === periods - 1;
    const hours = isLast ? playHours(periods) : (period + 1) * PERIOD_HOURS - 1;
    await passTimeUntil(options, start + BigInt(hours * 3600));
    await untilIdle(options);
  }
  await options.chaos.spent();
  await untilIdle(options);
}

/**
 * Moves the chain's clock to `target`. Stops at each time at which work becomes due, and waits
 * until that work is done.
 */
export async function passTimeUntil(options: Passing, target: bigint): Promise<void> {
  const { stage, processes } = options;
  for (;;) {
    await untilIdle(options);
    const now = await stage.chain.now();
    if (now >= target) return;
    const { nextDue } = await retrying(() => readWorkLeft(processes.sql, date(now)));
    // The clock stops ten minutes after the next due time. Subscriptions that become due within
    // these ten minutes are then collected at the same stop.
    const next = nextDue === null ? target : BigInt(Math.ceil(nextDue.getTime() / 1000)) + 600n;
    const step = next < target ? next : target;
    // The chain's clock also runs in real time, so a step of one second needs no time travel.
    if (step > now + 1n) await stage.chain.travelTo(step);
    else await new Promise((resolve) => setTimeout(resolve, 200));
    await retrying(() => processes.sql.notify(SUBSCRIPTIONS_DUE, ''));
  }
}

/**
 * Resolves when no work is due. The keeper's work is due by the chain's clock, the dispatcher's
 * work by the clock of Postgres.
 */
async function untilIdle({ stage, processes, chaos, signal }: Passing): Promise<void> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    signal.throwIfAborted();
    await chaos.recover();
    const left = await retrying(async () =>
      readWorkLeft(processes.sql, date(await stage.chain.now())),
    );
    if (left.subscriptions + left.openAttempts + left.deliveries === 0) return;
    if (Date.now() > deadline)
      throw new Error(`a minute passed and there is still work left: ${JSON.stringify(left)}`);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}

const date = (seconds: bigint) => new Date(Number(seconds) * 1000);
