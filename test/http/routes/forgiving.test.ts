// A merchant forgives an open invoice: its time counts as covered, and nothing is collected for it.
import t, { type Test } from 'tap';
import { readRemainder } from '../../../src/db/subscriptions/account-registrations.ts';
import { testApi } from '../../fixtures/http.ts';
import {
  insertAttempt,
  insertInvoice,
  insertPlan,
  insertSubscription,
} from '../../fixtures/rows.ts';

const START = Date.UTC(2097, 0, 1);
const HOUR = 3_600_000;
const period = (n: number) => new Date(START + n * 730 * HOUR);

const OVERDUE = {
  ...{ status: 'past_due', pastDueSince: period(0), failedAttempts: 2, paidThrough: period(0) },
  ...{ nextPaymentDue: new Date(START + HOUR), dueAt: new Date(START + HOUR), periodPulled: 7n },
  ...{ setbacks: 3, failedPacks: 2, chainInitId: 1n, chainPeriodStart: period(0) },
};

const conflict = (message: RegExp) => ({ status: 409, body: { error: { message } } });

/** A past-due subscription with the open invoice of its period. */
async function scene(t: Test, fields: Record<string, unknown> = {}) {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const { appId, key: token } = merchant;
  const planId = await insertPlan(api.sql, merchant);
  const id = await insertSubscription(api.sql, { appId, planId }, { ...OVERDUE, ...fields });
  const invoiceId = await insertInvoice(api.sql, id, { from: period(0) });
  const path = `/merchant/apps/${appId}/invoices/${invoiceId}/void`;
  const forgive = (by: string = token, headers: Record<string, string> = {}) =>
    api.call('POST', path, { token: by, headers });
  const read = async () =>
    (await api.call('GET', `/merchant/apps/${appId}/subscriptions/${id}`, { token })).body.data;
  const events = () =>
    api.sql<{ type: string; body: string }[]>`select type, body from events order by sequence`;
  const row = async () => {
    const [found] = await api.sql<[Record<string, unknown>]>`
      select s.failed_attempts, s.period_pulled, w.paid_through, w.setbacks, w.failed_packs,
        w.claim_id, w.lease_until from subscriptions s
      join subscription_work w on w.subscription_id = s.id where s.id = ${id}`;
    return found;
  };
  return { api, sql: api.sql, merchant, planId, id, invoiceId, forgive, read, events, row };
}

void t.test(
  'a forgiven invoice covers its time, and its subscription is active again',
  async (t) => {
    const { api, sql, id, invoiceId, forgive, read, events, row } = await scene(t);
    await sql`
    update subscription_work set claim_id = uuid_v7(), lease_until = now() + interval '1 minute'`;
    const { status, body } = await forgive();
    t.equal(status, 200);
    t.match(body.data, { id: invoiceId, state: 'void', voidReason: 'forgiven', nextTryAt: null });
    t.ok(body.data.closedAt);
    const due = period(1).toISOString();
    t.match(await read(), {
      status: 'active',
      pastDueSince: null,
      paidThrough: due,
      nextPaymentDue: due,
    });
    const nothing = { failedAttempts: 0, periodPulled: 0n, setbacks: 0, failedPacks: 0 };
    t.match(await row(), { ...nothing, paidThrough: period(1), claimId: null, leaseUntil: null });
    t.ok(api.woken.keepers > 0 && api.woken.dispatchers > 0);
    const [event, ...others] = await events();
    t.same(others, []);
    t.equal(event?.type, 'invoice_voided');
    t.match(JSON.parse(event!.body), {
      data: {
        ...{ subscriptionId: id, invoiceId, voidReason: 'forgiven', status: 'active' },
        ...{ total: '10000000', amountDue: '10000000', paidThrough: due, nextPaymentDue: due },
        ...{ coversFrom: period(0).toISOString(), coversTo: due },
      },
    });
    const again = await forgive();
    t.match(again, { status: 200 });
    t.strictSame(again.body.data, body.data);
    t.equal((await events()).length, 1);
  },
);

