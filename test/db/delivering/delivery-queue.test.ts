import { randomUUID } from 'node:crypto';
import t from 'tap';
import {
  cancelUnclaimed,
  claimDeliveries,
  countDue,
  findDueEndpoints,
  findRecorded,
  recordOutcomes,
  releaseClaims,
  type ClaimedDelivery,
  type Outcome,
} from '../../../src/db/delivering/delivery-queue.ts';
import { deleteEndpoint } from '../../../src/db/delivering/endpoints.ts';
import type { Queryable, Sql } from '../../../src/db/postgres/connect.ts';
import { connect } from '../../../src/db/postgres/connect.ts';
import { daemonLimits } from '../../../src/db/postgres/settings.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import {
  attemptsOf,
  deliveryState,
  finishDeliveries,
  queueDeliveries,
  seedApp,
  until,
  type SeededApp,
} from '../../fixtures/webhooks.ts';

async function claim(
  sql: Queryable,
  apps: SeededApp[],
  {
    room = 10,
    floor = null,
    claimMs = 3_600_000,
    claimId = randomUUID(),
  }: { room?: number; floor?: number | null; claimMs?: number; claimId?: string } = {},
): Promise<(ClaimedDelivery & { claimId: string })[]> {
  const requests = apps.map(({ endpointId }) => ({ endpointId, room, floor }));
  const rows = await claimDeliveries(sql, requests, { claimId, claimMs });
  return rows
    .sort((a, b) => a.dueAt - b.dueAt || (a.id < b.id ? -1 : 1))
    .map((row) => ({ ...row, claimId }));
}

const idsOf = (rows: readonly { id: string }[]) => rows.map(({ id }) => id);

function ended(
  { id, endpointId, claimId }: ClaimedDelivery & { claimId: string },
  status: Outcome['status'] = 'delivered',
): Outcome {
  const isGood = status === 'delivered';
  const attempt = {
    startedAt: Date.now(),
    durationMs: 1,
    httpStatus: isGood ? 200 : 500,
    error: null,
    response: Buffer.from([0, 0xff, 0x5c]),
    address: '127.0.0.1',
  };
  const dueAt = status === 'pending' ? Date.now() : null;
  return { id, endpointId, claimId, status, dueAt, attempt };
}

void t.test(
  'a claim takes due rows, oldest first, up to the number of free requests of each endpoint',
  async (t) => {
    const { sql } = await testDatabase(t);
    const [a, b] = [await seedApp(sql, 'http://a/'), await seedApp(sql, 'http://b/')];
    const ids = await queueDeliveries(sql, a, 5);
    const others = await queueDeliveries(sql, b, 5);
    await sql`update delivery_queue set due_at = now() + interval '1 hour' where id = ${ids[0] ?? ''}`;
    await sql`update delivery_queue set attempts = 3, due_at = now() - interval '1 hour' where id = ${ids[4] ?? ''}`;
    const first = await claim(sql, [a, b], { room: 2 });
    t.same(idsOf(first).sort(), [ids[1], ids[4], others[0], others[1]].sort());
    t.match(
      first.find(({ id }) => id === ids[4]),
      { attempts: 3, endpointClosed: false, body: String },
    );
    t.same(idsOf(await claim(sql, [a])), [ids[2], ids[3]], 'what is claimed is left out');
  },
);

void t.test(
  'concurrent claims take each delivery once, without waiting for each other',
  async (t) => {
    const { sql } = await testDatabase(t);
    const app = await seedApp(sql, 'http://a/');
    const ids = await queueDeliveries(sql, app, 80);
    const claims = await Promise.all(Array.from({ length: 8 }, () => claim(sql, [app])));
    t.same(claims.flatMap(idsOf).sort(), [...ids].sort());
    const locked = await sql.begin(async (tx) => {
      await tx`select from delivery_queue for update`;
      return claim(sql, [app], { room: 100 });
    });
    t.same(locked, []);
  },
);

