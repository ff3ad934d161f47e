import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { Queryable } from '../../src/db/connect.ts';
import { countDue, findDueLanes, readDue, recordOutcomes, type DueDelivery, type Outcome } from '../../src/db/deliveries.ts';
import { leaseEndpoints, type EndpointClaim, releaseEndpoints, wantEndpoints } from '../../src/db/delivery-leases.ts';
import { deleteEndpoint } from '../../src/db/endpoints.ts';
import { connectQueue } from '../../src/db/queue-connection.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { attemptsOf, deliveryState, queueDeliveries, seedApp, until, type SeededApp } from '../fixtures/webhooks.ts';

const start = { dueAt: 0, id: '00000000-0000-0000-0000-000000000000' };

const lane = ({ endpointId }: SeededApp, claimId: string, room: number, kind: 0 | 1 = 0) => ({
  endpointId,
  claimId,
  kind,
  room,
  after: start,
});

function ended({ id, endpointId, attempts }: DueDelivery, claimId: string, status: Outcome['status'] = 'delivered'): Outcome {
  const attempt = { startedAt: Date.now(), durationMs: 1, httpStatus: 200, error: null, response: Buffer.from('ok'), address: '127.0.0.1' };
  return { id, endpointId, claimId, attempts, status, dueAt: status === 'pending' ? Date.now() : null, attempt };
}

/** Leases these endpoints under this claim. */
async function lease(sql: Queryable, claims: readonly EndpointClaim[], ms: number) {
  const leases = await leaseEndpoints(sql, claims, claims[0]?.claimId ?? '', ms);
  return leases.map(({ endpointId, wanted }) => ({ endpointId, wanted }));
}

/** A session's statistics reach the others with some delay; this asks for them now. */
async function flushStatistics(sql: Queryable) {
  await sql`select pg_stat_force_next_flush()`.catch(() => undefined);
  await sql`select 1`;
}

void t.test('what is due in each lane is read oldest first, up to its room, and on from the last row', async (t) => {
  const { sql } = await testDatabase(t);
  const [a, b] = [await seedApp(sql, 'http://a/'), await seedApp(sql, 'http://b/')];
  const ids = await queueDeliveries(sql, a, 5);
  const others = await queueDeliveries(sql, b, 5);
  await sql`update deliveries set due_at = now() + interval '1 hour' where id = ${ids[0] ?? ''}`;
  await sql`update deliveries set attempts = 1 where id = ${ids[1] ?? ''}`;
  const claimId = randomUUID();
  await lease(
    sql,
    [a, b].map(({ endpointId }) => ({ endpointId, claimId })),
    10_000,
  );
  const read = async (lanes: Parameters<typeof readDue>[1]) => (await readDue(sql, lanes)).map(({ id }) => id);
  t.same((await read([lane(a, claimId, 2), lane(b, claimId, 1)])).sort(), [ids[2], ids[3], others[0]]);
  const last = (await readDue(sql, [lane(a, claimId, 2)])).at(-1);
  t.same(await read([{ ...lane(a, claimId, 9), after: last ?? start }]), [ids[4]], 'rows of one instant are told apart by their ids');
  t.same(await read([lane(a, claimId, 9, 1)]), [ids[1]]);
  t.same(await read([lane(a, randomUUID(), 9)]), [], 'nothing of an endpoint that is leased to another');
});

void t.test('of many that want an endpoint at once one gets it, and keeps it while it renews in time', async (t) => {
  const { sql } = await testDatabase(t);
  const apps = await Promise.all([1, 2, 3].map((port) => seedApp(sql, `http://${port}/`)));
  const claims = Array.from({ length: 8 }, () => {
    const claimId = randomUUID();
    return apps.map(({ endpointId }) => ({ endpointId, claimId }));
  });
  const leaseAll = async () => {
    const granted = await Promise.all(claims.map((claim, at) => lease(sql, at % 2 === 0 ? claim : claim.toReversed(), 60_000)));
    return granted.map((leases) => leases.map(({ endpointId }) => endpointId));
  };
  const given = await leaseAll();
  t.same(given.flat().sort(), apps.map(({ endpointId }) => endpointId).sort());
  t.same(
    (await leaseAll()).map((ids) => ids.sort()),
    given.map((ids) => ids.sort()),
    'each renews its own and gets no other',
  );
  await sql`update delivery_leases set lease_until = clock_timestamp()`;
  const [next = []] = claims.filter((_, at) => given[at]?.length === 0);
  t.equal((await lease(sql, next, 60_000)).length, 3, 'what has passed is free');
  t.equal((await leaseAll()).flat().length, 3);
  const other = claims.find((claim) => claim !== next) ?? [];
  await releaseEndpoints(sql, other);
  t.equal((await lease(sql, other, 60_000)).length, 0, 'released by its holder alone');
  await releaseEndpoints(sql, next);
  t.equal((await lease(sql, other, 60_000)).length, 3);
});

