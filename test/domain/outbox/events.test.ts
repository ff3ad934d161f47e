import t from 'tap';
import {
  eventTypes,
  type EventContext,
  type EventType,
  extraEventTypes,
  insertEvents,
  standardEventTypes,
} from '../../../src/db/delivering/events.ts';
import { connect, type Transaction } from '../../../src/db/postgres/connect.ts';
import { newId } from '../../../src/db/postgres/ids.ts';
import { appName } from '../../../src/db/postgres/notify.ts';
import { appendEvents, eventBody } from '../../../src/domain/outbox/events.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { insertSubscription } from '../../fixtures/rows.ts';

const context: EventContext = {
  eventId: '019b76da-a87b-7000-8000-000000000001',
  sequence: 3n,
  subscriptionId: 's',
  appId: 'a',
  status: 'active',
  paidThrough: new Date('2026-01-31T00:00:00Z'),
  subscriptionPda: 'pda',
  planId: 'p',
  planName: 'Monthly',
  subscriberWallet: 'subscriber',
  merchantWallet: 'merchant',
  externalId: 'customer-1',
  metadata: '{"order_id":"1"}',
  nextPaymentDue: new Date('2026-01-31T00:00:00Z'),
  cancelRequestedAt: null,
  periodHours: 730,
  trialEndsAt: null,
  pausedAt: null,
  refundedThrough: null,
  replacedAt: null,
  ownIdsFrom: null,
  graceHours: 24,
};

void t.test(
  'an event has the common fields, amounts as strings, and times as ISO 8601 with milliseconds',
  (t) => {
    const amountGross = 2n ** 63n - 1n;
    const text = eventBody(context, 'payment_success', {
      amountGross,
      nextPaymentDue: new Date('2026-01-31T00:00:00Z'),
    });
    t.same(JSON.parse(text), {
      id: context.eventId,
      type: 'payment_success',
      createdAt: '2026-01-01T00:00:00.123Z',
      data: {
        appId: 'a',
        subscriptionId: 's',
        subscriptionPda: 'pda',
        planId: 'p',
        planName: 'Monthly',
        subscriberWallet: 'subscriber',
        merchantWallet: 'merchant',
        status: 'active',
        paidThrough: '2026-01-31T00:00:00.000Z',
        accessUntil: '2026-02-01T00:00:00.000Z',
        externalId: 'customer-1',
        metadata: { order_id: '1' },
        ownIdsFrom: null,
        sequence: 3,
        amountGross: '9223372036854775807',
        nextPaymentDue: '2026-01-31T00:00:00.000Z',
      },
    });
    t.end();
  },
);

void t.test('cancel events have no amountGross or txSignature', (t) => {
  for (const type of ['cancel_requested', 'cancel_finalized', 'cancel_forced'] as const) {
    const { data } = JSON.parse(eventBody(context, type)) as { data: Record<string, unknown> };
    t.notHas(data, { amountGross: String });
    t.notOk('amountGross' in data || 'txSignature' in data, type);
  }
  t.end();
});

async function subscription(sql: Awaited<ReturnType<typeof testDatabase>>['sql']) {
  const [row] = await sql<{ appId: string; planId: string }[]>`
    with merchant as (insert into merchants (wallet) values ('merchant') returning id),
    app as (insert into apps (merchant_id, name) select id, 'app' from merchant returning id),
    plan as (
      insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours)
      select id, 'plan', 'pda', 1, 'o', 'm', 't', 'p', 100, 24 from app returning id, app_id)
    select app_id, id as plan_id from plan`;
  return { appId: row!.appId, id: await insertSubscription(sql, row!) };
}

