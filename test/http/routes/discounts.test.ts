// A merchant's discounts: less than the plan's amount, for some payments or for all.
import t from 'tap';
import { chainApi, testApi } from '../../fixtures/http.ts';
import { insertPlan, insertSubscription } from '../../fixtures/rows.ts';

interface Subscription {
  amount: string;
  nextAmount: string | null;
  discount: { percentOff: number | null; amountOff: string | null; periodsLeft: number | null };
}

const due = { nextPaymentDue: new Date('2026-02-01T00:00:00Z') };

void t.test(
  'a discount, in percent or as an amount, for some payments or all, reduces nextAmount until it is null',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const id = await insertSubscription(
      api.sql,
      { appId: merchant.appId, planId },
      { amount: 999, ...due },
    );
    const path = `/merchant/apps/${merchant.appId}/subscriptions/${id}`;
    const patch = async (discount: unknown) =>
      (
        await api.call<Subscription>('PATCH', path, {
          token: merchant.key,
          body: { discount },
        })
      ).body.data;
    t.match(await patch({ percentOff: 50 }), {
      amount: '999',
      nextAmount: '499',
      discount: { percentOff: 50, amountOff: null, periodsLeft: null },
    });
    t.equal(api.woken.keepers, 1, 'a keeper checks whether a past-due one can be paid now');
    t.match(await patch({ amountOff: '99', periods: 3 }), {
      nextAmount: '900',
      discount: { percentOff: null, amountOff: '99', periodsLeft: 3 },
    });
    const left = await api.call<Subscription>('PATCH', path, {
      token: merchant.key,
      body: { externalId: 'c-1' },
    });
    t.equal(left.body.data.nextAmount, '900', 'left out, it stays');
    t.match(await patch(null), { nextAmount: '999', discount: null });
  },
);

void t.test(
  'a discount leaves at least the plan minimum, has one kind, and needs a live subscription',
  async (t) => {
    const api = await testApi(t, { planMinimumAmount: 100n });
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const app = { appId: merchant.appId, planId };
    const id = await insertSubscription(api.sql, app, { amount: 999, ...due });
    const path = `/merchant/apps/${merchant.appId}/subscriptions/${id}`;
    const patch = (discount: unknown, at = path) =>
      api.call('PATCH', at, { token: merchant.key, body: { discount } });
    const refused: [string, unknown][] = [
      ['discount', {}],
      ['discount', { percentOff: 10, amountOff: '10' }],
      ['discount', { percentOff: 90 }],
      ['discount', { amountOff: '900' }],
      ['discount', { amountOff: '9223372036854775807' }],
      ['discount.percentOff', { percentOff: 100 }],
      ['discount.percentOff', { percentOff: 0 }],
      ['discount.percentOff', { percentOff: 1.5 }],
      ['discount.amountOff', { amountOff: 5 }],
      ['discount.periods', { percentOff: 10, periods: 0 }],
    ];
    for (const [field, discount] of refused) {
      const answer = await patch(discount);
      t.equal(answer.status, 400, JSON.stringify(discount));
      t.equal(answer.body.error?.details?.[0]?.path, field, JSON.stringify(discount));
    }
    t.equal((await patch({ amountOff: '899' })).status, 200);
    const over = await insertSubscription(api.sql, app, { status: 'expired' });
    const ended = `/merchant/apps/${merchant.appId}/subscriptions/${over}`;
    t.equal((await patch({ percentOff: 10 }, ended)).status, 409);
  },
);

void t.test('a subscription gets the discount of its checkout session', async (t) => {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  const plan = await api.publishedPlan(merchant);
  const sessions = `/merchant/apps/${merchant.appId}/checkout-sessions`;
  const create = (discount: unknown) =>
    api.call<{ id: string }>('POST', sessions, {
      token: merchant.key,
      body: { planId: plan.id, discount },
    });
  t.equal((await create({ amountOff: '10000000' })).status, 400);
  const session = await create({ percentOff: 30, periods: 2 });
  const discount = { percentOff: 30, amountOff: null, periodsLeft: 2 };
  t.match(session.body.data, { discount });
  const shown = await api.call('GET', `/checkout-sessions/${session.body.data.id}`);
  const schedule = [
    { amount: '7000000', times: 2 },
    { amount: '10000000', times: null },
  ];
  t.match(shown.body.data, { discount, plan: { amount: '10000000', schedule } });
  // Enough for the first payment, though not for the plan's amount.
  const subscriber = await api.signIn('subscriber', api.funded(7_000_000n));
  const { token } = subscriber;
  const path = `/subscriber/plans/${plan.id}`;
  const standing = (checkoutSessionId: string) =>
    api.call('GET', `${path}/standing?checkoutSessionId=${checkoutSessionId}`, { token });
  t.match((await standing(session.body.data.id)).body.data, { usdcNeeded: '7000000', schedule });
  t.equal((await standing(plan.id)).status, 400, 'no session of the plan');
  const opening = await api.call('POST', `${path}/subscribe`, {
    token,
    body: { checkoutSessionId: session.body.data.id },
  });
  t.match(opening.body.data, { warnings: [] });
  const subscriptionPda = await api.subscribed(subscriber, plan.id);
  const body = { appId: merchant.appId, planId: plan.id, subscriptionPda };
  const made = await api.call<Subscription>('POST', '/subscriber/subscriptions', {
    token: subscriber.token,
    body: { ...body, checkoutSessionId: session.body.data.id },
  });
  t.match(made.body.data, { amount: '10000000', nextAmount: '7000000', discount });
});

void t.test(
  'if the plan ends inside the next period, nextAmount is for the part before its end',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const app = { appId: merchant.appId, planId };
    const id = await insertSubscription(api.sql, app, { amount: 1000, periodHours: 24, ...due });
    await api.sql`update subscriptions set period_anchor = '2026-01-01T00:00:00Z'`;
    await api.sql`update plans set ends_at = '2026-02-01T06:00:00Z'`;
    const path = `/merchant/apps/${merchant.appId}/subscriptions`;
    const token = merchant.key;
    const one = await api.call<Subscription>('GET', `${path}/${id}`, { token });
    t.equal(one.body.data.nextAmount, '250', '6 of 24 hours');
    const all = await api.call<Subscription[]>('GET', path, { token });
    t.equal(all.body.data[0]?.nextAmount, '250', 'in the list too');
    await api.sql`update plans set ends_at = '2026-02-02T00:00:00Z'`;
    const whole = await api.call<Subscription>('GET', `${path}/${id}`, { token });
    t.equal(whole.body.data.nextAmount, '1000', 'the plan ends with the period');
  },
);