void t.test('a claim is kept after its lease has passed, until another took the endpoint: then it never has it again', async (t) => {
  const { sql } = await testDatabase(t);
  const { endpointId } = await seedApp(sql, 'http://a/');
  const mine = randomUUID();
  const again = async (ms: number) => {
    const newClaimId = randomUUID();
    const [granted] = await leaseEndpoints(sql, [{ endpointId, claimId: mine }], newClaimId, ms);
    return granted === undefined ? 'none' : granted.claimId === newClaimId ? 'a new one' : granted.claimId;
  };
  await lease(sql, [{ endpointId, claimId: mine }], -1);
  t.equal(await again(-1), mine);
  const renewing = await sql.begin(async (tx) => {
    // It is another's, and has passed, by the time that the row can be written.
    await tx`update delivery_leases set claim_id = gen_random_uuid()`;
    const renewing = again(60_000);
    const waiting = () => sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    await until(async () => (await waiting()).length > 0);
    return { renewing };
  });
  t.equal(await renewing.renewing, 'none');
  t.equal(await again(60_000), 'a new one');
  t.equal(await again(60_000), 'none', 'for whom it is another');
});

void t.test('leases are given back in the order in which they are taken: who waits for one has none that comes after it', async (t) => {
  const { sql } = await testDatabase(t);
  const queue = connectQueue(sql, 1);
  t.teardown(() => queue.end());
  const apps = await Promise.all([1, 2].map((port) => seedApp(sql, `http://${port}/`)));
  const claimId = randomUUID();
  const claims = apps.map(({ endpointId }) => ({ endpointId, claimId })).sort((a, b) => (a.endpointId < b.endpointId ? -1 : 1));
  const [first = '', second = ''] = claims.map(({ endpointId }) => endpointId);
  await lease(queue, claims, 60_000);
  const releasing = await sql.begin(async (tx) => {
    await tx`select from delivery_leases where endpoint_id = ${first} for share`;
    const releasing = releaseEndpoints(queue, claims.toReversed());
    const waiting = () => sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    await until(async () => (await waiting()).length > 0);
    await tx`select from delivery_leases where endpoint_id = ${second} for share nowait`;
    return { releasing };
  });
  await releasing.releasing;
  const free = await sql`select from delivery_leases where lease_until = '-infinity'`;
  t.equal(free.length, 2);
});

void t.test('whoever renews a lease hears that another wants the endpoint, for a while; who takes it over does not', async (t) => {
  const { sql } = await testDatabase(t);
  const { endpointId } = await seedApp(sql, 'http://a/');
  const { endpointId: free } = await seedApp(sql, 'http://b/');
  const claim = [{ endpointId, claimId: randomUUID() }];
  const next = [{ endpointId, claimId: randomUUID() }];
  t.same([...(await lease(sql, claim, 60_000))], [{ endpointId, wanted: false }]);
  await wantEndpoints(sql, [endpointId, free], 60_000);
  t.same([...(await lease(sql, claim, 60_000))], [{ endpointId, wanted: true }]);
  t.same([...(await lease(sql, next, 60_000))], [], 'to want it is not to have it');
  await releaseEndpoints(sql, claim);
  t.same([...(await lease(sql, next, 60_000))], [{ endpointId, wanted: false }]);
  await wantEndpoints(sql, [endpointId], -1);
  t.same([...(await lease(sql, next, 60_000))], [{ endpointId, wanted: false }], 'that was a while ago');
  await sql.begin(async (tx) => {
    await tx`select 1 from delivery_leases for share`;
    await wantEndpoints(sql, [endpointId], 60_000);
  });
  t.same(
    [...(await lease(sql, next, 60_000))],
    [{ endpointId, wanted: false }],
    'nobody waits for a row that outcomes are being written under',
  );
});

