// The steps of the soak: some wallets act, chain time advances, and the keepers get a moment. Time
// does not wait for them, so they must handle missed due times.
import { setTimeout as pause } from 'node:timers/promises';
import pRetry from 'p-retry';
import { timeOf } from '../../src/chain/time.ts';
import { readWorkLeft } from '../../src/db/operating/sandbox.ts';
import { SUBSCRIPTIONS_DUE } from '../../src/db/postgres/notify.ts';
import { messageOf } from '../../src/errors.ts';
import { seeded, type Random } from '../../src/local/sandbox/random.ts';
import { act, cancelInTheAir, failAfterRead, tendOffer } from './acts.ts';
import type { Offer, Player } from './cast.ts';
import { CREDIT_ACTS, changeCredits } from './credits.ts';
import type { Ground } from './ground.ts';
import { changeTerms, TERMS } from './terms.ts';

/** Minimum and maximum chain seconds of a step. */
const STEP_SECONDS = [1800, 7200] as const;
/**
 * Minimum real milliseconds of a step, so that faults hit keepers at work, and between two reads of
 * the work left.
 */
const [LEAST_MS, READ_MS] = [50, 25];
/**
 * The next step starts when at most this share of the subscriptions is due or leased, or it has
 * read often enough: on a slow machine reads take longer.
 */
const LEFT_PART = 0.08;
/**
 * One wallet per this number acts in each step, so that over the months each wallet acts a few
 * times.
 */
const WALLETS_AN_ACTOR = 1000;
/** Maximum wait for idle keepers around a failover. */
const IDLE_MS = 45_000;
/** Besides, in a step with something meanwhile. */
const MORE_ACTORS = 10;
/**
 * Number of returns of a wallet after its action, and the maximum steps until then, to repair its
 * subscription.
 */
const VISITS = 3;
const VISIT_STEPS = 40;
/**
 * In each step, the merchant of one wallet per this number changes a subscription's terms or
 * refunds a payment.
 */
const WALLETS_A_CHANGE = 1000;
/**
 * With --credits, in each step, the merchant of one wallet per this number changes the credit or
 * forgives an invoice.
 */
const WALLETS_A_CREDIT = 100;
/**
 * One wallet per this number checks its subscription in each step, because its plan may have ended.
 */
const WALLETS_A_VISITOR = 250;
/**
 * In one step of this number, a subscription with a payment in flight is cancelled, as soon as
 * there is one, or this number of ms later at the most.
 */
const AIR_STEPS = 4;
const AIR_MS = 300;
const AIR_READS = 20;

/**
 * Consecutive keeper failures after which the end does not wait for a subscription, and the maximum
 * delay of the earlier ones (keeper-backoff.ts).
 */
const SOON_AGAIN = 4;
const POSTPONED_SECONDS = 90;

export interface Scene {
  /**
   * Some wallets start to act, chain time advances, and the keepers get a moment, or as long as
   * `meanwhile` takes.
   */
  step(number: number, meanwhile?: () => Promise<void>): Promise<void>;
  /** Resolves when no wallet acts any more. */
  over(): Promise<void>;
  /** Number of each action. */
  acts: Record<string, number>;
}

/** A wallet that will come back. */
interface Visit {
  player: Player;
  at: number;
  left: number;
}

