// Three dispatchers that are killed repeatedly, with receivers that hang, answer late or close.
// Every delivery ends. One is only sent again after a failed attempt, after the kill of its
// dispatcher, or once where a reused connection ended without an answer.
// SOAK_KILLS sets the number of kills: 200 in `npm run soak:deliveries`, a few by default.
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { bringRetriesForward, expireDispatchClaims } from '../../src/db/operating/sandbox.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { start, type Running } from '../fixtures/command.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import {
  ok,
  startReceiver,
  type Answer,
  type Received,
  type Receiver,
} from '../fixtures/receiver.ts';
import {
  encryptionKey,
  queueBodies,
  seedApp,
  until,
  type SeededApp,
} from '../fixtures/webhooks.ts';

const isShort = process.env.SOAK_KILLS === undefined;
const killsWanted = Number(process.env.SOAK_KILLS ?? 6);
const dispatchers = 3;
/** Requests between two kills, the same number on a slow machine as on a fast one. */
const requestsPerKill = 50;
/** In the short form no claim of a live dispatcher expires, even on a slow machine. */
const leaseSeconds = isShort ? '3600' : '10';
const queueEveryMs = 100;
/** Deliveries queued at once to each endpoint, and the maximum number ahead of the requests. */
const [batch, maxAhead] = [5, 500];
const deadlineMs = 5000;

/** One in this number of requests fails. */
const bad = 6;
const late: Answer = (response) => void setTimeout(() => response.end('late'), deadlineMs + 500);
const closeInTheMiddle: Answer = (response) => {
  response.writeHead(200, { 'content-length': 10 }).write('half');
  setImmediate(() => response.destroy());
};
const slow: Answer = (response) => void setTimeout(() => response.end('ok'), 300);
const hang: Answer = () => undefined;

/** Arrival times of the requests for each delivery, by the number in its body. */
function arrivals(receivers: readonly Pick<Receiver, 'requests'>[]): Map<number, number[]> {
  const times = new Map<number, number[]>();
  for (const { at, body } of receivers.flatMap(({ requests }) => requests)) {
    const { number } = JSON.parse(body.toString()) as { number: number };
    times.set(number, [...(times.get(number) ?? []), at]);
  }
  for (const one of times.values()) one.sort((a, b) => a - b);
  return times;
}

interface Ended {
  id: string;
  status: string;
  attempts: number;
  /** Unix ms at which each written attempt had ended. */
  endedAt: number[];
  statuses: (number | null)[];
}

async function readEnded(sql: Sql): Promise<Map<string, Ended>> {
  const rows = await sql<Ended[]>`
    select d.id, d.status, d.attempts,
      json_agg((extract(epoch from a.started_at) * 1000 + a.duration_ms)::float8 order by a.number) as ended_at,
      array_agg(a.http_status order by a.number) as statuses
    from all_deliveries d join delivery_attempts a on a.delivery_id = d.id group by d.id, d.status, d.attempts`;
  return new Map(rows.map((row) => [row.id, row]));
}

const dispatch = async (t: Test, url: string): Promise<Running> => {
  const env = {
    DATABASE_URL: url,
    ENCRYPTION_KEY: encryptionKey,
    METRICS_PORT: '0',
    WEBHOOK_LEASE_SECONDS: leaseSeconds,
  };
  const running = start(t, ['dispatch'], env);
  await running.line('dispatch is running');
  return running;
};

const countRequests = (receivers: readonly Receiver[]) =>
  receivers.reduce((sum, { requests }) => sum + requests.length, 0);

/**
 * Unix ms before the signal was sent, and after the process had ended and its last requests were
 * read.
 */
interface Kill {
  sentAt: number;
  endedAt: number;
}

async function endOf({ ended }: Running, sentAt: number): Promise<Kill> {
  await ended;
  // Requests that it had sent are read in the next turns of the event loop.
  for (let turns = 0; turns < 10; turns += 1) await new Promise(setImmediate);
  return { sentAt, endedAt: Date.now() };
}

/**
 * Kills these dispatchers one after another and starts a new one in place of each, then kills all;
 * returns the time of each kill.
 */
async function killing(
  t: Test,
  url: string,
  running: Running[],
  receivers: readonly Receiver[],
): Promise<Kill[]> {
  const kills: Kill[] = [];
  for (let turn = 0; turn < killsWanted; turn += 1) {
    const before = countRequests(receivers);
    await until(() => countRequests(receivers) >= before + requestsPerKill);
    const victim = running[turn % dispatchers]!;
    const sentAt = Date.now();
    victim.child.kill('SIGKILL');
    kills.push(await endOf(victim, sentAt));
    running[turn % dispatchers] = await dispatch(t, url);
  }
  // Kills at the arrival of a request, so that one is in flight.
  let sentAt = 0;
  for (const receiver of receivers)
    receiver.answer = () => {
      sentAt ||= Date.now();
      for (const { child } of running) child.kill('SIGKILL');
    };
  const last = await Promise.all(running.map((one) => endOf(one, 0)));
  return [...kills, ...last.map(({ endedAt }) => ({ sentAt, endedAt }))];
}

