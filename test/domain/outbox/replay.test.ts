import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { on, once } from 'node:events';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { claimDeliveries, recordOutcomes } from '../../../src/db/delivering/delivery-queue.ts';
import { deleteEndpoint, insertEndpoint } from '../../../src/db/delivering/endpoints.ts';
import type { Sql } from '../../../src/db/postgres/connect.ts';
import { newId } from '../../../src/db/postgres/ids.ts';
import {
  planReplay,
  replayDelivery,
  requeueForNext,
  runReplay,
  type Selection,
} from '../../../src/domain/outbox/replay.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import {
  queueDeliveries,
  queuedAt,
  seedApp,
  type SeededApp,
  finishDeliveries,
  until,
} from '../../fixtures/webhooks.ts';

const everything: Selection = {
  ids: null,
  endpointId: null,
  appId: null,
  status: null,
  type: null,
  since: null,
  until: null,
};

const requester = { appId: 'an app', address: null };

/** 10 delivered, 20 failed, 5 pending. */
async function mixed(t: Test): Promise<{
  sql: Sql;
  url: string;
  app: SeededApp;
  delivered: string[];
  failed: string[];
  pending: string[];
}> {
  const { sql, url } = await testDatabase(t);
  const app = await seedApp(sql, 'http://127.0.0.1:9/');
  const ids = await queueDeliveries(sql, app, 35);
  const [delivered, failed, pending] = [ids.slice(0, 10), ids.slice(10, 30), ids.slice(30)];
  await finishDeliveries(sql, 'delivered', { ids: delivered });
  await finishDeliveries(sql, 'failed', { ids: failed });
  return { sql, url, app, delivered, failed, pending };
}

async function failReplays(sql: Sql): Promise<void> {
  const rows = await sql<
    { id: string }[]
  >`select id from delivery_queue where replay_of is not null`;
  await finishDeliveries(sql, 'failed', { ids: rows.map(({ id }) => id) });
}

async function replayed(sql: Sql): Promise<string[]> {
  return (
    await sql<
      { replayOf: string }[]
    >`select replay_of from all_deliveries where replay_of is not null order by replay_of`
  ).map((row) => row.replayOf);
}

async function replay(sql: Sql, selection: Selection, batch?: number): Promise<number> {
  const plan = await planReplay(sql, selection);
  const { queued } = await runReplay(sql, selection, plan, batch === undefined ? {} : { batch });
  return queued;
}

void t.test('a replay makes pending deliveries due at once and adds none', async (t) => {
  const { sql, app, pending } = await mixed(t);
  const [fresh = '', taken = '', ...waiting] = pending;
  const { endpointId } = app;
  await sql`update delivery_queue set attempts = 3, due_at = now() + interval '2 hours'
      where id = any(${[taken, ...waiting]}::uuid[])`;
  const claim = { claimId: randomUUID(), claimMs: 60_000 };
  await sql`update delivery_queue set due_at = now(), claim_id = ${claim.claimId},
      claimed_until = now() + interval '1 minute' where id = ${taken}`;
  const retrying = { ...everything, endpointId, status: 'retrying' };
  const plan = await planReplay(sql, retrying);
  t.match(plan, {
    deliverable: 3,
    matching: [{ status: 'pending', count: 3, deliverable: 3 }],
  });
  t.equal(await replay(sql, retrying, 2), 3);
  t.equal(await replay(sql, retrying), 0, 'they are due already');
  const room = { endpointId, room: 10, floor: null };
  const due = await claimDeliveries(sql, [room], { claimId: randomUUID(), claimMs: 60_000 });
  t.same(due.map(({ id }) => id).sort(), [fresh, ...waiting].sort(), 'the same deliveries');
  t.same(await replayed(sql), [], 'and no other');
  const [held] = await sql`select claim_id from delivery_queue where id = ${taken}`;
  t.match(held, { claimId: claim.claimId }, 'a claim is not touched');
});

void t.test(
  'a replay planned after another replay ended queues deliveries even if clocks differ',
  async (t) => {
    const { sql, app } = await mixed(t);
    const selection = { ...everything, endpointId: app.endpointId, status: 'failed' };
    const first = await replay(sql, selection);
    t.ok(first > 0);
    await failReplays(sql);
    // The database's clock has gone back since.
    await sql`update replays set finished_at = now() + interval '1 hour'`;
    const plan = await planReplay(sql, selection);
    t.match(await runReplay(sql, selection, plan), { queued: plan.deliverable, finished: true });
    t.ok((await replayed(sql)).length > first, 'queued again');
    const early = await planReplay(sql, selection);
    const { queued } = await runReplay(sql, selection, await planReplay(sql, selection));
    const before = (await replayed(sql)).length;
    await sql`update replays set finished_at = now() - interval '1 hour'`;
    t.match(
      await runReplay(sql, selection, early),
      { queued },
      'the other has queued what it counted',
    );
    t.equal((await replayed(sql)).length, before);
  },
);

