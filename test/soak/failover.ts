// Failovers to the asynchronous standby, which lose what was committed in up to two seconds.
// Wallets and merchants then do again what was lost; chain time stands still until the keepers sign
// again, as the loss takes seconds in life.
import { setTimeout as pause } from 'node:timers/promises';
import { SUBSCRIPTIONS_PROGRAM } from '../../src/chain/clusters.ts';
import { reconcile } from '../../src/cli/operate/reconcile/compare.ts';
import { listHolds, resumeCollection } from '../../src/db/operating/collection-holds.ts';
import { expireKeeperLeases } from '../../src/db/operating/sandbox.ts';
import type { Random } from '../../src/local/sandbox/random.ts';
import type { PostgresPair } from '../fixtures/postgres-pair.ts';
import { register } from './acts.ts';
import { type Player, recordPlan } from './cast.ts';
import type { Ground } from './ground.ts';
import { hasPostponed, passPostponement, stubborn, untilIdle } from './scene.ts';

const MAX_LOST_MS = 2000;
/** Maximum blocks, besides 20, that transactions are held: less than a blockhash lives. */
const HELD_BLOCKS = 120;
const LOOK_MS = 100;
/** A lying endpoint reports wrong heights until then. */
const LIES_MS = 2000;
/** Short waits for a subscription: less than ten minutes together. */
const MAX_POSTPONED = 5;
const FAR = new Date('2200-01-01');

/** Rows lost, by table. */
export interface Lost {
  failovers: number;
  /** Failovers that lost something. */
  withLoss: number;
  logBytes: number;
  attempts: number;
  payments: number;
  events: number;
  registrations: number;
  /** Number of these registrations by the outcome of the second registration. */
  registeredAgain: Record<string, number>;
  /**
   * Times that a keeper held collection because the books lacked payments, and the differences that
   * an operator found.
   */
  holds: number;
  missing: string[];
}

export const nothingLost = (): Lost => ({
  failovers: 0,
  withLoss: 0,
  logBytes: 0,
  attempts: 0,
  payments: 0,
  events: 0,
  registrations: 0,
  registeredAgain: {},
  holds: 0,
  missing: [],
});

/** Fails over once; resolves when the keepers have settled what they found. */
export async function failOver(
  { ground, pair, players, lost }: Stage,
  random: Random,
): Promise<void> {
  const [ms, moves] = [random.below(MAX_LOST_MS), random.pick(['before', 'after'] as const)];
  await pair.detach();
  // Some signatures that are lost land only while the keepers wait, or after that where they do
  // not.
  if (random.below(3) > 0)
    await ground.cheat('localnet_setFault', {
      kind: 'hold',
      blocks: 20 + random.below(HELD_BLOCKS),
      count: 1 + random.below(20),
    });
  await pause(ms);
  const before = await stubborn(() => count(ground));
  lost.logBytes += await pair.promote(moves);
  const renewed = pair.renew();
  const after = await stubborn(() => count(ground));
  lost.failovers += 1;
  const less = {
    attempts: before.attempts - after.attempts,
    payments: before.payments - after.payments,
    events: before.events - after.events,
  };
  if (less.attempts > 0 || less.events > 0) lost.withLoss += 1;
  for (const name of ['attempts', 'payments', 'events'] as const)
    lost[name] += Math.max(0, less[name]);
  await doAgain({ ground, pair, players, lost });
  await pause(LIES_MS);
  await ground.cheat('localnet_clearFaults');
  await settled(ground);
  await renewed;
}

export interface Stage {
  ground: Ground;
  pair: PostgresPair;
  players: readonly Player[];
  lost: Lost;
}

interface Counts {
  attempts: number;
  payments: number;
  events: number;
}

async function count({ sql }: Ground): Promise<Counts> {
  const [row] = await sql<[Counts]>`
    select (select count(*)::int from payment_attempts) as attempts, (select count(*)::int from payments) as payments,
      (select count(*)::int from events) as events`;
  return row;
}

/** Plans and registrations that were lost are recorded once more. */
async function doAgain({ ground, players, lost }: Stage): Promise<void> {
  const { sql, published } = ground;
  for (const one of published) await stubborn(() => recordPlan(sql, one));
  const known = players.filter(({ registeredId }) => registeredId !== undefined);
  const ids = known.map(({ registeredId }) => registeredId ?? '');
  const found = await stubborn(
    () => sql<{ id: string }[]>`select id from subscriptions where id = any(${ids}::uuid[])`,
  );
  const there = new Set(found.map(({ id }) => id));
  for (const player of known) {
    if (there.has(player.registeredId ?? '')) continue;
    lost.registrations += 1;
    player.registeredId = undefined;
    const ended = await stubborn(() => register(ground, player));
    lost.registeredAgain[ended] = (lost.registeredAgain[ended] ?? 0) + 1;
  }
}

/** The keepers sign again, and nothing is left to do. */
async function settled(ground: Ground): Promise<void> {
  const waits = () =>
    stubborn(
      () => ground.sql<{ waits: boolean }[]>`
      select timeline is distinct from substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) or collects_after_height is not null as waits
      from installation`,
    );
  while ((await waits())[0]?.waits !== false) await pause(LOOK_MS);
  // Leases that a killed keeper had before the loss would delay the end by 45 s.
  await stubborn(() => expireKeeperLeases(ground.sql));
  for (let passed = 0; ;) {
    await untilIdle(ground);
    // Payments that were held are read a minute later; what is found ten minutes after the
    // loss holds collection.
    if (passed === MAX_POSTPONED || (passed > 0 && !(await hasPostponed(ground)))) return;
    await passPostponement(ground);
    passed += 1;
  }
}

/**
 * An operator's answer to a hold because of missing payments: reconcile with repair, then resume.
 */
export async function tendHold({ sql, rpc, keeper }: Ground, lost: Lost): Promise<void> {
  const [held] = (await stubborn(() => listHolds(sql))).filter((one) => one.missingUntil !== null);
  if (held === undefined) return;
  lost.holds += 1;
  const { differences } = await stubborn(() =>
    reconcile(
      { sql, rpc, programId: SUBSCRIPTIONS_PROGRAM, keepers: [keeper.address] },
      { since: new Date(0), until: FAR, repair: true },
    ),
  );
  lost.missing.push(
    held.reason,
    ...differences.map(
      ({ kind, signature, subscriptionPda, repaired }) =>
        `${kind}${repaired ? ' (repaired)' : ''}: ${signature} of ${subscriptionPda}`,
    ),
  );
  const by = { who: 'soak', host: 'soak' };
  const all = { merchantId: null, planId: null, what: null, reason: 'reconciled', by };
  await stubborn(() => resumeCollection(sql, all));
}