void t.test('an outcome is written under its own lease alone, and once', async (t) => {
  const { sql } = await testDatabase(t);
  const app = await seedApp(sql, 'http://a/');
  const { endpointId } = app;
  const [id = ''] = await queueDeliveries(sql, app, 1);
  const [late, next] = [randomUUID(), randomUUID()];
  await lease(sql, [{ endpointId, claimId: late }], -1);
  const [row] = await readDue(sql, [lane(app, late, 1)]);
  if (row === undefined) throw new Error('nothing is due');
  t.equal((await lease(sql, [{ endpointId, claimId: next }], 10_000)).length, 1);
  t.equal(await recordOutcomes(sql, [ended(row, late)]), 0);
  t.match(await deliveryState(sql, id), { status: 'pending', attempts: 0 });
  t.same(await attemptsOf(sql, id), []);
  t.equal(await recordOutcomes(sql, [ended(row, next, 'pending')]), 1);
  t.equal(await recordOutcomes(sql, [ended(row, next)]), 0, 'a batch that is written again after a lost connection changes nothing');
  t.match(await deliveryState(sql, id), { status: 'pending', attempts: 1 });
  t.equal((await attemptsOf(sql, id)).length, 1);
});

void t.test('a batch that is written again while Postgres is still at it, unheard, is written once', async (t) => {
  const { sql } = await testDatabase(t);
  const app = await seedApp(sql, 'http://a/');
  const ids = await queueDeliveries(sql, app, 2);
  const claimId = randomUUID();
  await lease(sql, [{ endpointId: app.endpointId, claimId }], 60_000);
  const first = await readDue(sql, [lane(app, claimId, 2)]);
  await recordOutcomes(
    sql,
    first.map((row) => ended(row, claimId, 'pending')),
  );
  const [sent, gone] = await readDue(sql, [lane(app, claimId, 2, 1)]);
  if (sent === undefined || gone === undefined) throw new Error('they are not due');
  const batch = [ended(sent, claimId), { ...ended(gone, claimId, 'cancelled'), dueAt: null, attempt: null }];
  const again = await sql.begin(async (tx) => {
    t.equal(await recordOutcomes(tx, batch), 2);
    const again = recordOutcomes(sql, batch);
    const waiting = () => sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    await until(async () => (await waiting()).length > 0);
    return { again };
  });
  const { finishedAt } = await deliveryState(sql, gone.id);
  await again.again;
  t.match(await deliveryState(sql, sent.id), { status: 'delivered', attempts: 2 });
  t.match(await deliveryState(sql, gone.id), { status: 'cancelled', attempts: 1, finishedAt });
  for (const id of ids) t.equal((await attemptsOf(sql, id)).length, id === sent.id ? 2 : 1);
});

void t.test('whoever takes a lease over reads what was being written under it', async (t) => {
  const { sql } = await testDatabase(t);
  const app = await seedApp(sql, 'http://a/');
  const { endpointId } = app;
  await queueDeliveries(sql, app, 1);
  const [late, next] = [randomUUID(), randomUUID()];
  await lease(sql, [{ endpointId, claimId: late }], -1);
  const [row] = await readDue(sql, [lane(app, late, 1)]);
  if (row === undefined) throw new Error('nothing is due');
  const taken = await sql.begin(async (tx) => {
    t.equal(await recordOutcomes(tx, [ended(row, late)]), 1);
    const taking = lease(sql, [{ endpointId, claimId: next }], 10_000);
    const first = await Promise.race([taking, tx`select pg_sleep(0.1)`.then(() => 'waits')]);
    t.equal(first, 'waits');
    return { taking };
  });
  t.same([...(await taken.taking)], [{ endpointId, wanted: false }]);
  t.same(await readDue(sql, [lane(app, next, 1)]), []);
});

