import { randomUUID } from 'node:crypto';
import t from 'tap';
import { claimDeliveries, countDue, findDueLanes, recordOutcomes, releaseDeliveries, type Outcome } from '../../src/db/deliveries.ts';
import { connectQueue } from '../../src/db/queue-connection.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { attemptsOf, deliveryState, queueDeliveries, seedApp, type SeededApp } from '../fixtures/webhooks.ts';

const lane = ({ endpointId }: SeededApp, room: number, kind: 0 | 1 = 0) => ({ endpointId, kind, room, from: 0 });

function delivered(id: string, claimId: string, httpStatus = 200): Outcome {
  const attempt = { startedAt: Date.now(), durationMs: 1, httpStatus, error: null, response: Buffer.from('ok'), address: '127.0.0.1' };
  return { id, claimId, status: 'delivered', dueAt: null, attempt };
}

void t.test('a claim takes the oldest due deliveries of each lane, up to its room, and nobody else gets them', async (t) => {
  const { sql } = await testDatabase(t);
  const [a, b] = [await seedApp(sql, 'http://a/'), await seedApp(sql, 'http://b/')];
  const ids = await queueDeliveries(sql, a, 5);
  const others = await queueDeliveries(sql, b, 5);
  await sql`update deliveries set due_at = now() + interval '1 hour' where id = ${ids[0] ?? ''}`;
  await sql`update deliveries set attempts = 1 where id = ${ids[1] ?? ''}`;
  const claim = (lanes: ReturnType<typeof lane>[]) => claimDeliveries(sql, { lanes, claimId: randomUUID(), leaseMs: 10_000 });
  t.same((await claim([lane(a, 2), lane(b, 1)])).map(({ id }) => id).sort(), [ids[2], ids[3], others[0]]);
  t.same(
    (await claim([lane(a, 9)])).map(({ id }) => id),
    [ids[4]],
  );
  t.same(
    (await claim([lane(a, 9, 1)])).map(({ id, attempts }) => [id, attempts]),
    [[ids[1], 1]],
  );
  t.same(await claim([lane(a, 9), lane(a, 9, 1)]), []);
});

void t.test('two that claim at the same time share the rows, each goes to one of them', async (t) => {
  const { sql } = await testDatabase(t);
  const app = await seedApp(sql, 'http://a/');
  const ids = await queueDeliveries(sql, app, 200);
  const claims = await Promise.all(
    Array.from({ length: 8 }, () => claimDeliveries(sql, { lanes: [lane(app, 25)], claimId: randomUUID(), leaseMs: 10_000 })),
  );
  const claimed = claims.flat().map(({ id }) => id);
  t.equal(new Set(claimed).size, claimed.length);
  t.ok(claimed.every((id) => ids.includes(id)));
});

void t.test('an outcome is written under its own claim alone; a lease that passed lets another claim the row', async (t) => {
  const { sql } = await testDatabase(t);
  const app = await seedApp(sql, 'http://a/');
  const [id = ''] = await queueDeliveries(sql, app, 1);
  const [late, next] = [randomUUID(), randomUUID()];
  await claimDeliveries(sql, { lanes: [lane(app, 1)], claimId: late, leaseMs: -1 });
  t.equal((await claimDeliveries(sql, { lanes: [lane(app, 1)], claimId: next, leaseMs: 10_000 })).length, 1);
  t.equal(await recordOutcomes(sql, [delivered(id, late)]), 0);
  t.match(await deliveryState(sql, id), { status: 'pending', attempts: 0 });
  t.same(await attemptsOf(sql, id), []);
  t.equal(await recordOutcomes(sql, [delivered(id, next)]), 1);
  t.equal(await recordOutcomes(sql, [delivered(id, next)]), 0, 'a batch that is written again after a lost connection changes nothing');
  t.match(await deliveryState(sql, id), { status: 'delivered', attempts: 1 });
  t.equal((await attemptsOf(sql, id)).length, 1);
});

void t.test('what is released is as if it had never been claimed', async (t) => {
  const { sql } = await testDatabase(t);
  const app = await seedApp(sql, 'http://a/');
  const [id = ''] = await queueDeliveries(sql, app, 1);
  const before = await deliveryState(sql, id);
  const claimId = randomUUID();
  await claimDeliveries(sql, { lanes: [lane(app, 1)], claimId, leaseMs: 10_000 });
  await releaseDeliveries(sql, randomUUID(), [id]);
  t.not((await deliveryState(sql, id)).leaseUntil, null, 'not by another claim');
  await releaseDeliveries(sql, claimId, [id]);
  t.same(await deliveryState(sql, id), before);
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
  const claim = () => claimDeliveries(queue, { lanes: [lane(app, 10)], claimId, leaseMs: 10_000 });
  for (let round = 0; round < 7; round += 1) await claim();
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into deliveries (endpoint_id, event_id, status, finished_at)
      select ${app.endpointId}, gen_random_uuid(), 'delivered', now() from generate_series(1, 20000)`;
  });
  await queueDeliveries(sql, app, 20);
  const scans = async () => {
    // A session's statistics reach the others with some delay; this asks for them now.
    await queue`select pg_stat_force_next_flush()`.catch(() => undefined);
    await queue`select 1`;
    const [row] = await sql<{ seqScan: bigint }[]>`select seq_scan from pg_stat_user_tables where relname = 'deliveries'`;
    return row?.seqScan;
  };
  const before = await scans();
  const rows = await claim();
  t.equal(rows.length, 10);
  t.equal(
    await recordOutcomes(
      queue,
      rows.map(({ id }) => delivered(id, claimId)),
    ),
    10,
  );
  t.equal(await scans(), before);
});