/** No wallet acts before the first step. */
export function createScene(
  ground: Ground,
  offers: readonly Offer[],
  players: readonly Player[],
  { random, patience }: { random: Random; patience: number },
): Scene {
  const acts: Record<string, number> = {};
  const underWay = new Set<Promise<unknown>>();
  let visits: Visit[] = [];
  let steps = 0;
  const done = (name: string) => (acts[name] = (acts[name] ?? 0) + 1);
  const begin = (work: () => Promise<string>) => {
    const ended = work().then(done, (error: unknown) =>
      done(`interrupted: ${messageOf(error).slice(0, 40)}`),
    );
    underWay.add(ended);
    void ended.finally(() => underWay.delete(ended));
  };
  const byWallet = new Map(players.map((player) => [player.wallet.address, player]));
  const visitLater = (player: Player, number: number, left: number) =>
    visits.push({ player, at: number + 1 + random.below(VISIT_STEPS), left });
  const armed = new Set<Player>();
  const call = (player: Player, number: number, left: number, repairs: boolean) => {
    const own = seeded(random.below(2 ** 31));
    if (left > 0) visitLater(player, number, left);
    if (player.busy) return;
    player.busy = true;
    begin(() => act(ground, player, own, { repairs }).finally(() => (player.busy = false)));
  };

  /** Each fickle wallet that has recovered will fail the keeper once more. */
  const armFickle = (number: number) => {
    const recovering = new Set(visits.map(({ player }) => player));
    for (const player of players) {
      if (!player.fickle || armed.has(player) || recovering.has(player)) continue;
      armed.add(player);
      const how = random.below(2) === 0 ? 'poor' : 'revoked';
      failAfterRead(ground, player, how, () => {
        done(`${how} after the read`);
        armed.delete(player);
        visitLater(player, steps, VISITS);
      });
    }
    steps = number;
  };
  const cancelSome = (number: number) => {
    const afterMs = random.below(AIR_MS);
    begin(async () => {
      await pause(afterMs);
      let wallet = await cancelInTheAir(ground);
      for (let reads = 1; wallet === undefined && reads < AIR_READS; reads += 1) {
        await pause(LEAST_MS);
        wallet = await cancelInTheAir(ground);
      }
      const player = byWallet.get(wallet ?? '');
      if (player !== undefined) visitLater(player, number, VISITS);
      return player === undefined ? 'nothing in the air' : 'forceCancel in the air';
    });
  };

  return {
    acts,
    async step(number, meanwhile) {
      armFickle(number);
      const due = visits.filter(({ at }) => at <= number);
      visits = visits.filter(({ at }) => at > number);
      for (const { player, left } of due) call(player, number, left - 1, true);
      for (
        let actors = 1 + Math.floor(players.length / WALLETS_AN_ACTOR);
        actors > 0;
        actors -= 1
      ) {
        call(random.pick(players), number, VISITS, false);
      }
      if (meanwhile !== undefined)
        for (let more = 0; more < MORE_ACTORS; more += 1)
          call(random.pick(players), number, VISITS, false);
      for (
        let visitors = Math.floor(players.length / WALLETS_A_VISITOR);
        visitors > 0;
        visitors -= 1
      ) {
        // The shorter its periods, the more often.
        const some = [random.pick(players), random.pick(players), random.pick(players)];
        call(
          some.reduce((one, other) =>
            other.offer.periodHours < one.offer.periodHours ? other : one,
          ),
          number,
          0,
          true,
        );
      }
      for (let changes = 0; changes <= players.length / WALLETS_A_CHANGE; changes += 1) {
        const [player, own] = [random.pick(players), seeded(random.below(2 ** 31))];
        const kind = TERMS[(number + changes) % TERMS.length] ?? 'refund';
        // A paused subscription is unpaused when its wallet is visited.
        if (kind === 'pause') visitLater(player, number, VISITS);
        begin(() => changeTerms(ground, player, kind, own));
      }
      const credits = ground.hasCredits ? players.length / WALLETS_A_CREDIT : 0;
      for (let changes = 0; changes < credits; changes += 1) {
        const [player, own] = [random.pick(players), seeded(random.below(2 ** 31))];
        const kind = random.below(3) > 0 ? 'grant' : random.pick(CREDIT_ACTS);
        begin(() => changeCredits(ground, player, kind, own));
      }
      if (random.below(30) === 0) {
        const [offer, own] = [random.pick(offers), seeded(random.below(2 ** 31))];
        begin(() => tendOffer(ground, offer, own));
      }
      const [least, most] = STEP_SECONDS;
      const seconds = least + random.below(most - least);
      // A look at everything done now and then, as a quiet night would allow.
      const isNight = random.below(40) === 0;
      // An attempt that a failover brings back, open, is unexplained where the account was
      // collected in a later period meanwhile.
      if (meanwhile !== undefined) await untilIdle(ground);
      await stubborn(async () => {
        const absoluteTimestamp = (Number(await chainNow(ground)) + seconds) * 1000;
        await ground.cheat('surfnet_timeTravel', { absoluteTimestamp });
      });
      await stubborn(() => ground.sql.notify(SUBSCRIPTIONS_DUE, ''));
      if (random.below(AIR_STEPS) === 0) cancelSome(number);
      if (meanwhile !== undefined) {
        await meanwhile();
        return;
      }
      const left = (isNight ? 0.2 : 1) * LEFT_PART * players.length;
      await pause(LEAST_MS);
      for (let reads = (isNight ? 5 : 1) * patience; reads > 0; reads -= 1) {
        if ((await workLeft(ground)) <= left) break;
        await pause(READ_MS);
      }
    },
    async over() {
      while (underWay.size > 0) await Promise.allSettled(underWay);
    },
  };
}

/** Due and leased subscriptions, and open attempts. */
export async function workLeft(ground: Ground): Promise<number> {
  const now = timeOf(await chainNow(ground));
  const { subscriptions, openAttempts } = await stubborn(() => readWorkLeft(ground.sql, now));
  return subscriptions + openAttempts;
}

/** Whether a subscription was postponed for a short time, and is neither done nor given up. */
export async function hasPostponed(ground: Ground): Promise<boolean> {
  const soon = timeOf((await chainNow(ground)) + BigInt(POSTPONED_SECONDS));
  const [row] = await stubborn(
    () => ground.sql<{ some: boolean }[]>`
    select exists (select from subscription_work where setbacks between 1 and ${SOON_AGAIN} and due_at <= ${soon}) as some`,
  );
  return row?.some ?? false;
}

/**
 * Waits until nothing is due and no attempt is open; not for an attempt that takes a quarter of an
 * hour to end as unexplained.
 */
export async function untilIdle(ground: Ground): Promise<void> {
  const deadline = Date.now() + IDLE_MS;
  while (Date.now() < deadline && (await workLeft(ground)) > 0) await pause(READ_MS);
}

/**
 * Moves the clock, because a pull that was not finalized is read again some seconds of chain
 * time later.
 */
export async function passPostponement(ground: Ground): Promise<void> {
  const later = Number(await chainNow(ground)) + POSTPONED_SECONDS;
  await stubborn(() => ground.cheat('surfnet_timeTravel', { absoluteTimestamp: later * 1000 }));
}

/** The newest time there is. */
export function chainNow({ rpc }: Ground): Promise<bigint> {
  return stubborn(async () => (await rpc.getClock({ commitment: 'processed' })).unixTimestamp);
}

/** Retries while chain or Postgres is temporarily unreachable because of an injected fault. */
export function stubborn<T>(ask: () => Promise<T>): Promise<T> {
  return pRetry(ask, { retries: 300, factor: 1, minTimeout: 200 });
}