void t.test('a request that was under way when its endpoint was deleted has its attempt logged; what arrived has arrived', async (t) => {
  const { sql } = await testDatabase(t);
  const app = await seedApp(sql, 'http://a/');
  const ids = await queueDeliveries(sql, app, 4);
  await sql`update deliveries set attempts = 5 where id = ${ids[2] ?? ''}`;
  const claimId = randomUUID();
  await lease(sql, [{ endpointId: app.endpointId, claimId }], 10_000);
  const [arrived, refused, unsent] = await readDue(sql, [lane(app, claimId, 4)]);
  const [last] = await readDue(sql, [lane(app, claimId, 4, 1)]);
  if (arrived === undefined || refused === undefined || unsent === undefined || last === undefined) throw new Error('they are not due');
  await deleteEndpoint(sql, app.endpointId);
  const { finishedAt } = await deliveryState(sql, last.id);
  const outcomes = [ended(arrived, claimId), ended(refused, claimId, 'pending'), ended(last, claimId, 'failed')];
  t.equal(await recordOutcomes(sql, outcomes), 3);
  t.match(await deliveryState(sql, arrived.id), { status: 'delivered', attempts: 1, finishedAt: Date });
  t.match(await deliveryState(sql, refused.id), { status: 'cancelled', attempts: 1, finishedAt });
  t.match(
    await deliveryState(sql, last.id),
    { status: 'cancelled', attempts: 6, finishedAt },
    'the attempt that would have been its last, too',
  );
  t.match(await deliveryState(sql, unsent.id), { status: 'cancelled', attempts: 0 });
  t.equal((await attemptsOf(sql, refused.id)).length, 1);
  t.match(await attemptsOf(sql, last.id), [{ number: 6 }]);
});

void t.test('the sweep finds each lane that has something due, and how long it has been', async (t) => {
  const { sql } = await testDatabase(t);
  const apps = await Promise.all(Array.from({ length: 5 }, (_, index) => seedApp(sql, `http://${index}/`)));
  for (const app of apps) await queueDeliveries(sql, app, 3);
  const [first, second, third] = apps;
  await sql`update deliveries set due_at = now() + interval '1 hour' where endpoint_id = ${first?.endpointId ?? ''}`;
  await sql`update deliveries set attempts = 2, due_at = now() - interval '1 minute' where endpoint_id = ${second?.endpointId ?? ''}`;
  await sql`update deliveries set status = 'delivered', finished_at = now() where endpoint_id = ${third?.endpointId ?? ''}`;
  const heads = await findDueLanes(sql);
  const expected = [
    [second?.endpointId, 1],
    [apps[3]?.endpointId, 0],
    [apps[4]?.endpointId, 0],
  ];
  t.same(heads.map(({ endpointId, kind }) => [endpointId, kind]).sort(), expected.sort());
  const overdue = heads.find(({ kind }) => kind === 1)?.overdueMs ?? 0;
  t.ok(overdue >= 60_000 && overdue < 70_000, `${overdue} ms`);
  t.equal(await countDue(sql, 100), 9);
  t.equal(await countDue(sql, 4), 4);
});

void t.test('the plans of the queue are prepared on an empty table and hold for a full one', async (t) => {
  const { sql } = await testDatabase(t);
  const queue = connectQueue(sql, 1);
  t.teardown(() => queue.end());
  const app = await seedApp(sql, 'http://a/');
  const claimId = randomUUID();
  await lease(queue, [{ endpointId: app.endpointId, claimId }], 60_000);
  const read = () => readDue(queue, [lane(app, claimId, 10)]);
  for (let round = 0; round < 7; round += 1) await read();
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into deliveries (endpoint_id, event_id, event_type, status, finished_at)
      select ${app.endpointId}, gen_random_uuid(), 'payment_success', 'delivered', now() from generate_series(1, 20000)`;
  });
  await queueDeliveries(sql, app, 20);
  const scans = async () => {
    await flushStatistics(queue);
    const [row] = await sql<{ seqScan: bigint }[]>`select seq_scan from pg_stat_user_tables where relname = 'deliveries'`;
    return row?.seqScan;
  };
  const before = await scans();
  const rows = await read();
  t.equal(rows.length, 10);
  t.equal(
    await recordOutcomes(
      queue,
      rows.map((row) => ended(row, claimId)),
    ),
    10,
  );
  t.equal(await scans(), before);
});

void t.test('what is written is found by its id alone, however much is pending', async (t) => {
  const { sql } = await testDatabase(t);
  const queue = connectQueue(sql, 1);
  t.teardown(() => queue.end());
  const app = await seedApp(sql, 'http://a/');
  const claimId = randomUUID();
  await lease(queue, [{ endpointId: app.endpointId, claimId }], 60_000);
  await queueDeliveries(sql, app, 500);
  const rows = await readDue(queue, [lane(app, claimId, 10)]);
  await recordOutcomes(
    queue,
    rows.map((row) => ended(row, claimId)),
  );
  await flushStatistics(queue);
  const [walked] = await sql<{ rows: bigint }[]>`
    select idx_tup_read as rows from pg_stat_user_indexes where indexrelname = 'deliveries_by_endpoint'`;
  t.equal(walked?.rows, 0n);
});
