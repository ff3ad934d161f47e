// Runs a scenario under load, and compares the books with the chain and with what the receivers
// got.
import { setTimeout as pause } from 'node:timers/promises';
import { createWitness } from '../soak/witness.ts';
import type { Database } from './cluster.ts';
import { type Ground, type OpenCluster, type Settings, startGround } from './ground.ts';
import { Readiness, Rounds, stubborn, Writer } from './load.ts';
import type { Scenario } from './scenarios.ts';

const LOOK_MS = 200;

export interface Row {
  scenario: string;
  /** How the servers are run. */
  database: string;
  /** Seconds after the beginning until each kind of daemon had a ready process for good. */
  ready: number;
  /** Longest time in seconds between two API writes that were acknowledged. */
  writes: number;
  /** Seconds after the beginning until all payments that were due then were in the books. */
  payments: number;
  /** Payments a second in the rounds before and after the fault. */
  rate: number;
  paid: number;
  /** Pulls of the chain that the books lack, and payments in the books that the chain lacks. */
  missing: number;
  /** Periods that were pulled or booked twice. */
  doubled: number;
  /** Number of events that no receiver got. */
  undelivered: number;
  /** API writes that were acknowledged and are gone. */
  lostWrites: number;
  acknowledged: number;
  refused: number;
  /** The last answer that was not 201, or the last error without an answer. */
  refusal: string;
  /** Answers of 500 and above to API writes. */
  serverErrors: number;
  /** Duration of the whole scenario, without the start of the processes. */
  seconds: number;
}

/** Plays one scenario on servers of its own. */
export async function play<C extends Database>(
  scenario: Scenario<C>,
  database: string,
  openCluster: OpenCluster<C>,
  settings: Settings & { rate: number },
): Promise<Row> {
  const closers: (() => unknown)[] = [];
  try {
    const ground = await startGround(openCluster, settings, (close) => closers.push(close));
    return await underLoad(ground, scenario, database, settings.rate);
  } finally {
    for (const close of closers.reverse()) await close();
  }
}

async function underLoad<C extends Database>(
  ground: Ground<C>,
  scenario: Scenario<C>,
  database: string,
  rate: number,
): Promise<Row> {
  const { chain, keeper, treasury } = ground;
  const loadedAt = performance.now();
  const witness = createWitness(chain.rpc, { keeper, treasury });
  const lookAll = witness.follow();
  const [rounds, writer, readiness] = [
    new Rounds(ground, rate),
    new Writer(ground),
    new Readiness(ground),
  ];
  rounds.start();
  await rounds.underWay();
  writer.start();
  readiness.start();
  await rounds.underWay();
  const beganAt = performance.now();
  const due = await rounds.due();
  await scenario.begin(ground);
  const caughtUp = rounds.caughtUp(due).then(() => performance.now());
  await scenario.mend?.(ground);
  const caughtUpAt = await caughtUp;
  // A round without a fault.
  await rounds.underWay();
  await rounds.stop();
  await writer.stop();
  await readiness.stop();
  await delivered(ground);
  await lookAll();
  const { acknowledged, refused, refusal, serverErrors } = writer;
  return {
    scenario: scenario.name,
    database,
    ready: readiness.secondsSince(beganAt),
    writes: writer.longestGapMs / 1000,
    payments: (caughtUpAt - beganAt) / 1000,
    rate: rounds.rate(),
    ...(await compare(ground, witness.pulls, rounds.rounds)),
    lostWrites: await countLost(ground, acknowledged),
    acknowledged: acknowledged.length,
    refused,
    refusal,
    serverErrors,
    seconds: Math.round((performance.now() - loadedAt) / 1000),
  };
}

/** Resolves when no delivery is left to do. */
async function delivered({ cluster }: Ground<Database>): Promise<void> {
  const open = () => cluster.sql()`select from delivery_queue limit 1`;
  while ((await stubborn(open)).length > 0) await pause(LOOK_MS);
}

async function compare(
  { cluster, merchants, server, subscribers }: Ground<Database>,
  pulls: readonly { signature: string; subscriptionPda: string; periodStart: bigint }[],
  rounds: number,
): Promise<Pick<Row, 'paid' | 'missing' | 'doubled' | 'undelivered'>> {
  const sql = cluster.sql();
  const apps = merchants.map(({ appId }) => appId);
  const booked = await sql<{ signature: string; subscriptionPda: string; periodStart: Date }[]>`
    select p.tx_signature as signature, s.subscription_pda, p.period_start from payments p
    join subscriptions s on s.id = p.subscription_id
    where p.status = 'succeeded' and p.app_id in ${sql(apps)}`;
  const events = await sql<{ id: string }[]>`select id from events where app_id in ${sql(apps)}`;
  const keyOf = (one: { signature: string; subscriptionPda: string }) =>
    `${one.signature} ${one.subscriptionPda}`;
  const [inBooks, onChain] = [new Set(booked.map(keyOf)), new Set(pulls.map(keyOf))];
  const pulled = new Set(pulls.map((one) => `${one.subscriptionPda} ${one.periodStart}`));
  const periods = new Set(
    booked.map((one) => `${one.subscriptionPda} ${one.periodStart.getTime() / 1000}`),
  );
  return {
    paid: periods.size,
    missing:
      [...onChain].filter((key) => !inBooks.has(key)).length +
      [...inBooks].filter((key) => !onChain.has(key)).length +
      Math.abs(subscribers * rounds - periods.size),
    doubled: onChain.size - pulled.size + (booked.length - periods.size) + server.altered(),
    undelivered: events.filter(({ id }) => !server.events.has(id)).length,
  };
}

async function countLost({ cluster }: Ground<Database>, ids: string[]): Promise<number> {
  const found = await cluster.sql()`
    select from checkout_sessions where id = any(${ids}::uuid[])`;
  return ids.length - found.length;
}

/**
 * Faults that must not occur; empty if there are none. Only an asynchronous standby may lose
 * writes.
 */
export function breachesOf(row: Row, isSynchronous: boolean): string[] {
  const { missing, doubled, undelivered, lostWrites } = row;
  return [
    ...(missing > 0 ? [`${missing} payments differ between books and chain`] : []),
    ...(doubled > 0 ? [`${doubled} payments doubled`] : []),
    ...(undelivered > 0 ? [`${undelivered} events were not delivered`] : []),
    ...(isSynchronous && lostWrites > 0 ? [`${lostWrites} acknowledged writes lost`] : []),
  ];
}

/** The rows as a table of Markdown. */
export function table(rows: readonly Row[]): string {
  const cells = [
    [
      'Scenario',
      'Postgres',
      'Ready',
      'API writes',
      'Payments',
      'Rate',
      'Paid',
      'Doubled',
      'Missing',
      'Undelivered',
      'Writes lost',
    ],
    ...rows.map((row) => [
      row.scenario,
      row.database,
      ...[row.ready, row.writes, row.payments].map((value) => `${value.toFixed(1)} s`),
      `${row.rate.toFixed(0)}/s`,
      ...[row.paid, row.doubled, row.missing, row.undelivered].map(String),
      `${row.lostWrites} of ${row.acknowledged}`,
    ]),
  ];
  const widths = (cells[0] ?? []).map((_, column) =>
    Math.max(...cells.map((line) => line[column]?.length ?? 0)),
  );
  const lines = cells.map(
    (line) => `| ${line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`,
  );
  const rule = `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`;
  return [lines[0], rule, ...lines.slice(1)].join('\n');
}