void t.test('a replayed delivery is queued as a new delivery of the same event', async (t) => {
  const { sql, app, failed } = await mixed(t);
  const [id = ''] = failed;
  const again = await sql.begin((tx) => replayDelivery(tx, id, requester));
  const [pair] = await sql`
    select new.status, new.attempts, new.replay_of, new.endpoint_id, new.event_id = old.event_id as same_event
    from all_deliveries new join all_deliveries old on old.id = new.replay_of where new.id = ${again}`;
  t.match(pair, {
    status: 'pending',
    attempts: 0,
    replayOf: id,
    endpointId: app.endpointId,
    sameEvent: true,
  });
});

void t.test(
  'a replay is refused without a live endpoint and works after a new endpoint is created',
  async (t) => {
    const { sql, app, failed } = await mixed(t);
    const [id = ''] = failed;
    await sql`update webhook_endpoints set deleted_at = now()`;
    await t.rejects(
      sql.begin((tx) => replayDelivery(tx, id, requester)),
      { code: 'CONFLICT' },
    );
    const selection = { ...everything, endpointId: app.endpointId, status: 'failed' };
    t.match(await planReplay(sql, selection), {
      matching: [{ status: 'failed', count: 20, deliverable: 0 }],
      deliverable: 0,
    });
    const [endpoint] = await sql<{ id: string }[]>`
    insert into webhook_endpoints (app_id, url, secret) values (${app.appId}, 'http://127.0.0.1:9/', '') returning id`;
    t.equal(await replay(sql, selection), 20);
    const [queued] =
      await sql`select count(*) as count from all_deliveries where endpoint_id = ${endpoint?.id ?? ''} and replay_of is not null`;
    t.match(queued, { count: 20n });
  },
);

void t.test(
  'replay filters select by webhook, app, status, type and time; matches are counted before the run',
  async (t) => {
    const { sql, app, failed, pending } = await mixed(t);
    await seedApp(sql, 'http://127.0.0.1:9/').then((other) => queueDeliveries(sql, other, 3));
    const count = async (selection: Partial<Selection>) =>
      (await planReplay(sql, { ...everything, ...selection })).deliverable;
    t.equal(await count({ endpointId: app.endpointId }), 35);
    t.equal(await count({ appId: app.appId }), 35);
    t.equal(await count({ appId: app.appId, status: 'failed' }), 20);
    t.equal(await count({ appId: app.appId, status: 'pending' }), 5);
    t.equal(await count({ appId: app.appId, type: 'payment_success' }), 35);
    t.equal(await count({ appId: app.appId, type: 'payment_failed' }), 0);
    const hour = 3_600_000;
    const older = await Promise.all(
      failed.slice(0, 4).map((id) => queuedAt(sql, id, new Date(Date.now() - 2 * hour))),
    );
    t.equal(await count({ appId: app.appId, until: new Date(Date.now() - hour) }), 4);
    t.equal(await count({ appId: app.appId, since: new Date(Date.now() - hour) }), 31);
    t.equal(await count({ ids: [...older.slice(0, 3), ...pending.slice(0, 1)] }), 4);
    await t.rejects(planReplay(sql, { ...everything, ids: [app.appId] }), /There is no delivery/);
    t.equal((await replayed(sql)).length, 0, 'counting queues nothing');
  },
);

void t.test(
  'a replay queues each row once, and a second replay queues nothing while those are pending',
  async (t) => {
    const { sql, app, failed } = await mixed(t);
    const selection = { ...everything, appId: app.appId, status: 'failed' };
    t.equal(await replay(sql, selection, 3), 20);
    t.same(await replayed(sql), [...failed].sort());
    t.equal(await replay(sql, selection, 3), 0);
    t.equal((await replayed(sql)).length, 20);
  },
);

void t.test(
  'a delivery that failed again after its replay can be replayed again, once',
  async (t) => {
    const { sql, app } = await mixed(t);
    const selection = { ...everything, appId: app.appId, status: 'failed' };
    await replay(sql, selection);
    await failReplays(sql);
    t.equal(await replay(sql, selection), 20);
  },
);

void t.test(
  'a replay of an app sends the events of a time in which the app had no endpoint',
  async (t) => {
    const { sql, app } = await mixed(t);
    await sql`update events set queued = false where id in (select event_id from delivery_queue)`;
    await sql`delete from delivery_queue`;
    t.match((await planReplay(sql, { ...everything, appId: app.appId })).matching, [
      { status: 'delivered', count: 10 },
      { status: 'failed', count: 20 },
      { status: 'unsent', count: 5, deliverable: 5 },
    ]);
    t.equal(await replay(sql, { ...everything, appId: app.appId, status: 'unsent' }, 2), 5);
    const [left] =
      await sql`select count(*) as count from events where not exists (select from all_deliveries where event_id = events.id)`;
    t.match(left, { count: 0n });
    t.equal(await replay(sql, { ...everything, appId: app.appId, status: 'unsent' }), 0);
  },
);

