import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import { claimDeliveries, type Outcome } from '../../src/db/delivering/delivery-queue.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { Completer } from '../../src/dispatch/complete.ts';
import { dispatchTimes } from '../../src/dispatch/times.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { queueDeliveries, seedApp } from '../fixtures/webhooks.ts';

/** Outcomes of claimed deliveries, and a completer. */
async function completing(t: Test, count: number, { claimMs = 60_000 } = {}) {
  const { sql } = await testDatabase(t);
  const app = await seedApp(sql, 'http://a/');
  await queueDeliveries(sql, app, count);
  const claimId = randomUUID();
  const { endpointId } = app;
  const requests = [{ endpointId, room: count, floor: null }];
  const claimed = await claimDeliveries(sql, requests, { claimId, claimMs });
  const outcomes = claimed.map(({ id }): Outcome => ({
    id,
    endpointId,
    claimId,
    status: 'delivered',
    dueAt: null,
    attempt: {
      startedAt: Date.now(),
      durationMs: 1,
      httpStatus: 200,
      error: null,
      response: null,
      address: null,
    },
  }));
  const seen = { lost: 0, errors: [] as number[] };
  const completer = (queue: Sql) =>
    new Completer({
      queue,
      gatherMs: dispatchTimes.gatherMs,
      onWritten: () => undefined,
      onLost: (lost) => (seen.lost += lost),
      onError: (_error, failures) => seen.errors.push(failures),
    });
  const left = async () => (await sql`select 1 from delivery_queue`).length;
  return { sql, app, outcomes, completer, seen, left };
}

void t.test('all added outcomes are written, in batches', async (t) => {
  const { sql, outcomes, completer, seen, left } = await completing(t, 3000);
  const writing = completer(sql);
  for (const outcome of outcomes) writing.add(outcome);
  t.equal(writing.waiting, 3000);
  await writing.settled();
  t.equal(writing.waiting, 0);
  t.equal(await left(), 0);
  t.same(seen, { lost: 0, errors: [] });
});

void t.test('outcomes that cannot be written are kept and written later', async (t) => {
  const { sql, outcomes, completer, seen, left } = await completing(t, 700);
  await sql`alter table delivery_queue rename to delivery_queue_away`;
  const writing = completer(sql);
  for (const outcome of outcomes) writing.add(outcome);
  while (seen.errors.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  t.ok(writing.isFailing);
  t.equal(writing.waiting, 700);
  await sql`alter table delivery_queue_away rename to delivery_queue`;
  await writing.settled();
  t.notOk(writing.isFailing);
  t.equal(await left(), 0);
  t.equal(seen.lost, 0);
});

void t.test(
  'a batch whose response was lost with the connection is written once and counts no lost claim',
  async (t) => {
    const { sql, outcomes, completer, seen, left } = await completing(t, 10);
    let statements = 0;
    // The first statement is written, and its answer never comes. Its rows are a part of it.
    const dropping = new Proxy(sql, {
      apply(target, self, args: [TemplateStringsArray, ...unknown[]]) {
        const made = Reflect.apply(target, self, args) as Promise<unknown>;
        if (!args[0].join('').includes('with outcome')) return made;
        statements += 1;
        return statements === 1
          ? made.then(() => Promise.reject(new Error('CONNECTION_CLOSED')))
          : made;
      },
    });
    const writing = completer(dropping);
    for (const outcome of outcomes) writing.add(outcome);
    await writing.settled();
    t.same(seen, { lost: 0, errors: [1] });
    t.equal(await left(), 0);
    t.equal((await sql`select 1 from deliveries`).length, 10);
  },
);

void t.test('a claim taken over by another dispatcher is counted as lost', async (t) => {
  const { sql, app, outcomes, completer, seen, left } = await completing(t, 2, { claimMs: -1 });
  const requests = [{ endpointId: app.endpointId, room: 1, floor: null }];
  await claimDeliveries(sql, requests, { claimId: randomUUID(), claimMs: 60_000 });
  const writing = completer(sql);
  for (const outcome of outcomes) writing.add(outcome);
  await writing.settled();
  t.equal(seen.lost, 1);
  t.equal(await left(), 1);
});