void t.test('a retry with the same Idempotency-Key gets the same answer', async (t) => {
  const { merchant, forgive, events } = await scene(t);
  const key = { 'idempotency-key': 'once' };
  const [first, second] = [await forgive(merchant.key, key), await forgive(merchant.key, key)];
  t.strictSame(second.body, first.body);
  t.equal((await events()).length, 1);
});

void t.test('while a payment is being collected, or nothing is, it is CONFLICT', async (t) => {
  const unpaid = { unpaidAt: period(0), troubledAt: period(0) };
  for (const [close, message] of [
    [{ state: 'paid' }, /refund its payment/],
    [{ state: 'uncollectible', ...unpaid }, /uncollectible/],
    [{ state: 'void', voidReason: 'ended', ...unpaid }, /is void/],
    [{ state: 'void', voidReason: 'replaced', ...unpaid }, /has replaced/],
  ] as const) {
    const { sql, forgive, read } = await scene(t);
    await sql`update invoices set ${sql({ closedAt: period(0), ...close })}`;
    t.match(await forgive(), conflict(message));
    t.match(await read(), { status: 'past_due' });
  }
  const flight = await scene(t);
  await insertAttempt(flight.sql);
  t.match(await flight.forgive(), conflict(/being collected.*in a minute/));
  await flight.sql`update payment_attempts set state = 'failed', resolved_at = now()`;
  t.match(await flight.forgive(), { status: 200 });
  const over = { status: 'cancelled', cancelledAt: period(0), pastDueSince: null };
  const ended = await scene(t, over);
  t.match(await ended.forgive(), conflict(/subscription is cancelled/));
});

void t.test(
  'nothing is due after a cancellation, in a pause and after the plan’s end',
  async (t) => {
    for (const fields of [
      { cancelRequestedAt: period(0), cancelRequestedBy: 'merchant' },
      { status: 'active', pastDueSince: null, pausedAt: period(0) },
    ]) {
      const { forgive, read } = await scene(t, fields);
      await forgive();
      const paidThrough = period(1).toISOString();
      t.match(await read(), { status: 'active', paidThrough, nextPaymentDue: null });
    }
    const { sql, forgive, read } = await scene(t);
    await sql`update plans set ends_at = ${period(1)}`;
    await forgive();
    t.match(await read(), { paidThrough: period(1).toISOString(), nextPaymentDue: null });
  },
);

void t.test('a pull that is known of the forgiven period stays known', async (t) => {
  const { forgive, row } = await scene(t, { pulledThrough: period(1) });
  await forgive();
  t.match(await row(), { periodPulled: 7n, paidThrough: period(1) });
});

void t.test('the next registration of the account takes over what was forgiven', async (t) => {
  const { sql, forgive } = await scene(t);
  await forgive();
  await sql`
    update subscriptions set status = 'cancelled', cancelled_at = now(), ended_at = now()`;
  const [{ subscriptionPda }] = await sql<[{ subscriptionPda: string }]>`
    select subscription_pda from subscriptions`;
  const account = { subscriptionPda, initId: 1n, periodStart: period(0) };
  t.match(await readRemainder(sql, account, { now: period(0) }), {
    ...{ paidThrough: period(1), periodPulled: 0n },
  });
  t.match(await readRemainder(sql, account, { now: period(1) }), { paidThrough: null });
});

void t.test('only the merchant forgives, and serve covers no other time', async (t) => {
  const { api, forgive, read } = await scene(t);
  t.equal((await forgive((await api.merchant()).key)).status, 403);
  t.equal((await forgive((await api.signIn('subscriber')).token)).status, 403);
  t.match(await read(), { status: 'past_due' });
  const { sql: serve } = api.deps;
  await t.rejects(serve`update subscription_work set paid_through = now()`, { code: '42501' });
  await t.rejects(serve`update subscriptions set period_pulled = 0`, { code: '42501' });
});