void t.test(
  'an interrupted replay continues at its cursor, even if its queued deliveries failed meanwhile',
  async (t) => {
    const { sql, app, failed } = await mixed(t);
    const selection = { ...everything, appId: app.appId, status: 'failed' };
    const interrupt = new AbortController();
    const plan = await planReplay(sql, selection);
    const first = await runReplay(sql, selection, plan, {
      batch: 6,
      signal: interrupt.signal,
      onProgress: () => interrupt.abort(),
    });
    t.same(first, { queued: 6, finished: false });
    await failReplays(sql);
    const again = await planReplay(sql, selection);
    t.match(again.interrupted, { queued: 6, total: 20 });
    t.same(await runReplay(sql, selection, again, { batch: 6 }), { queued: 20, finished: true });
    t.same(await replayed(sql), [...failed].sort());
  },
);

void t.test('two concurrent replays of the same selection queue it once', async (t) => {
  const { sql, app, failed } = await mixed(t);
  const selection = { ...everything, appId: app.appId, status: 'failed' };
  await Promise.all([
    replay(sql, selection, 2),
    replay(sql, selection, 2),
    replay(sql, selection, 2),
  ]);
  t.same(await replayed(sql), [...failed].sort());
});

void t.test(
  'a replay planned before another replay of the same selection ended queues nothing twice',
  async (t) => {
    const { sql, app, failed } = await mixed(t);
    const selection = { ...everything, appId: app.appId, status: 'failed' };
    const plans = [await planReplay(sql, selection), await planReplay(sql, selection)] as const;
    t.same(await runReplay(sql, selection, plans[0]), { queued: failed.length, finished: true });
    t.same(await runReplay(sql, selection, plans[1]), { queued: failed.length, finished: true });
    t.same(await replayed(sql), [...failed].sort());
    await failReplays(sql);
    t.match(
      await runReplay(sql, selection, await planReplay(sql, selection)),
      { queued: failed.length },
      'a later plan is another replay',
    );
  },
);

void t.test(
  'a replay of 25,000 deliveries that is killed with SIGKILL three times queues each once',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const app = await seedApp(sql, 'http://127.0.0.1:9/');
    const ids: string[] = [];
    for (let index = 0; index < 5; index += 1) ids.push(...(await queueDeliveries(sql, app, 5000)));
    await finishDeliveries(sql, 'failed', { ids });
    const queuedNow = async () => (await replayed(sql)).length;
    for (let kill = 0; kill < 3; kill += 1) {
      const child = fork(
        fileURLToPath(new URL('../../fixtures/replay-process.ts', import.meta.url)),
        [url, app.appId],
        {
          execArgv: ['--import', 'tsx'],
        },
      );
      const batches = on(child, 'message');
      for (let batch = 0; batch < 4; batch += 1) await batches.next();
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    const midway = await queuedNow();
    t.ok(
      midway >= 3 * 4 * 500 && midway < 25_000,
      `${midway} were queued when it was killed for the last time`,
    );
    const plan = await planReplay(sql, { ...everything, appId: app.appId, status: 'failed' });
    t.match(plan.interrupted, { queued: midway, total: 25_000 });
    await runReplay(sql, { ...everything, appId: app.appId, status: 'failed' }, plan);
    t.same(await replayed(sql), [...ids].sort());
    t.equal(
      (await planReplay(sql, { ...everything, appId: app.appId, status: 'failed' })).deliverable,
      0,
    );
  },
);

void t.test(
  'a delivery that is cancelled while a new endpoint is created is queued once for the new endpoint',
  async (t) => {
    const { sql } = await testDatabase(t);
    const app = await seedApp(sql, 'http://127.0.0.1:9/');
    await queueDeliveries(sql, app, 3);
    const claimId = randomUUID();
    const request = { endpointId: app.endpointId, room: 1, floor: null };
    const [claimed] = await claimDeliveries(sql, [request], { claimId, claimMs: 3_600_000 });
    await deleteEndpoint(sql, app.endpointId);

    // Each statement that queues deliveries waits at its end for the test.
    await sql.unsafe(`create function hold() returns trigger language plpgsql
      as $$ begin perform pg_advisory_xact_lock_shared(7); return null; end $$;
      create trigger hold after insert on delivery_queue execute function hold()`);
    const gate = await sql.reserve();
    t.teardown(() => gate.release());
    await gate`select pg_advisory_lock(7)`;
    const requeued = sql.begin(async (tx) => {
      const endpoint = { id: await newId(tx), appId: app.appId };
      await insertEndpoint(tx, {
        ...endpoint,
        url: 'http://127.0.0.1:9/',
        extraEvents: [],
        secret: Buffer.of(),
      });
      return requeueForNext(tx, endpoint, requester);
    });
    await until(
      async () =>
        (
          await sql`select from pg_stat_activity where datname = current_database() and wait_event = 'advisory'`
        ).length > 0,
    );
    const { id, endpointId } = claimed!;
    const unsent = { id, endpointId, claimId, dueAt: null, attempt: null };
    t.equal((await recordOutcomes(sql, [{ ...unsent, status: 'cancelled' }])).size, 1);
    await gate`select pg_advisory_unlock(7)`;
    t.equal(await requeued, 3);
    const events = await sql<{ count: number }[]>`
      select count(*)::int as count from delivery_queue where endpoint_id <> ${endpointId} group by event_id`;
    t.same(events, [{ count: 1 }, { count: 1 }, { count: 1 }]);
  },
);
