// A night of faults: in each, every subscription comes due once while it lasts. Measured: when it was seen, when everything was well again, what was lost
// and what was done twice.
import { setTimeout as pause } from 'node:timers/promises';
import { periodHours } from '../../src/sandbox/merchants.ts';
import type { Fault } from './faults.ts';
import { type Daemon, type Ground, startGround } from './ground.ts';

export interface Row {
  fault: string;
  /** Seconds after its beginning; null when it was not seen, "-" where there was nothing to see. */
  seen: number | null | '-';
  /** What saw it. */
  by: string;
  /** Seconds after its end until every payment was collected and every event delivered; null when it did not come to that. */
  healed: number | null;
  lost: number;
  doubled: number;
  /** What the bounds say against it; empty when nothing. */
  breaches: string[];
}

const seenSeconds = 30;
const healedSeconds = 30;
const pollMs = 250;

/** Runs `faults` one after the other, each for `seconds`. */
export async function night({
  faults,
  seconds,
  subscribers,
  tell,
}: {
  faults: readonly Fault[];
  seconds: number;
  subscribers: number;
  tell: (row: Row) => void;
}): Promise<Row[]> {
  const ground = await startGround(subscribers);
  try {
    let rounds = 1;
    await well(ground, rounds, 60);
    const rows: Row[] = [];
    for (const fault of faults) {
      if (fault.isPossible?.(ground) === false) continue;
      rounds += 1;
      const row = await spend(ground, fault, rounds, seconds);
      tell(row);
      rows.push(row);
    }
    return rows;
  } finally {
    await ground.stop();
  }
}

async function spend(ground: Ground, fault: Fault, rounds: number, seconds: number): Promise<Row> {
  const due = Number(await ground.chain.now()) + periodHours * 3600;
  const before = await observe(ground);
  const beganAt = performance.now();
  const sight = watch(ground, fault, before, beganAt);
  // Due at the very beginning: the fault meets payments on their way.
  const begun = Promise.resolve(fault.begin(ground));
  await ground.cheat('surfnet_timeTravel', { absoluteTimestamp: due * 1000 });
  await begun;
  if (fault.end !== undefined)
    await pause(Math.max(0, seconds * 1000 - (performance.now() - beganAt)));
  await fault.end?.(ground);
  const endedAt = performance.now();
  const limit = fault.heals?.seconds ?? healedSeconds;
  const isWell = await well(ground, rounds, 2 * limit);
  const healed = isWell ? (performance.now() - endedAt) / 1000 : null;
  const seen = await sight.stop();
  const { lost, doubled } = await count(ground, rounds);
  const row: Row = {
    fault: fault.name,
    seen: fault.harmless === true ? '-' : (seen?.seconds ?? null),
    by: seen?.by ?? '',
    healed,
    lost,
    doubled,
    breaches: [],
  };
  if (row.seen === null) row.breaches.push('not seen');
  else if (row.seen !== '-' && row.seen > seenSeconds) row.breaches.push('seen late');
  if (healed === null) row.breaches.push('not healed');
  else if (healed > limit) row.breaches.push('healed late');
  if (lost > 0) row.breaches.push(`${lost} lost`);
  if (doubled > 0) row.breaches.push(`${doubled} doubled`);
  return row;
}

type Observation = Record<Daemon, { ready: boolean; metrics: string }>;

async function observe({ metricsUrls }: Ground): Promise<Observation> {
  const ask = async (url: string) => {
    const limit = { signal: AbortSignal.timeout(3000) };
    try {
      const [ready, metrics] = await Promise.all([
        fetch(`${url}/readyz`, limit).then(async (answer) => (await answer.text(), answer.ok)),
        fetch(`${url}/metrics`, limit).then((answer) => answer.text()),
      ]);
      return { ready, metrics };
    } catch {
      return { ready: false, metrics: '' };
    }
  };
  const [serve, keeper, dispatch] = await Promise.all(
    [metricsUrls.serve, metricsUrls.keeper, metricsUrls.dispatch].map(ask),
  );
  return { serve, keeper, dispatch } as Observation;
}