/**
 * Queues deliveries to every endpoint until the dispatchers are dead; returns their ids by number.
 */
async function queueing(
  sql: Sql,
  apps: readonly SeededApp[],
  receivers: readonly Receiver[],
  isOver: () => boolean,
) {
  const ids: string[] = [];
  while (!isOver()) {
    const isAhead = ids.length > countRequests(receivers) + maxAhead;
    for (const app of isAhead ? [] : apps) {
      const first = ids.length;
      const bodies = Array.from({ length: batch }, (_, index) =>
        JSON.stringify({ number: first + index }),
      );
      ids.push(...(await queueBodies(sql, app, bodies)));
    }
    await bringRetriesForward(sql);
    await delay(queueEveryMs);
  }
  return ids;
}

void t.test(
  'under SIGKILLs no delivery is lost, and each repeated delivery has a known reason',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    let turn = 0;
    // A request on a reused connection that ends without an answer is sent once more at once.
    const unanswered: Received[] = [];
    const close: Answer = (response, received) => {
      unanswered.push(received);
      response.destroy();
    };
    const answerBadly =
      (worst: Answer): Answer =>
      (...exchange) =>
        ((turn += 1) % bad === 0 ? worst : turn % bad === 1 ? slow : ok)(...exchange);
    const receivers = await Promise.all(
      [hang, late, close, closeInTheMiddle, ok].map((worst) =>
        startReceiver(t, answerBadly(worst)),
      ),
    );
    const apps: SeededApp[] = [];
    for (const receiver of receivers) apps.push(await seedApp(sql, receiver.url));

    const running = await Promise.all(Array.from({ length: dispatchers }, () => dispatch(t, url)));
    let isOver = false;
    const [kills, ids] = await Promise.all([
      killing(t, url, running, receivers).finally(() => (isOver = true)),
      queueing(sql, apps, receivers, () => isOver),
    ]);

    // All are dead, so their claims may expire at once; the next dispatcher has to find everything.
    await expireDispatchClaims(sql);
    for (const receiver of receivers) receiver.answer = ok;
    await dispatch(t, url);
    await until(async () => {
      await bringRetriesForward(sql);
      return (await sql`select 1 from delivery_queue limit 1`).length === 0;
    });

    const ended = await readEnded(sql);
    const requests = arrivals(receivers);
    const resendable = arrivals([{ requests: unanswered }]);
    const faults = ids.flatMap((id, number) => {
      const delivery = ended.get(id);
      const came = requests.get(number) ?? [];
      if (delivery === undefined) return [`${number} has no outcome`];
      const { status, attempts, endedAt, statuses } = delivery;
      const isRight =
        status === 'delivered' ? statuses.at(-1) === 200 : status === 'failed' && attempts === 6;
      const closedAt = resendable.get(number) ?? [];
      const unexplained = came.slice(1).filter((at, index) => {
        const resent = closedAt.filter((time) => time <= at).length;
        const written = endedAt.filter((time) => time <= at).length;
        // A busy machine reports the end of a process and the arrival of a request late.
        const killed = kills.filter(
          ({ sentAt, endedAt }) => endedAt >= (came[0] ?? 0) && sentAt <= at,
        ).length;
        return written + killed + resent < index + 1;
      });
      return [
        ...(came.length === 0 ? [`${number} never came`] : []),
        ...(isRight ? [] : [`${number} is ${status} after ${attempts} attempts`]),
        ...(endedAt.length === attempts ? [] : [`${number} has ${endedAt.length} attempts`]),
        ...(unexplained.length === 0 ? [] : [`${number} came again without a reason`]),
      ];
    });
    t.same(faults, []);
    const duplicates = ids.filter(
      (id, number) => (requests.get(number)?.length ?? 0) > (ended.get(id)?.attempts ?? 0),
    );
    t.comment(
      `${ids.length} deliveries, ${countRequests(receivers)} requests, ${kills.length} kills, ${duplicates.length} sent again`,
    );
    t.equal(kills.length, killsWanted + dispatchers, 'dispatchers were killed');
    t.ok(duplicates.length > 0, 'some were in flight when their dispatcher was killed');
  },
);
