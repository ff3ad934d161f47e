import { randomUUID } from 'node:crypto';
import { setImmediate, setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { connect, type Sql, type Transaction } from '../../src/db/connect.ts';
import { lockCollectable, readSubscriptions } from '../../src/db/subscriptions.ts';
import { forceCancel, requestCancel } from '../../src/domain/cancel.ts';
import type { Outgoing } from '../../src/keeper/in-flight.ts';
import { sendAll } from '../../src/keeper/send.ts';
import { startStage, type Stage } from '../fixtures/billing.ts';
import { randomAddress } from '../fixtures/http.ts';
import { startProxy } from '../fixtures/proxy.ts';

/** Claimed rows with something to send; the chain is not asked for them. */
async function outgoing(stage: Stage, count: number): Promise<Outgoing[]> {
  const plan = await stage.plan();
  const claimId = randomUUID();
  const rows = await stage.sql<{ id: string }[]>`
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, claim_id, lease_until, due_at)
    select ${plan.appId}, ${plan.id}, address, address, 1, 1, ${claimId}, now() + interval '1 minute', now()
    from unnest(${Array.from({ length: count }, randomAddress)}::text[]) as address returning id`;
  const held = new Map(
    (
      await readSubscriptions(
        stage.sql,
        rows.map(({ id }) => id),
      )
    ).map((row) => [row.id, row]),
  );
  return rows.map(({ id }, place) => ({
    id,
    row: held.get(id)!,
    claimId,
    notices: 0,
    heeded: 0,
    sends: 0,
    sentAt: -Infinity,
    periodEnd: 1n,
    afterwards: null,
    leasedAt: 0,
    attempt: {
      id: randomUUID(),
      subscriptionId: id,
      periodStart: new Date(0),
      signature: `signature ${place}`,
      transaction: Buffer.from(id),
      lastValidBlockHeight: 1n,
      amountGross: 1n,
      platformFee: 0n,
      amountNet: 1n,
    },
  }));
}

/** Sends that wait until they are let through. */
function gate() {
  const begun: string[] = [];
  const waiting: (() => void)[] = [];
  let open = false;
  return {
    begun,
    sendTransaction: async (bytes: Uint8Array) => {
      begun.push(Buffer.from(bytes).toString());
      if (!open) await new Promise<void>((resolve) => waiting.push(resolve));
      return '';
    },
    release: () => {
      open = true;
      for (const resolve of waiting.splice(0)) resolve();
    },
  };
}

/** 200 to send, of which as many as go out at once do not come to an end; meanwhile two are cancelled, one of them on its way. */
async function cancelMeanwhile(stage: Stage, cancel: typeof forceCancel) {
  const all = await outgoing(stage, 200);
  const { begun, release, sendTransaction } = gate();
  const { context } = stage.parts({ sendTransaction });
  const startedAt = performance.now();
  const sent = sendAll(context, all);
  await stage.until('some are on their way', async () => begun.length >= 128);
  const ids = new Set(begun);
  const onItsWay = begun[0]!;
  const later = all.find(({ id }) => !ids.has(id))?.id;
  if (later !== undefined) await stage.sql.begin((tx) => cancel(tx, { id: later, status: 'active' }));
  let answered = false;
  const cancelled = stage.sql.begin((tx) => cancel(tx, { id: onItsWay, status: 'active' })).then(() => (answered = true));
  await stage.until('it waits', async () => answered || (await stage.sql`select 1 from pg_locks where not granted`).length > 0);
  const answeredEarly = answered;
  const inTime = performance.now() - startedAt < 900;
  release();
  await Promise.all([sent, cancelled]);
  const sentOf = (id: string | undefined) => begun.filter((one) => one === id).length;
  const figures = { inTime, answeredEarly, begun: begun.length, later: sentOf(later) };
  await sendAll(context, all);
  return { ...figures, again: sentOf(onItsWay) };
}

void t.test('a cancellation waits for the send that is on its way, and nothing is sent once it is answered', async (t) => {
  const stage = await startStage(t);
  for (const [name, cancel] of [
    ['forced', forceCancel],
    ['at the end of the period', requestCancel],
  ] as const) {
    // A send holds up a cancellation for a second: a machine that stood still for as long in between shows nothing.
    let seen = await cancelMeanwhile(stage, cancel);
    for (let tries = 1; !seen.inTime && tries < 8; tries += 1) seen = await cancelMeanwhile(stage, cancel);
    t.ok(seen.inTime);
    t.notOk(seen.answeredEarly, `${name}: it is not answered while the bytes are on their way`);
    t.equal(seen.begun, 199);
    t.equal(seen.later, 0, `${name}: what was answered before is not sent`);
    t.equal(seen.again, 1, `${name}: and not again`);
  }
});

void t.test('an endpoint that never answers holds a cancellation up for a second at the most', async (t) => {
  const stage = await startStage(t);
  const [one] = await outgoing(stage, 1);
  const { begun, release, sendTransaction } = gate();
  let within: number | undefined;
  const { context } = stage.parts({
    sendTransaction: (bytes, options) => {
      within = options?.withinMs;
      return sendTransaction(bytes);
    },
  });
  const sent = sendAll(context, [one!]);
  await stage.until('it is on its way', async () => begun.length === 1);
  await stage.sql.begin((tx) => forceCancel(tx, { id: one!.id, status: 'active' }));
  await sent;
  t.ok(within !== undefined && within > 0 && within <= 1000, 'no endpoint is asked later than that');
  release();
  await setImmediate();
});

void t.test('what was taken from this keeper is not sent by it', async (t) => {
  const stage = await startStage(t);
  const [kept, taken] = await outgoing(stage, 2);
  const { begun, release, sendTransaction } = gate();
  release();
  const { context } = stage.parts({ sendTransaction });
  await stage.sql`update subscriptions set claim_id = ${randomUUID()} where id = ${taken!.id}`;
  await sendAll(context, [kept!, taken!]);
  t.same(begun, [kept!.id]);
});

void t.test('a notice that comes while a batch waits stops what it is about, until the chain was looked at', async (t) => {
  const stage = await startStage(t);
  const all = await outgoing(stage, 200);
  const { begun, release, sendTransaction } = gate();
  const { context } = stage.parts({ sendTransaction });
  const sent = sendAll(context, all);
  await stage.until('some are on their way', async () => begun.length === 128);
  const later = all.find(({ id }) => !begun.includes(id))!.id;
  await stage.sql`update subscriptions set notices = notices + 1 where id = ${later}`;
  release();
  await sent;
  t.equal(begun.length, 199);
  t.notOk(begun.includes(later));
});

void t.test('locked, but the session is gone by the time that it is heard: a cancellation came through, and nothing is sent', async (t) => {
  const stage = await startStage(t);
  const [one] = await outgoing(stage, 1);
  const { begun, release, sendTransaction } = gate();
  release();
  const url = new URL(stage.databaseUrl);
  const wire = await startProxy(t, Number(url.port));
  url.port = String(wire.port);
  const sql = connect(url.href, { max: 1, name: 'a keeper out of reach' });
  t.teardown(() => sql.end({ timeout: 0 }));
  const { context } = stage.parts({ sendTransaction });
  const locks = () => stage.sql<{ pid: number }[]>`
    select pid from pg_stat_activity where application_name = 'a keeper out of reach' and state = 'idle in transaction' and query like '%for share of s%'`;
  // Prepared: from then on a question is one message, and its answer another.
  await lockCollectable(sql, [one!]);
  const begin = (work: (tx: Transaction) => Promise<void>) =>
    sql.begin((tx) => {
      wire.hold();
      return work(tx);
    });
  const sent = sendAll({ ...context, sql: { begin } as unknown as Sql }, [one!]).catch((error: unknown) => error);
  await stage.until('the row is locked', async () => (await locks()).length === 1);
  await pause(300);
  await stage.sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'a keeper out of reach'`;
  await stage.sql.begin((tx) => forceCancel(tx, { id: one!.id, status: 'active' }));
  wire.release();
  await sent;
  t.same(begun, []);
});