void t.test('a delivery with an expired or released claim can be claimed again', async (t) => {
  const { sql } = await testDatabase(t);
  const app = await seedApp(sql, 'http://a/');
  await queueDeliveries(sql, app, 3);
  const late = await claim(sql, [app], { claimMs: -1 });
  const next = await claim(sql, [app], { room: 2 });
  t.same(idsOf(next), idsOf(late).slice(0, 2));
  t.same((await recordOutcomes(sql, [ended(late[0]!)])).size, 0, 'a lost claim writes nothing');
  await releaseClaims(sql, [{ id: next[0]!.id, claimId: late[0]!.claimId }]);
  t.same(idsOf(await claim(sql, [app])), idsOf(late).slice(2), 'given back by its holder alone');
  await releaseClaims(sql, next);
  t.same(idsOf(await claim(sql, [app])), idsOf(next));
  t.match(await deliveryState(sql, next[0]!.id), { status: 'pending', attempts: 0 });
});

void t.test('rows that were due before the given floor are excluded', async (t) => {
  const { sql } = await testDatabase(t);
  const app = await seedApp(sql, 'http://a/');
  const [old = '', recent = ''] = await queueDeliveries(sql, app, 2);
  await sql`update delivery_queue set due_at = now() - interval '1 minute' where id = ${old}`;
  t.same(idsOf(await claim(sql, [app], { floor: Date.now() - 30_000 })), [recent]);
  t.same(idsOf(await claim(sql, [app])), [old]);
});

void t.test(
  'an outcome moves a delivery to the log or back to the queue, and only once',
  async (t) => {
    const { sql } = await testDatabase(t);
    const app = await seedApp(sql, 'http://a/');
    await queueDeliveries(sql, app, 3);
    const [arrived, refused, given] = await claim(sql, [app]);
    const batch = [ended(arrived!), ended(refused!, 'pending'), ended(given!, 'failed')];
    t.same(await recordOutcomes(sql, batch), new Set(idsOf(batch)));
    t.match(await deliveryState(sql, arrived!.id), { status: 'delivered', attempts: 1 });
    t.match(await deliveryState(sql, refused!.id), { status: 'pending', attempts: 1 });
    t.match(await deliveryState(sql, given!.id), { status: 'failed', finishedAt: Date });
    for (const { id } of batch)
      t.match(await attemptsOf(sql, id), [{ number: 1, response: Buffer.from([0, 0xff, 0x5c]) }]);

    t.same(
      (await recordOutcomes(sql, batch)).size,
      0,
      'a batch that is written again changes nothing',
    );
    t.same(await findRecorded(sql, batch), new Set(idsOf(batch)), 'and differs from a lost claim');
    const [again] = await claim(sql, [app]);
    t.equal(again?.id, refused!.id);
    t.same(await recordOutcomes(sql, [ended(again!)]), new Set([refused!.id]));
    t.match(await deliveryState(sql, refused!.id), { status: 'delivered', attempts: 2 });
    t.match(await attemptsOf(sql, refused!.id), [{ number: 1, httpStatus: 500 }, { number: 2 }]);
  },
);

void t.test('an outcome is not written after its claim was lost', async (t) => {
  const { sql } = await testDatabase(t);
  const app = await seedApp(sql, 'http://a/');
  await queueDeliveries(sql, app, 2);
  const late = await claim(sql, [app], { claimMs: -1 });
  const next = await claim(sql, [app]);
  const outcomes = late.map((row, at) => ended(row, at === 0 ? 'pending' : 'delivered'));
  t.equal((await recordOutcomes(sql, outcomes)).size, 0);
  await recordOutcomes(
    sql,
    next.map((row) => {
      const outcome = ended(row);
      return { ...outcome, attempt: { ...outcome.attempt!, startedAt: Date.now() + 1 } };
    }),
  );
  t.equal((await findRecorded(sql, outcomes)).size, 0);
});

