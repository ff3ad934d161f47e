// The scenario: wallets subscribe, then time advances period by period while each wallet acts by
// its role. Time only advances when all due work is done, so months pass in seconds and no due time
// is skipped.
import { SUBSCRIPTIONS_DUE } from '../../db/postgres/notify.ts';
import { bringRetriesForward, readWorkLeft } from '../../db/sandbox.ts';
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

export interface PlayOptions {
  stage: Stage;
  processes: Processes;
  server: MerchantServer;
  merchants: Merchant[];
  subscribers: Subscriber[];
  periods: number;
  random: Random;
  chaos: Chaos;
  /** Called with progress messages for a terminal. */
  tell: (line: string) => void;
  /** When aborted, the scenario stops and throws the signal's reason. */
  signal: AbortSignal;
}

const periodSeconds = BigInt(PERIOD_HOURS * 3600);
// The merchant whose server is down for the second period.
const FAILING_MERCHANT = 1;

/**
 * The cast: every role at least once, mostly steady payers. Their first actions are in the second
 * period, the last early enough to finish in time.
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

/**
 * Plays all periods. Throws an Error with the awaited condition when a step exceeds its time limit.
 */
export async function play(options: PlayOptions): Promise<void> {
  const { stage, subscribers, periods, random, tell, server, processes } = options;
  await each(subscribers, 8, async (subscriber) => {
    options.signal.throwIfAborted();
    const usdc = subscriber.merchant.amount * BigInt(fundedPeriods(subscriber, periods));
    await stage.chain.fund(subscriber.wallet.address, { usdc });
    await subscribe(stage, subscriber);
  });
  const start = await stage.chain.now();
  tell(`${subscribers.length} wallets subscribed and registered`);

  for (let period = 0; period < periods; period += 1) {
    if (period === 1) server.setFailing(FAILING_MERCHANT, true);
    if (period === 2) {
      server.setFailing(FAILING_MERCHANT, false);
      const waiting = await retrying(() => bringRetriesForward(processes.sql));
      tell(`a merchant's server is back: ${waiting} deliveries are tried again`);
    }
    // Advances to a minute past the last due time of the period, then to its middle, with a stop at
    // each due time in between.
    const due = start + BigInt(period) * periodSeconds + 60n;
    if (period > 0) await passTimeUntil(options, due);
    await quiet(options);
    tell(`period ${period + 1} of ${periods}: due payments are settled`);

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
    await passTimeUntil(options, start + BigInt(period + 1) * periodSeconds - 3600n);
    await quiet(options);
  }
  await options.chaos.spent();
  await quiet(options);
}

/** Moves the chain's clock to `target`, with a stop at each due time until the work is done. */
async function passTimeUntil(options: PlayOptions, target: bigint): Promise<void> {
  const { stage, processes } = options;
  for (;;) {
    await quiet(options);
    const now = await stage.chain.now();
    if (now >= target) return;
    const { nextDue } = await retrying(() => readWorkLeft(processes.sql, date(now)));
    // Also handles subscriptions due within ten minutes after the next due one.
    const next = nextDue === null ? target : BigInt(Math.ceil(nextDue.getTime() / 1000)) + 600n;
    const step = next < target ? next : target;
    // The clock also runs by itself, so a time within a second needs no time travel.
    if (step > now + 1n) await stage.chain.travelTo(step);
    else await new Promise((resolve) => setTimeout(resolve, 200));
    await retrying(() => processes.sql.notify(SUBSCRIPTIONS_DUE, ''));
  }
}

/**
 * Resolves when all due work is done: that of the keeper by chain time, that of the dispatcher by
 * database time.
 */
async function quiet({ stage, processes, chaos, signal }: PlayOptions): Promise<void> {
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