function watch(ground: Ground, fault: Fault, before: Observation, beganAt: number) {
  let stopped = false;
  let seen: { seconds: number; by: string } | undefined;
  const look = async () => {
    while (!isStopped() && seen === undefined) {
      const now = await observe(ground);
      const by = sightOf(fault, before, now);
      if (by !== undefined) seen = { seconds: (performance.now() - beganAt) / 1000, by };
      else await pause(pollMs);
    }
  };
  const isStopped = () => stopped;
  const looking = look();
  return {
    async stop() {
      stopped = true;
      await looking;
      return seen;
    },
  };
}

function sightOf(fault: Fault, before: Observation, now: Observation): string | undefined {
  for (const name of ['serve', 'keeper', 'dispatch'] as const)
    if (!now[name].ready) return `${name} not ready`;
  const { metric } = fault;
  if (metric === undefined) return undefined;
  const all = (observation: Observation) =>
    valuesOf(
      Object.values(observation)
        .map(({ metrics }) => metrics)
        .join('\n'),
      metric,
    );
  const values = all(now);
  const sum = (of: number[]) => of.reduce((total, value) => total + value, 0);
  const isSeen =
    (metric.over !== undefined && values.some((value) => value > (metric.over ?? 0))) ||
    (metric.under !== undefined && values.some((value) => value < (metric.under ?? 0))) ||
    (metric.grows !== undefined && sum(values) - sum(all(before)) > metric.grows);
  return isSeen ? metric.name : undefined;
}

function valuesOf(text: string, { name, labels }: NonNullable<Fault['metric']>): number[] {
  return text.split('\n').flatMap((line) => {
    const [, its = '', value] = /^(\w+(?:\{.*\})?) (\S+)$/.exec(line) ?? [];
    return its.split('{')[0] === name && (labels?.test(its) ?? true) ? [Number(value)] : [];
  });
}

/** Waits until every daemon is ready, every payment of `rounds` is collected and every event was received; false after `limit` seconds. */
async function well(ground: Ground, rounds: number, limit: number): Promise<boolean> {
  const deadline = performance.now() + limit * 1000;
  for (;;) {
    const isWell = await Promise.all([observe(ground), count(ground, rounds)]).then(
      ([{ serve, keeper, dispatch }, { lost }]) =>
        serve.ready && keeper.ready && dispatch.ready && lost === 0,
      () => false,
    );
    if (isWell) return true;
    if (performance.now() > deadline) return false;
    await pause(pollMs);
  }
}

/** Payments and webhooks that are missing after so many rounds, and those that there are twice. */
async function count(
  { sql, subscriptions, server }: Ground,
  rounds: number,
): Promise<{ lost: number; doubled: number }> {
  const [row] = await sql()<{ paid: number; periods: number; events: number }[]>`
    select (select count(*)::int from payments where status = 'succeeded') as paid,
      (select count(distinct (subscription_id, period_start))::int from payments where status = 'succeeded') as periods,
      (select count(*)::int from events where type = 'payment_success') as events`;
  const received = [...server.events.values()].filter(({ type }) => type === 'payment_success');
  const expected = subscriptions * rounds;
  const { paid = 0, periods = 0, events = 0 } = row ?? {};
  return {
    lost: Math.max(0, expected - periods) + Math.max(0, events - received.length),
    doubled: paid - periods + Math.max(0, events - paid) + server.altered(),
  };
}

/** The rows as a table. */
export function table(rows: readonly Row[]): string {
  const seconds = (value: Row['seen']) =>
    typeof value === 'number' ? `${value.toFixed(1)} s` : (value ?? 'never');
  const cells = [
    ['fault', 'seen after', 'by', 'healed after', 'lost', 'doubled', ''],
    ...rows.map(({ fault, seen, by, healed, lost, doubled, breaches }) => [
      fault,
      seconds(seen),
      by,
      seconds(healed),
      String(lost),
      String(doubled),
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
