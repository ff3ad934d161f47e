// A merchant pauses a subscription: no payment is collected, and access ends with the paid period.
import t from 'tap';
import { chainApi, testApi } from '../../fixtures/http.ts';
import { insertPlan, insertSubscription } from '../../fixtures/rows.ts';

interface Subscription {
  status: string;
  pausedAt: string | null;
  nextPaymentDue: string | null;
  accessUntil: string | null;
}

void t.test(
  'a paused subscription has no payment due, and access until the paid time ends',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const paidThrough = new Date('2099-01-01T00:00:00.000Z');
    const id = await insertSubscription(
      api.sql,
      { appId: merchant.appId, planId },
      { paidThrough, nextPaymentDue: paidThrough, dueAt: paidThrough },
    );
    const path = `/merchant/apps/${merchant.appId}/subscriptions/${id}`;
    const post = (verb: string, headers: Record<string, string> = {}) =>
      api.call<Subscription>('POST', `${path}/${verb}`, { token: merchant.key, headers });
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const paused = (await post('pause')).body.data;
    t.match(paused, {
      status: 'active',
      nextPaymentDue: null,
      nextAmount: null,
      accessUntil: paidThrough.toISOString(),
    });
    t.ok(paused.pausedAt);
    t.equal((await post('pause')).body.data.pausedAt, paused.pausedAt, 'again changes nothing');
    const unpaused = (await post('unpause', { traceparent })).body.data;
    t.match(unpaused, { pausedAt: null, nextPaymentDue: paidThrough.toISOString() });
    t.equal((await post('unpause')).status, 200);
    const events = await api.sql<{ type: string; body: string; traceparent: string | null }[]>`
      select type, body, traceparent from events order by sequence`;
    t.same(
      events.map((event) => event.traceparent),
      [null, traceparent],
      'an event belongs to the trace of its request',
    );
    t.same(
      events.map(({ type }) => type),
      ['subscription_paused', 'subscription_unpaused'],
    );
    t.match(JSON.parse(events[0]!.body), { data: { pausedAt: paused.pausedAt } });
    t.match(JSON.parse(events[1]!.body), {
      data: { nextPaymentDue: paidThrough.toISOString() },
    });
    t.ok(api.woken.keepers > 0);
  },
);

void t.test(
  'a paused past-due subscription is active and not retried, and due at once when unpaused',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const id = await insertSubscription(
      api.sql,
      { appId: merchant.appId, planId },
      { status: 'past_due', pastDueSince: new Date(), failedAttempts: 2, dueAt: new Date() },
    );
    const path = `/merchant/apps/${merchant.appId}/subscriptions/${id}`;
    const post = (verb: string) =>
      api.call<Subscription>('POST', `${path}/${verb}`, { token: merchant.key });
    t.match((await post('pause')).body.data, { status: 'active', accessUntil: null });
    const customer = `/merchant/apps/${merchant.appId}/access?wallet=`;
    const [row] = await api.sql<{ subscriberWallet: string; failedAttempts: number }[]>`
      select subscriber_wallet, failed_attempts from subscriptions`;
    t.equal(row!.failedAttempts, 0);
    const access = await api.call('GET', `${customer}${row!.subscriberWallet}`, {
      token: merchant.key,
    });
    t.match(access.body.data, { hasAccess: false, reason: 'paused' });
    const unpaused = (await post('unpause')).body.data;
    t.equal(BigInt(Date.parse(unpaused.nextPaymentDue!) / 1000), await api.chainNow());
  },
);

void t.test('pausing a cancelled or ended subscription gets CONFLICT', async (t) => {
  const api = await testApi(t);
  const [merchant, other] = [await api.merchant(), await api.merchant()];
  const planId = await insertPlan(api.sql, merchant);
  const app = { appId: merchant.appId, planId };
  const asked = { cancelRequestedAt: new Date(), cancelRequestedBy: 'merchant' };
  const ids = [
    await insertSubscription(api.sql, app, { status: 'expired' }),
    await insertSubscription(api.sql, app, asked),
  ];
  const path = (id: string) => `/merchant/apps/${merchant.appId}/subscriptions/${id}/pause`;
  for (const id of ids)
    t.equal((await api.call('POST', path(id), { token: merchant.key })).status, 409);
  t.equal((await api.call('POST', path(ids[0]!), { token: other.key })).status, 403);
  const unpause = path(await insertSubscription(api.sql, app)).replace(/pause$/, 'unpause');
  t.match(
    await api.call('POST', unpause, { token: merchant.key }),
    {
      status: 503,
      body: { error: { code: 'INTERNAL_ERROR' } },
    },
    'the chain is out of reach: nothing changes',
  );
});
