// A plan's trial: the first payment is due later, once per wallet and app.
import t from 'tap';
import { chainApi, type ChainApi, type Signed, testApi } from '../../fixtures/http.ts';

const hourMs = 3_600_000;

interface Subscription {
  id: string;
  trialEndsAt: string | null;
  nextPaymentDue: string | null;
  nextAmount: string | null;
  accessUntil: string | null;
  paidThrough: string | null;
}

async function register(api: ChainApi, subscriber: Signed, appId: string, planId: string) {
  const subscriptionPda = await api.subscribed(subscriber, planId);
  const { status, body } = await api.call<Subscription>('POST', '/subscriber/subscriptions', {
    token: subscriber.token,
    body: { appId, planId, subscriptionPda },
  });
  if (status !== 201) throw new Error(`not registered: ${JSON.stringify(body)}`);
  return body.data;
}

void t.test(
  'a trial gives access through its grace, and its first payment is for the rest of the period',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant, { trialHours: 30, graceHours: 2 });
    const subscriber = await api.signIn('subscriber', api.funded());
    const { token } = subscriber;
    const shown = await api.call('GET', `/plans/${plan.id}`);
    // The trial ends in the second period of 24 hours, 18 of which are left.
    const schedule = [
      { amount: String((10_000_000 * 18) / 24), times: 1 },
      { amount: '10000000', times: null },
    ];
    t.match(shown.body.data, { trialHours: 30, schedule });
    const standing = () => api.call('GET', `/subscriber/plans/${plan.id}/standing`, { token });
    t.match((await standing()).body.data, { trialHours: 30, usdcNeeded: '0', schedule });
    const poor = await api.signIn('subscriber', api.funded(0n));
    const opening = await api.call('POST', `/subscriber/plans/${plan.id}/subscribe`, {
      token: poor.token,
    });
    t.match(opening.body.data, { warnings: [] }, 'nothing is due when it subscribes');

    const made = await register(api, subscriber, merchant.appId, plan.id);
    const trialEnds = Date.parse(made.trialEndsAt!);
    const [row] = await api.sql<{ chainPeriodStart: Date; dueAt: Date }[]>`
      select chain_period_start, due_at from subscriptions
        join subscription_work on subscription_id = id where id = ${made.id}`;
    t.equal(trialEnds, row!.chainPeriodStart.getTime() + 30 * hourMs, 'counted from its period');
    t.ok(row!.dueAt.getTime() < trialEnds, 'the keeper reads it at once nevertheless');
    t.match(made, { nextPaymentDue: made.trialEndsAt, paidThrough: null });
    t.equal(Date.parse(made.accessUntil!), trialEnds + 2 * hourMs);
    t.equal(made.nextAmount, String((10_000_000 * 18) / 24), '18 of the 24 hours are left');
    t.match((await standing()).body.data, {
      trialHours: null,
      usdcNeeded: '10000000',
      schedule: [{ amount: '10000000', times: null }],
    });

    const [event] = await api.sql<{ body: string }[]>`select body from events`;
    t.match(JSON.parse(event!.body), { data: { accessUntil: made.accessUntil } });
    const path = `/merchant/apps/${merchant.appId}`;
    const access = await api.call('GET', `${path}/access?wallet=${subscriber.wallet}`, {
      token: merchant.key,
    });
    t.match(access.body.data, { hasAccess: true, reason: 'trial', accessUntil: made.accessUntil });

    // Cancelled in the trial: it runs to its end.
    const cancelled = await api.call<Subscription>(
      'POST',
      `${path}/subscriptions/${made.id}/cancel`,
      { token: merchant.key },
    );
    t.match(cancelled.body.data, {
      status: 'active',
      nextPaymentDue: null,
      nextAmount: null,
      accessUntil: made.trialEndsAt,
    });
    const [after] = await api.sql<{ dueAt: Date }[]>`select due_at from subscription_work`;
    t.equal(after!.dueAt.getTime(), trialEnds);
  },
);

void t.test(
  'a wallet has one trial per app, also across plans, after an end and concurrently',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant, { trialHours: 24 });
    const second = await api.publishedPlan(merchant, { trialHours: 48 });
    const created = await api.call<{ id: string }>('POST', '/merchant/apps', {
      token: merchant.token,
      body: { name: 'Second' },
    });
    const otherApp = { ...merchant, appId: created.body.data.id };
    const elsewhere = await api.publishedPlan(otherApp, { trialHours: 24 });
    const subscriber = await api.signIn('subscriber', api.funded());

    const pdas = [
      await api.subscribed(subscriber, plan.id),
      await api.subscribed(subscriber, second.id),
    ];
    const both = await Promise.all(
      [plan, second].map(({ id: planId }, index) =>
        api.call<Subscription>('POST', '/subscriber/subscriptions', {
          token: subscriber.token,
          body: { appId: merchant.appId, planId, subscriptionPda: pdas[index] },
        }),
      ),
    );
    t.same(
      both.map(({ status }) => status),
      [201, 201],
    );
    const trials = both.filter(({ body }) => body.data.trialEndsAt !== null);
    t.equal(trials.length, 1, 'two at once: one trial');
    await api.sql`
      update subscriptions set status = 'expired', ended_at = now(), end_reason = 'past_due' where trial_ends_at is not null`;
    const third = await api.publishedPlan(merchant, { trialHours: 24 });
    t.equal((await register(api, subscriber, merchant.appId, third.id)).trialEndsAt, null);
    t.not((await register(api, subscriber, otherApp.appId, elsewhere.id)).trialEndsAt, null);
    const another = await api.signIn('subscriber', api.funded());
    t.not((await register(api, another, merchant.appId, plan.id)).trialEndsAt, null);
  },
);

