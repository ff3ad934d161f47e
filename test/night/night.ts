// A night of faults: in each, every subscription comes due once while it lasts. Measured: when it
// was seen, when everything was well again, what was lost and what was done twice.
import { setTimeout as pause } from 'node:timers/promises';
import { PERIOD_HOURS } from '../../src/local/sandbox/merchants.ts';
import { createWitness, type Witness } from '../soak/witness.ts';
import type { Fault } from './faults.ts';
import { type Ground, startGround } from './ground.ts';
import { Lookout } from './lookout.ts';
import type { Database, OpenDatabase } from './postgres.ts';

export interface Row {
  fault: string;
  /** Seconds after its beginning; null when it was not seen, "-" where there was nothing to see. */
  seen: number | null | '-';
  /** The signals that detected it. */
  by: string;
  /**
   * Seconds after its end until every payment was collected and every event delivered; null when it
   * did not come to that.
   */
  healed: number | null;
  lost: number;
  doubled: number;
  /** Whether it is a fault that doubles. */
  doubles: boolean;
  /** The exceeded bounds; empty if none. */
  breaches: string[];
}

const seenSeconds = 30;
const healedSeconds = 30;
const pollMs = 250;
/** Characters of a signal in the table. */
const mostShown = 80;

interface Night {
  ground: Ground;
  lookout: Lookout;
  witness: Witness;
  /** Number of times that every subscription has become due. */
  rounds: number;
}

/**
 * Runs `faults` one after the other, each for `seconds`, on the Postgres that `openDatabase` opens.
 */
export async function night<D extends Database>({
  faults,
  openDatabase,
  seconds,
  subscribers,
  scrapeSeconds,
  tell,
}: {
  faults: readonly Fault<Ground & D>[];
  openDatabase: OpenDatabase<D>;
  seconds: number;
  subscribers: number;
  /** Between two scrapes; as Prometheus is configured when absent. */
  scrapeSeconds?: number;
  tell: (row: Row) => void;
}): Promise<Row[]> {
  if (faults.length === 0) return [];
  const ground = await startGround(subscribers, openDatabase);
  const lookout = new Lookout(ground);
  try {
    await lookout.start(scrapeSeconds);
    const { keeper, env, chain } = ground;
    const witness = createWitness(chain.rpc, { keeper, treasury: env.PLATFORM_TREASURY ?? '' });
    const state: Night = { ground, lookout, witness, rounds: 1 };
    await inPeace(state);
    const rows: Row[] = [];
    for (const fault of faults) {
      if (fault.isPossible?.(ground) === false) continue;
      await fault.prepare?.(ground, async () => {
        await (
          await nextRound(state)
        )();
        await inPeace(state);
      });
      await inPeace(state);
      const row = await spend(state, ground, fault, seconds);
      tell(row);
      rows.push(row);
    }
    return rows;
  } finally {
    await lookout.stop();
    await ground.stop();
  }
}

/** Waits until all is well. */
async function inPeace({ ground, rounds }: Night): Promise<void> {
  if (!(await well(ground, rounds, 90))) throw new Error('it is not well without a fault');
}

/** Advances the chain's clock until every subscription is due. */
async function nextRound(state: Night): Promise<() => Promise<void>> {
  const due = Number(await state.ground.chain.now()) + PERIOD_HOURS * 3600;
  return async () => {
    state.rounds += 1;
    await state.ground.cheat('surfnet_timeTravel', { absoluteTimestamp: due * 1000 });
  };
}

async function spend<G extends Ground>(
  state: Night,
  ground: G,
  fault: Fault<G>,
  seconds: number,
): Promise<Row> {
  const { lookout } = state;
  const before = await countDoubled(state);
  // While the chain can be asked.
  const comeDue = await nextRound(state);
  const beganAt = performance.now();
  const sight = lookout.watch(fault.by);
  // Due at the very beginning: the fault meets payments on their way.
  const begun = Promise.resolve(fault.begin(ground));
  await comeDue();
  await begun;
  if (fault.end !== undefined)
    await pause(Math.max(0, seconds * 1000 - (performance.now() - beganAt)));
  await fault.end?.(ground);
  const endedAt = performance.now();
  const limit = fault.heals?.seconds ?? healedSeconds;
  const isWell = await well(ground, state.rounds, 2 * limit);
  const healed = isWell ? (performance.now() - endedAt) / 1000 : null;
  const seen = await sight.stop();
  const after = await countDoubled(state);
  const pulled = after.pulled - before.pulled;
  const booked = after.booked - before.booked;
  const told = after.told - before.told;
  const row: Row = {
    fault: fault.name,
    seen: fault.harmless === true ? '-' : (seen?.seconds ?? null),
    by: seen?.by ?? '',
    healed,
    lost: (await count(ground, state.rounds)).lost,
    doubled: Math.max(pulled, booked) + told,
    doubles: fault.doubles === true,
    breaches: [],
  };
  row.breaches.push(
    ...breachesOf(row, { healed: limit, seen: fault.sees?.seconds ?? seenSeconds }),
  );
  if (row.doubles && booked !== pulled) row.breaches.push(`${booked} of ${pulled} booked`);
  if (row.doubles && told > 0) row.breaches.push(`${told} told twice`);
  return row;
}