void t.test(
  'if a batch has two outcomes of one delivery, the outcome with the live claim is written',
  async (t) => {
    const { sql } = await testDatabase(t);
    const app = await seedApp(sql, 'http://a/');
    await queueDeliveries(sql, app, 2);
    const late = await claim(sql, [app], { claimMs: -1 });
    const next = await claim(sql, [app]);
    const results = ['pending', 'delivered'] as const;
    const outcomes = [...late, ...next].map((row, at) => ended(row, results[at % 2]));
    t.equal((await recordOutcomes(sql, outcomes)).size, 2);
    for (const [at, { id }] of next.entries()) {
      t.match(await deliveryState(sql, id), { status: results[at], attempts: 1 });
      t.equal((await attemptsOf(sql, id)).length, 1);
    }
  },
);

void t.test(
  'a batch that is retried while Postgres still writes the first try is written once',
  async (t) => {
    const { sql } = await testDatabase(t);
    const app = await seedApp(sql, 'http://a/');
    await queueDeliveries(sql, app, 2);
    const [sent, gone] = await claim(sql, [app]);
    const cancelled = { ...ended(gone!, 'cancelled'), attempt: null };
    const batch = [ended(sent!, 'pending'), cancelled];
    const again = await sql.begin(async (tx) => {
      t.equal((await recordOutcomes(tx, batch)).size, 2);
      const again = recordOutcomes(sql, batch);
      const waiting = () =>
        sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      await until(async () => (await waiting()).length > 0);
      return { again };
    });
    t.equal((await again.again).size, 0);
    t.equal((await findRecorded(sql, batch)).size, 2);
    t.match(await deliveryState(sql, sent!.id), { status: 'pending', attempts: 1 });
    t.match(await deliveryState(sql, gone!.id), { status: 'cancelled', attempts: 0 });
    t.equal((await attemptsOf(sql, sent!.id)).length, 1);
  },
);

void t.test(
  'a request that was under way when its endpoint was deleted has its attempt and its success logged',
  async (t) => {
    const { sql } = await testDatabase(t);
    const app = await seedApp(sql, 'http://a/');
    const ids = await queueDeliveries(sql, app, 5);
    await sql`update delivery_queue set attempts = 5 where id = ${ids[2] ?? ''}`;
    const [arrived, refused, last, unsent] = await claim(sql, [app], { room: 4 });
    await deleteEndpoint(sql, app.endpointId);
    t.match(await deliveryState(sql, ids[4]!), { status: 'cancelled', attempts: 0 });
    t.match(await deliveryState(sql, unsent!.id), { status: 'pending' }, 'its request may be out');
    const outcomes = [
      ended(arrived!),
      ended(refused!, 'pending'),
      ended(last!, 'failed'),
      { ...ended(unsent!, 'cancelled'), attempt: null },
    ];
    t.equal((await recordOutcomes(sql, outcomes)).size, 4);
    t.match(await deliveryState(sql, arrived!.id), { status: 'delivered', attempts: 1 });
    t.match(await deliveryState(sql, refused!.id), { status: 'cancelled', attempts: 1 });
    t.match(await deliveryState(sql, last!.id), { status: 'failed', attempts: 6 });
    t.match(await deliveryState(sql, unsent!.id), { status: 'cancelled', attempts: 0 });
    t.equal((await attemptsOf(sql, refused!.id)).length, 1);
    t.match(await attemptsOf(sql, last!.id), [{ number: 6 }]);
  },
);