void t.test(
  'a checkout session has its own trial, once per wallet and app, which no subscriber can forge',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const { appId, key } = merchant;
    const plan = await api.publishedPlan(merchant, { graceHours: 2 });
    const trialPlan = await api.publishedPlan(merchant, { trialHours: 24 });
    const ask = (body: object) =>
      api.call<{ id: string; trialHours: number | null }>(
        'POST',
        `/merchant/apps/${appId}/checkout-sessions`,
        { token: key, body },
      );
    const session = async (planId: string, trialHours: number) => {
      const made = await ask({ planId, trialHours });
      t.match(made, { status: 201, body: { data: { trialHours } } });
      return made.body.data.id;
    };
    const refused = { status: 400, body: { error: { details: [{ path: 'trialHours' }] } } };
    for (const trialHours of [0, 8761, 1.5])
      t.match(await ask({ planId: plan.id, trialHours }), refused);

    // The public page, and the wallet's standing, show the trial of the session.
    const one = await session(plan.id, 6);
    const shown = await api.call('GET', `/checkout-sessions/${one}`);
    t.match(shown.body.data, { plan: { trialHours: 6, schedule: [{ amount: '7500000' }] } });
    const subscriber = await api.signIn('subscriber', api.funded());
    const { token } = subscriber;
    const standing = (id: string, planId = plan.id) =>
      api.call('GET', `/subscriber/plans/${planId}/standing?checkoutSessionId=${id}`, { token });
    t.match((await standing(one)).body.data, { trialHours: 6, usdcNeeded: '0' });

    // Nothing but the session's id makes a trial: not a field, not the session of another plan.
    const subscriptionPda = await api.subscribed(subscriber, plan.id);
    const post = (body: object) =>
      api.call<Subscription>('POST', '/subscriber/subscriptions', {
        token,
        body: { appId, planId: plan.id, subscriptionPda, ...body },
      });
    t.match(await post({ trialHours: 6 }), { status: 400 });
    const elsewhere = await session(trialPlan.id, 500);
    t.match(await post({ checkoutSessionId: elsewhere }), { status: 400 });
    const forAnother = await ask({
      planId: plan.id,
      trialHours: 500,
      subscriberWallet: merchant.wallet,
    });
    t.equal((await post({ checkoutSessionId: forAnother.body.data.id })).status, 403);
    const made = (await post({ checkoutSessionId: one })).body.data;
    const [row] = await api.sql<{ chainPeriodStart: Date }[]>`
      select chain_period_start from subscriptions where id = ${made.id}`;
    t.equal(Date.parse(made.trialEndsAt!), row!.chainPeriodStart.getTime() + 6 * hourMs);
    t.match(made, { nextPaymentDue: made.trialEndsAt, nextAmount: '7500000' });
    const again = await api.signIn('subscriber', api.funded());
    const reused = await api.call('POST', '/subscriber/subscriptions', {
      token: again.token,
      body: {
        appId,
        planId: plan.id,
        subscriptionPda: await api.subscribed(again, plan.id),
        checkoutSessionId: one,
      },
    });
    t.match(reused.status, /403|409/, 'a session works once');

    // The wallet has had its trial of this app. Another wallet gets the session's, not the plan's.
    const second = await session(trialPlan.id, 12);
    t.match((await standing(second, trialPlan.id)).body.data, { trialHours: null });
    const other = await api.signIn('subscriber', api.funded());
    const others = await api.call<Subscription>('POST', '/subscriber/subscriptions', {
      token: other.token,
      body: {
        appId,
        planId: trialPlan.id,
        subscriptionPda: await api.subscribed(other, trialPlan.id),
        checkoutSessionId: second,
      },
    });
    const [its] = await api.sql<{ chainPeriodStart: Date }[]>`
      select chain_period_start from subscriptions where id = ${others.body.data.id}`;
    t.equal(
      Date.parse(others.body.data.trialEndsAt!),
      its!.chainPeriodStart.getTime() + 12 * hourMs,
    );
    t.match(await ask({ planId: trialPlan.id, replaces: made.id, trialHours: 1 }), refused);
  },
);