void t.test(
  'events of one transaction keep their order, and each is queued once for a live endpoint',
  async (t) => {
    const { sql } = await testDatabase(t);
    const { id, appId } = await subscription(sql);
    t.same(
      await sql.begin((tx) =>
        appendEvents(tx, [{ subscriptionId: id, type: 'subscription_created' }]),
      ),
      new Set([appName(appId)]),
      'no endpoint: stored, not queued',
    );
    const [endpoint] = await sql<{ id: string }[]>`
      insert into webhook_endpoints (app_id, url, secret) values (${appId}, 'http://x', '\\x00') returning id`;
    const queued = await sql.begin((tx) =>
      appendEvents(tx, [
        { subscriptionId: id, type: 'delegation_revoked' },
        { subscriptionId: id, type: 'payment_failed' },
      ]),
    );
    t.same(queued, new Set([endpoint?.id, appName(appId)]));
    const rows = await sql<
      { sequence: bigint; type: string; body: string }[]
    >`select sequence, type, body from events order by sequence`;
    t.same(
      rows.map(({ sequence, type }) => [sequence, type]),
      [
        [1n, 'subscription_created'],
        [2n, 'delegation_revoked'],
        [3n, 'payment_failed'],
      ],
    );
    t.equal((JSON.parse(rows[2]?.body ?? '{}') as { data: { sequence: number } }).data.sequence, 3);
    const [deliveries] = await sql<{ count: bigint }[]>`select count(*) from all_deliveries`;
    t.equal(deliveries?.count, 2n);
  },
);

void t.test(
  'an opt-in type is stored for all apps and only queued for an endpoint that lists it',
  async (t) => {
    const { sql } = await testDatabase(t);
    const { id, appId } = await subscription(sql);
    const [endpoint] = await sql<{ id: string }[]>`
      insert into webhook_endpoints (app_id, url, secret) values (${appId}, 'http://x', '\\x00') returning id`;
    const append = () =>
      sql.begin((tx) =>
        appendEvents(tx, [
          { subscriptionId: id, type: 'payment_success' },
          { subscriptionId: id, type: 'renewal_upcoming' },
          { subscriptionId: id, type: 'refund_recorded' },
        ]),
      );
    await append();
    await sql`update webhook_endpoints set extra_events = '{renewal_upcoming}' where id = ${endpoint!.id}`;
    await append();
    t.same(
      await sql<{ type: string; queued: boolean }[]>`select type, queued from events order by id`,
      [
        { type: 'payment_success', queued: true },
        { type: 'renewal_upcoming', queued: false },
        { type: 'refund_recorded', queued: false },
        { type: 'payment_success', queued: true },
        { type: 'renewal_upcoming', queued: true },
        { type: 'refund_recorded', queued: false },
      ],
    );
    t.same(
      (
        await sql<{ type: string }[]>`select event_type as type from delivery_queue order by id`
      ).map(({ type }) => type),
      ['payment_success', 'payment_success', 'renewal_upcoming'],
    );
  },
);

void t.test('an endpoint without extraEvents gets none of the opt-in types', async (t) => {
  const { sql } = await testDatabase(t);
  const { id, appId } = await subscription(sql);
  await sql`insert into webhook_endpoints (app_id, url, secret) values (${appId}, 'http://x', '\\x00')`;
  const store = (type: EventType) =>
    sql.begin(async (tx) => {
      if (type !== 'plan_blocked' && type !== 'credit_changed')
        return appendEvents(tx, [{ subscriptionId: id, type }]);
      const nothing = { subscriptionId: null, sequence: null, traceparent: null };
      return insertEvents(tx, [{ id: await newId(tx), appId, type, body: '{}', ...nothing }]);
    });
  const queued = () => sql<{ type: string }[]>`select event_type as type from delivery_queue`;
  for (const type of extraEventTypes) await store(type);
  t.same(await queued(), []);
  await sql`update webhook_endpoints set extra_events = ${[...extraEventTypes]}`;
  for (const type of extraEventTypes) await store(type);
  t.same(
    (await queued()).map(({ type }) => type),
    extraEventTypes,
  );
});