void t.test('an endpoint can be deleted while outcomes are being written', async (t) => {
  const { sql } = await testDatabase(t);
  const app = await seedApp(sql, 'http://a/');
  const ids = await queueDeliveries(sql, app, 2500);
  const claimed = await claim(sql, [app], { room: 3 });
  await sql.begin(async (tx) => {
    t.equal((await recordOutcomes(tx, [ended(claimed[1]!)])).size, 1);
    await deleteEndpoint(sql, app.endpointId);
    t.equal((await recordOutcomes(tx, [ended(claimed[0]!), ended(claimed[2]!)])).size, 2);
  });
  for (const { id } of claimed) t.match(await deliveryState(sql, id), { status: 'delivered' });
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from deliveries where status = 'cancelled' and attempts = 0`;
  t.equal(row?.count, ids.length - 3);
});

void t.test(
  'a delivery that is being queued when its endpoint is deleted is cancelled',
  async (t) => {
    const { sql } = await testDatabase(t);
    const app = await seedApp(sql, 'http://a/');
    const [first] = await queueDeliveries(sql, app, 1);
    const { deletion, id } = await sql.begin(async (tx) => {
      const [queued] = await tx<{ id: string }[]>`
      insert into delivery_queue (endpoint_id, event_id, event_type)
      select endpoint_id, event_id, event_type from delivery_queue where id = ${first!} returning id`;
      const deletion = deleteEndpoint(sql, app.endpointId);
      void deletion.catch(() => undefined);
      const waiting = () =>
        sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      await until(async () => (await waiting()).length > 0);
      return { deletion, id: queued!.id };
    });
    await deletion;
    t.match(await deliveryState(sql, id), { status: 'cancelled' });
  },
);

void t.test(
  'a delivery with an expired claim is cancelled when its endpoint is deleted',
  async (t) => {
    const { sql } = await testDatabase(t);
    const app = await seedApp(sql, 'http://a/');
    await queueDeliveries(sql, app, 2);
    const [passed] = await claim(sql, [app], { room: 1, claimMs: -1 });
    await cancelUnclaimed(sql, app.endpointId);
    t.match(await deliveryState(sql, passed!.id), { status: 'cancelled' });
  },
);

void t.test(
  'the sweep finds each endpoint with due deliveries and how long they are due',
  async (t) => {
    const { sql } = await testDatabase(t);
    const apps = await Promise.all(
      Array.from({ length: 5 }, (_, index) => seedApp(sql, `http://${index}/`)),
    );
    for (const app of apps) await queueDeliveries(sql, app, 3);
    const [first, second, third] = apps;
    await sql`update delivery_queue set due_at = now() + interval '1 hour' where endpoint_id = ${first?.endpointId ?? ''}`;
    await sql`update delivery_queue set due_at = now() - interval '1 minute' where endpoint_id = ${second?.endpointId ?? ''}`;
    const rows = await sql<{ id: string }[]>`
    select id from delivery_queue where endpoint_id = ${third?.endpointId ?? ''}`;
    await finishDeliveries(sql, 'delivered', { ids: idsOf(rows) });
    const due = await findDueEndpoints(sql);
    t.same(
      due.map(({ endpointId }) => endpointId).sort(),
      [second, apps[3], apps[4]].map((app) => app?.endpointId).sort(),
    );
    const overdue = due.find(({ endpointId }) => endpointId === second?.endpointId)?.overdueMs ?? 0;
    const [row] = await sql<{ since: number }[]>`
    select (extract(epoch from clock_timestamp() - min(due_at)) * 1000)::float8 as since from delivery_queue`;
    t.ok(overdue >= 60_000 && overdue <= row!.since, `${overdue} ms`);
    t.equal(await countDue(sql, 100), 9);
    t.equal(await countDue(sql, 4), 4);
  },
);