void t.test(
  'a customer has one trial per app with any wallet, if session or merchant set the externalId',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const { appId, key } = merchant;
    const path = `/merchant/apps/${appId}`;
    await api.call('PATCH', path, {
      token: key,
      body: { onePerCustomer: false, ownIdsBySubscriber: true },
    });
    const plan = await api.publishedPlan(merchant, { trialHours: 24 });
    const session = async (externalId: string, more: object = {}) => {
      const body = { planId: plan.id, externalId, ...more };
      const made = await api.call<{ id: string }>('POST', `${path}/checkout-sessions`, {
        token: key,
        body,
      });
      return made.body.data.id;
    };
    /** A new wallet with its account on chain, and its registration. */
    const buyer = async () => {
      const signed = await api.signIn('subscriber', api.funded());
      const subscriptionPda = await api.subscribed(signed, plan.id);
      const { token } = signed;
      const register = (more: object) =>
        api.call<Subscription>('POST', '/subscriber/subscriptions', {
          token,
          body: { appId, planId: plan.id, subscriptionPda, ...more },
        });
      const standing = (id: string) =>
        api.call('GET', `/subscriber/plans/${plan.id}/standing?checkoutSessionId=${id}`, { token });
      return { ...signed, register, standing };
    };
    const hasTrial = ({ status, body }: Awaited<ReturnType<typeof api.call<Subscription>>>) => {
      t.equal(status, 201);
      return body.data.trialEndsAt !== null;
    };

    const both = [await buyer(), await buyer()];
    const ids = [await session('customer-1'), await session('customer-1')];
    const late = await session('customer-1', { trialHours: 6 });
    const shown = () => api.call('GET', `/checkout-sessions/${late}`);
    t.match((await shown()).body.data, { plan: { trialHours: 6 } });
    const made = await Promise.all(
      both.map(({ register }, index) => register({ checkoutSessionId: ids[index] })),
    );
    t.same(made.map(hasTrial).sort(), [false, true], 'two at once: one trial');

    const third = await buyer();
    t.match((await shown()).body.data, {
      plan: { trialHours: null, schedule: [{ amount: '10000000', times: null }] },
    });
    t.match((await third.standing(late)).body.data, { trialHours: null });
    const opening = await api.call('POST', `/subscriber/plans/${plan.id}/subscribe`, {
      token: (await api.signIn('subscriber', api.funded(1n))).token,
      body: { checkoutSessionId: late },
    });
    t.match(opening.body.data, { warnings: [{ code: 'usdc_missing' }] }, 'the payment is named');
    t.notOk(hasTrial(await third.register({ checkoutSessionId: late })));

    // An id that a subscriber sets neither takes a customer's trial nor uses it up.
    const forger = await buyer();
    const forged = await forger.register({ externalId: 'customer-1' });
    t.ok(hasTrial(forged), 'it is not the customer’s');
    const other = await (await buyer()).register({ externalId: 'customer-2' });
    t.ok(hasTrial(other));
    const unused = await session('customer-2');
    t.ok(hasTrial(await (await buyer()).register({ checkoutSessionId: unused })));

    // An id that the merchant sets later counts.
    await api.call('PATCH', `${path}/subscriptions/${forged.body.data.id}`, {
      token: key,
      body: { externalId: 'customer-3' },
    });
    const used = await session('customer-3');
    t.notOk(hasTrial(await (await buyer()).register({ checkoutSessionId: used })));
  },
);

void t.test(
  'trialHours is 1 to 8760 or null, and a change applies to later subscriptions',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const { insertPlan, insertSubscription } = await import('../../fixtures/rows.ts');
    const planId = await insertPlan(api.sql, merchant, { trialHours: 24 });
    const trialEndsAt = new Date('2026-01-02T00:00:00.000Z');
    const id = await insertSubscription(
      api.sql,
      { appId: merchant.appId, planId },
      { trialEndsAt },
    );
    const path = `/merchant/apps/${merchant.appId}`;
    const patch = (trialHours: unknown) =>
      api.call('PATCH', `${path}/plans/${planId}`, { token: merchant.key, body: { trialHours } });
    for (const trialHours of [0, 8761, 1.5, '24'])
      t.match(await patch(trialHours), {
        status: 400,
        body: { error: { details: [{ path: 'trialHours' }] } },
      });
    t.match(await patch(8760), { status: 200, body: { data: { trialHours: 8760 } } });
    t.match(await patch(null), { status: 200, body: { data: { trialHours: null } } });
    const read = await api.call<Subscription>('GET', `${path}/subscriptions/${id}`, {
      token: merchant.key,
    });
    t.equal(read.body.data.trialEndsAt, trialEndsAt.toISOString(), 'the running one stays');
  },
);
