// The access guard of billing/client against a listening API that goes away and comes back.
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { BillingError, createAccessGuard, createClient } from '../../src/client/client.ts';
import { testApi } from '../fixtures/http.ts';
import { insertPlan, insertSubscription } from '../fixtures/rows.ts';

/**
 * A paying customer `c-1`, a service whose requests are counted and that can be away, and a clock
 * that is set.
 */
async function scene(t: Test) {
  const api = await testApi(t);
  await api.app.listen({ port: 0 });
  const baseUrl = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
  const merchant = await api.merchant();
  const planId = await insertPlan(api.sql, merchant);
  const paidThrough = new Date(Date.now() + 30 * 24 * 3_600_000);
  const fields = { externalId: 'c-1', paidThrough, nextPaymentDue: paidThrough };
  await insertSubscription(api.sql, { appId: merchant.appId, planId }, fields);
  const state = { requests: 0, away: false, now: 0, answer: undefined as Response | undefined };
  const client = createClient({
    baseUrl,
    token: merchant.key,
    fetch: (...given) => {
      state.requests += 1;
      if (state.away) return Promise.reject(new TypeError('fetch failed'));
      return state.answer === undefined ? fetch(...given) : Promise.resolve(state.answer);
    },
  });
  const guard = (options = {}) =>
    createAccessGuard(client, { appId: merchant.appId, clock: () => state.now, ...options });
  return { api, merchant, state, guard };
}

void t.test(
  'a response is cached until revalidateAfter, and concurrent calls share one request',
  async (t) => {
    const { state, guard } = await scene(t);
    const access = guard();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => access({ externalId: 'c-1' })),
    );
    t.ok(answers.every(({ hasAccess, stale }) => hasAccess && !stale));
    t.equal(state.requests, 1);
    state.now = 3_599_000;
    t.equal((await access({ externalId: 'c-1' })).reason, 'paid');
    t.equal(state.requests, 1, 'a paid period is cached for an hour');
    state.now = 3_601_000;
    await access({ externalId: 'c-1' });
    t.equal(state.requests, 2);
    t.equal((await access({ externalId: 'nobody' })).hasAccess, false);
    t.equal(state.requests, 3, 'each customer is asked for alone');
    state.now += 10_001;
    await access({ externalId: 'nobody' });
    t.equal(state.requests, 4, 'a customer without access is asked for again soon');
  },
);

void t.test(
  'while the service is unreachable the last response is used for keepSeconds, with a retry every retrySeconds',
  async (t) => {
    const { state, guard } = await scene(t);
    const access = guard({ keepSeconds: 7200, retrySeconds: 5 });
    await access({ externalId: 'c-1' });
    state.away = true;
    state.now = 3_700_000;
    t.match(await access({ externalId: 'c-1' }), { hasAccess: true, stale: true });
    t.equal(state.requests, 2);
    await access({ externalId: 'c-1' });
    t.equal(state.requests, 2, 'it is not asked at every call');
    state.now += 5_001;
    t.match(await access({ externalId: 'c-1' }), { hasAccess: true, stale: true });
    t.equal(state.requests, 3);
    state.now = 3_600_000 + 7_201_000;
    await t.rejects(access({ externalId: 'c-1' }), /fetch failed/, 'the time is over');
    await t.rejects(
      access({ externalId: 'nobody' }),
      /fetch failed/,
      'nothing is known of this one',
    );
    state.away = false;
    t.match(await access({ externalId: 'c-1' }), { hasAccess: true, stale: false }, 'it is back');
  },
);

void t.test(
  'the last response is used for an hour past revalidateAfter, but gives no access past accessUntil',
  async (t) => {
    const { api, state, guard } = await scene(t);
    const access = guard();
    const asked = { externalId: 'c-1' };
    await access(asked);
    state.away = true;
    for (const now of [3_600_500, 7_199_000]) {
      state.now = now;
      t.match(await access(asked), { hasAccess: true, stale: true }, `after ${now} ms`);
    }
    state.now = 7_201_000;
    await t.rejects(access(asked), /fetch failed/);

    state.away = false;
    const soon = new Date(Date.now() + 5_400_000);
    await api.sql`update subscriptions set next_payment_due = null`;
    await api.sql`update subscription_work set paid_through = ${soon}`;
    await access(asked);
    state.away = true;
    state.now += 5_300_000;
    t.match(await access(asked), { hasAccess: true, stale: true });
    state.now += 101_000;
    t.match(await access(asked), { hasAccess: false, stale: true }, 'it has ended meanwhile');
    const { requests } = state;
    t.match(await access(asked), { hasAccess: false, stale: true });
    t.equal(state.requests, requests, 'and is not asked for at every call');

    state.away = false;
    await api.sql`update subscription_work set paid_through = null`;
    state.now += 4_000_000;
    t.match(await access(asked), { hasAccess: false, accessUntil: null });
    state.away = true;
    state.now += 11_000;
    t.match(await access(asked), { hasAccess: false, accessUntil: null, stale: true });
  },
);

void t.test(
  'statuses 500 and 429 count as unreachable; a refusal does not, and is not hidden by the last response',
  async (t) => {
    const { api, merchant, state, guard } = await scene(t);
    const access = guard();
    await access({ externalId: 'c-1' });
    for (const status of [500, 503, 429]) {
      state.now += 4_000_000;
      state.answer = new Response('', { status });
      const fresh = guard();
      await t.rejects(fresh({ externalId: 'c-1' }), BillingError);
    }
    state.answer = undefined;
    state.now = 3_601_000;
    await api.sql`update api_keys set revoked_at = now() where merchant_id = ${merchant.merchantId}`;
    await t.rejects(access({ externalId: 'c-1' }), { code: 'UNAUTHORIZED' });
  },
);

void t.test('the cache keeps at most the configured number of customers', async (t) => {
  const { state, guard } = await scene(t);
  const access = guard({ maxCustomers: 2 });
  for (const externalId of ['a', 'b', 'c', 'c', 'b', 'a']) await access({ externalId });
  t.equal(state.requests, 4, 'the oldest was dropped');
});