void t.test(
  'the opt-in event types in the database equal those in the code; a plan event has no subscription',
  async (t) => {
    const { sql } = await testDatabase(t);
    const { id, appId } = await subscription(sql);
    const taken = await sql<{ type: string }[]>`
      select type from jsonb_array_elements_text(${JSON.stringify(eventTypes)}::text::jsonb) as given (type) where takes_event('{}', type)`;
    t.same(
      taken.map(({ type }) => type),
      standardEventTypes,
    );
    await sql`insert into webhook_endpoints (app_id, url, secret, extra_events) values (${appId}, 'http://x', '\\x00', ${[...extraEventTypes]})`;
    await t.rejects(
      sql`update webhook_endpoints set extra_events = '{payment_success}'`,
      /extra_events/,
    );
    const insert = (type: string, subscriptionId: string | null) =>
      sql`insert into events (app_id, subscription_id, sequence, type, body, created_at) values (${appId}, ${subscriptionId}, ${subscriptionId && 1}, ${type}, '{}', now())`;
    await insert('plan_blocked', null);
    await insert('credit_changed', null);
    await t.rejects(insert('renewal_upcoming', null), /of_subscription_or_plan/);
    await t.rejects(insert('plan_blocked', id), /sequence|of_subscription_or_plan/);
  },
);

void t.test(
  'a rollback reverts the change, its event, the delivery and the sequence number together',
  async (t) => {
    const { sql } = await testDatabase(t);
    const { id } = await subscription(sql);
    await t.rejects(
      sql.begin(async (tx) => {
        await appendEvents(tx, [{ subscriptionId: id, type: 'cancel_forced' }]);
        throw new Error('the change failed');
      }),
      /the change failed/,
    );
    await sql.begin((tx) => appendEvents(tx, [{ subscriptionId: id, type: 'payment_failed' }]));
    t.same(await sql<{ sequence: bigint; type: string }[]>`select sequence, type from events`, [
      { sequence: 1n, type: 'payment_failed' },
    ]);
  },
);

void t.test(
  'sequence numbers of one subscription have no gap under concurrent transactions',
  async (t) => {
    const { sql } = await testDatabase(t);
    const { id } = await subscription(sql);
    await Promise.all(
      Array.from({ length: 40 }, () =>
        sql.begin((tx) => appendEvents(tx, [{ subscriptionId: id, type: 'payment_failed' }])),
      ),
    );
    const rows = await sql<{ sequence: bigint }[]>`select sequence from events order by sequence`;
    t.same(
      rows.map(({ sequence }) => Number(sequence)),
      Array.from({ length: 40 }, (_, index) => index + 1),
    );
  },
);

void t.test(
  'storing an event reads no more rows among thousands of events, even with old cached query plans',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const { id, appId } = await subscription(sql);
    await sql`insert into webhook_endpoints (app_id, url, secret) values (${appId}, 'http://127.0.0.1:1', '\\x00')`;
    const session = connect(url, { max: 1, name: 'a daemon’s session', planning: 'daemon' });
    t.teardown(() => session.end());
    await sql`vacuum analyze events`;
    await sql`vacuum analyze delivery_queue`;
    const tell = (tx: Transaction) =>
      appendEvents(tx, [{ subscriptionId: id, type: 'payment_failed' }]);
    // PL/pgSQL and foreign keys keep a plan after five uses.
    for (let count = 0; count < 10; count += 1) await session.begin(tell);
    await sql.begin(async (tx) => {
      await tx`set local session_replication_role = replica`;
      await tx`
        insert into events (app_id, subscription_id, sequence, type, body, created_at)
        select ${appId}, ${id}, 1000 + number, 'payment_failed', '{}', now() from generate_series(1, 5000) as number`;
      await tx`
        insert into delivery_queue (endpoint_id, event_id, event_type)
        select endpoint.id, event.id, event.type from webhook_endpoints endpoint, events event where event.sequence > 1000`;
    });
    const read = await session.begin(async (tx) => {
      await tell(tx);
      await tx`set constraints all immediate`;
      return tx<{ relname: string; rows: bigint }[]>`
        select relname, seq_tup_read as rows from pg_stat_xact_user_tables
        where relname like 'events%' or relname in ('delivery_queue', 'webhook_endpoints') order by relname`;
    });
    t.ok(read.length > 3, 'the partitions of events among them');
    t.same(
      read.filter(({ rows }) => rows !== 0n),
      [],
      'rows that were read without an index',
    );
    const [queued] = await sql<{ count: bigint }[]>`select count(*) from all_deliveries`;
    t.equal(queued?.count, 5011n, 'with a delivery for each event');
  },
);