/** `limits`: seconds. */
function breachesOf(
  { seen, healed, lost, doubled, doubles }: Row,
  limits: { seen: number; healed: number },
): string[] {
  const breaches: string[] = [];
  if (seen === null) breaches.push('not seen');
  else if (seen !== '-' && seen > limits.seen) breaches.push('seen late');
  if (healed === null) breaches.push('not healed');
  else if (healed > limits.healed) breaches.push('healed late');
  if (lost > 0) breaches.push(`${lost} lost`);
  if (doubles && doubled === 0) breaches.push('nothing doubled');
  if (!doubles && doubled > 0) breaches.push(`${doubled} doubled`);
  return breaches;
}

async function areReady({ metricsUrls }: Ground): Promise<boolean> {
  const ask = async (url: string) => {
    const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(3000) });
    await answer.text();
    return answer.ok;
  };
  const ready = await Promise.all(Object.values(metricsUrls).map(ask));
  return !ready.includes(false);
}

/**
 * Waits until every daemon is ready, every payment of `rounds` is collected and every event was
 * received; false after `limit` seconds.
 */
async function well(ground: Ground, rounds: number, limit: number): Promise<boolean> {
  const deadline = performance.now() + limit * 1000;
  for (;;) {
    const isWell = await Promise.all([areReady(ground), count(ground, rounds)]).then(
      ([ready, { lost }]) => ready && lost === 0,
      () => false,
    );
    if (isWell) return true;
    if (performance.now() > deadline) return false;
    await pause(pollMs);
  }
}

/** Missing payments and webhooks after this number of rounds, and duplicated ones. */
async function count(
  { sql, subscriptions, server }: Ground,
  rounds: number,
): Promise<{ lost: number; booked: number; told: number }> {
  const [row] = await sql()<{ paid: number; periods: number; events: string[] }[]>`
    select (select count(*)::int from payments where status = 'succeeded') as paid,
      (select count(distinct (subscription_id, period_start))::int from payments where status = 'succeeded') as periods,
      (select coalesce(array_agg(id::text), '{}') from events where type = 'payment_success') as events`;
  const { paid = 0, periods = 0, events = [] } = row ?? {};
  return {
    lost:
      Math.max(0, subscriptions * rounds - periods) +
      events.filter((id) => !server.events.has(id)).length,
    booked: paid - periods,
    told: Math.max(0, events.length - paid) + server.altered(),
  };
}

/**
 * Pulls of the keeper beyond the first of a period: on the chain, and in the books; `told`:
 * webhooks beyond one a payment.
 */
async function countDoubled({
  ground,
  witness,
  rounds,
}: Night): Promise<{ pulled: number; booked: number; told: number }> {
  await witness.look();
  const pulls = witness.pulls.filter(({ source }) => source === 'keeper');
  const periods = new Set(
    pulls.map(({ subscriptionPda, periodStart }) => `${subscriptionPda} ${periodStart}`),
  );
  const { booked, told } = await count(ground, rounds);
  return { pulled: pulls.length - periods.size, booked, told };
}

/** The rows as a table. */
export function table(rows: readonly Row[]): string {
  const seconds = (value: Row['seen']) =>
    typeof value === 'number' ? `${value.toFixed(1)} s` : (value ?? 'never');
  const cells = [
    ['fault', 'seen after', 'by', 'healed after', 'lost', 'doubled', ''],
    ...rows.map(({ fault, seen, by, healed, lost, doubled, doubles, breaches }) => [
      fault,
      seconds(seen),
      by.slice(0, mostShown),
      seconds(healed),
      String(lost),
      doubles ? `${doubled} (expected)` : String(doubled),
      breaches.join(', '),
    ]),
  ];
  const widths = (cells[0] ?? []).map((_, column) =>
    Math.max(...cells.map((line) => line[column]?.length ?? 0)),
  );
  return cells
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