/** Queues deliveries of one event each without the events' checks, many at once. */
async function fill(sql: Sql, app: SeededApp, count: number): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      with written as (
        insert into events (app_id, subscription_id, sequence, type, body, queued, created_at)
        select ${app.appId}, ${app.subscriptionId}, n, 'payment_success', '{}', true, now() from generate_series(1, ${count}::int) n returning id
      )
      insert into delivery_queue (endpoint_id, event_id, event_type) select ${app.endpointId}, id, 'payment_success' from written`;
  });
}

/** Rows and index entries of the queue that `act` reads. */
async function readBy(sql: Sql, act: (tx: Queryable) => Promise<unknown>): Promise<number> {
  const read = async (tx: Queryable) => {
    const [row] = await tx<{ read: number }[]>`
      select sum(pg_stat_get_xact_tuples_fetched(oid) + pg_stat_get_xact_tuples_returned(oid))::int as read
      from pg_class where oid = 'delivery_queue'::regclass
        or oid in (select indexrelid from pg_index where indrelid = 'delivery_queue'::regclass)`;
    return row!.read;
  };
  return sql.begin(async (tx) => {
    const before = await read(tx);
    await act(tx);
    return (await read(tx)) - before;
  });
}

void t.test(
  'a claim statement that was prepared on an empty queue reads few rows of a full queue',
  async (t) => {
    const { sql } = await testDatabase(t);
    const claims = connect(sql, { max: 1, planning: 'queue', limits: daemonLimits });
    const queue = connect(sql, { max: 1, planning: 'queue', limits: daemonLimits });
    t.teardown(() => Promise.all([claims.end(), queue.end()]));
    const app = await seedApp(sql, 'http://a/');
    for (let round = 0; round < 10; round += 1) {
      const rows = await claim(claims, [app]);
      await recordOutcomes(
        queue,
        rows.map((row) => ended(row)),
      );
    }
    await fill(sql, app, 50_000);
    const claiming = await readBy(claims, async (tx) => {
      const rows = await claim(tx, [app], { room: 200 });
      t.equal(rows.length, 200);
    });
    t.ok(claiming < 1000, `${claiming} rows`);
    const [left] = await claim(claims, [app]);
    const writing = await readBy(queue, (tx) => recordOutcomes(tx, [ended(left!)]));
    t.ok(writing < 10, `${writing} rows`);
  },
);

void t.test(
  'a claim of deliveries commits without waiting for the disk, an outcome waits for the disk',
  async (t) => {
    const { sql } = await testDatabase(t);
    const claims = connect(sql, { max: 1, planning: 'queue', limits: daemonLimits });
    t.teardown(() => claims.end());
    const app = await seedApp(sql, 'http://a/');
    await queueDeliveries(sql, app, 1);
    const setting = async (own: Queryable) =>
      (await own<{ value: string }[]>`select current_setting('synchronous_commit') as value`)[0]
        ?.value;
    const before = await setting(claims);
    t.not(before, 'off');
    await claims.begin(async (tx) => {
      t.equal((await claim(tx, [app])).length, 1);
      t.equal(await setting(tx), 'off');
    });
    t.equal(await setting(claims), before);
  },
);

void t.test(
  'a claim reads no finished rows, even while an old snapshot keeps them from being vacuumed',
  async (t) => {
    const { sql } = await testDatabase(t);
    const claims = connect(sql, { max: 1, planning: 'queue', limits: daemonLimits });
    t.teardown(() => claims.end());
    const app = await seedApp(sql, 'http://a/');
    const finished = Number(process.env.FINISHED_ROWS ?? 50_000);
    await fill(sql, app, finished);
    const dump = await sql.reserve();
    await dump`begin isolation level repeatable read`;
    await dump`select count(*) from delivery_queue`;
    await finishDeliveries(sql, 'delivered');
    await queueDeliveries(sql, app, 200);
    const [last] = await sql<{ due: number }[]>`
    select extract(epoch from max(due_at))::float8 * 1000 as due from delivery_queue`;
    const claiming = await readBy(claims, async (tx) => {
      const rows = await claim(tx, [app], { room: 200, floor: last!.due - 1 });
      t.equal(rows.length, 200);
    });
    t.ok(claiming < 1000, `${claiming} rows`);
    await dump`rollback`;
    dump.release();
  },
);
