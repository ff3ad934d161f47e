// GET /merchant/apps/{appId}/access: one answer for a customer, by own id or by wallet.
import t from 'tap';
import { readAccess } from '../../../src/db/subscriptions/access.ts';
import { randomAddress, testApi } from '../../fixtures/http.ts';
import { insertPlan, insertSubscription } from '../../fixtures/rows.ts';

interface Access {
  hasAccess: boolean;
  reason: string;
  subscriptionId: string | null;
  accessUntil: string | null;
  revalidateAfter: string;
  checkedAt: string;
}

const hours = (count: number) => new Date(Date.now() + count * 3_600_000);

void t.test(
  'access is read by externalId or wallet, for any plan or one, with reason and revalidateAfter',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const [a, b] = [
      await insertPlan(api.sql, merchant, { graceHours: 10 }),
      await insertPlan(api.sql, merchant),
    ];
    const wallet = randomAddress();
    const put = (planId: string, fields: Record<string, unknown>) =>
      insertSubscription(api.sql, { appId: merchant.appId, planId }, fields);
    const due = (count: number) => ({ paidThrough: hours(count), nextPaymentDue: hours(count) });
    const ask = async (query: string) => {
      const path = `/merchant/apps/${merchant.appId}/access?${query}`;
      const { status, body } = await api.call<Access>('GET', path, { token: merchant.key });
      if (status !== 200) throw new Error(JSON.stringify(body));
      return body.data;
    };

    const paid = await put(a, { externalId: 'paid', subscriberWallet: wallet, ...due(100) });
    const failed = { status: 'past_due', pastDueSince: hours(-9) };
    const grace = await put(a, { externalId: 'grace', ...failed, ...due(-9) });
    const uncollected = await put(a, { externalId: 'uncollected', ...due(-60) });
    const suspended = { externalId: 'suspended', subscriberWallet: randomAddress(), ...due(-60) };
    await put(a, suspended);
    await api.sql`
      insert into suspensions (role, wallet, reason)
      values ('subscriber', ${suspended.subscriberWallet}, 'abuse')`;
    const late = await put(a, {
      externalId: 'late',
      status: 'past_due',
      pastDueSince: hours(-11),
      ...due(-11),
    });
    const cancelled = await put(b, {
      externalId: 'cancelled',
      paidThrough: hours(-1),
      cancelRequestedAt: hours(-5),
      cancelRequestedBy: 'subscriber',
    });
    const pending = await put(b, {
      externalId: 'pending',
      subscriberWallet: wallet,
      nextPaymentDue: hours(0),
    });
    t.match(await ask('externalId=paid'), {
      hasAccess: true,
      reason: 'paid',
      subscriptionId: paid,
      status: 'active',
    });
    t.match(await ask('externalId=grace'), {
      hasAccess: true,
      reason: 'grace',
      subscriptionId: grace,
    });
    const waiting = await ask('externalId=uncollected');
    t.match(waiting, {
      hasAccess: true,
      reason: 'collection_late',
      subscriptionId: uncollected,
    });
    t.equal(Date.parse(waiting.revalidateAfter) - Date.parse(waiting.checkedAt), 60_000);
    t.ok(Date.parse(waiting.accessUntil!) > Date.now() + 11 * 3_600_000);
    t.match(await ask('externalId=suspended'), { hasAccess: false, reason: 'payment_overdue' });
    t.match(await ask('externalId=late'), {
      hasAccess: false,
      reason: 'payment_overdue',
      subscriptionId: late,
    });
    t.match(await ask('externalId=cancelled'), {
      hasAccess: false,
      reason: 'cancelled',
      subscriptionId: cancelled,
    });
    t.match(await ask('externalId=pending'), {
      hasAccess: false,
      reason: 'first_payment_pending',
      accessUntil: null,
    });
    t.match(await ask('externalId=nobody'), {
      hasAccess: false,
      reason: 'no_subscription',
      subscriptionId: null,
    });
    t.match(await ask(`wallet=${wallet}`), { hasAccess: true, subscriptionId: paid });
    t.match(await ask(`wallet=${wallet}&planId=${b}`), {
      hasAccess: false,
      subscriptionId: pending,
    });

    // Concurrent requests each get their own response.
    const names = ['paid', 'grace', 'late', 'cancelled', 'pending', 'nobody'];
    const answers = await Promise.all(names.map((name) => ask(`externalId=${name}`)));
    t.same(
      answers.map(({ hasAccess }) => hasAccess),
      [true, true, false, false, false, false],
    );
    for (const { checkedAt, revalidateAfter } of answers)
      t.ok(Date.parse(revalidateAfter) > Date.parse(checkedAt));
  },
);

void t.test(
  'access needs exactly one of externalId and wallet; another merchant’s app gets 403, an unknown one 404',
  async (t) => {
    const api = await testApi(t);
    const [merchant, other] = [await api.merchant(), await api.merchant()];
    const path = `/merchant/apps/${merchant.appId}/access`;
    for (const query of [
      '',
      `?externalId=a&wallet=${randomAddress()}`,
      '?wallet=x',
      '?externalId=',
      '?planId=x&externalId=a',
    ])
      t.match(
        await api.call('GET', `${path}${query}`, { token: merchant.key }),
        { status: 400 },
        query,
      );
    t.equal((await api.call('GET', `${path}?externalId=a`, { token: other.key })).status, 403);
    const unknown = '/merchant/apps/01999999-0000-7000-8000-000000000000/access?externalId=a';
    t.equal((await api.call('GET', unknown, { token: merchant.key })).status, 404);
  },
);

void t.test(
  'registrations of other wallets with the same externalId neither remove access nor cost reads',
  async (t) => {
    const api = await testApi(t);
    const { sql } = api;
    const merchant = await api.merchant();
    const { appId } = merchant;
    const [a, b] = [await insertPlan(sql, merchant), await insertPlan(sql, merchant)];
    const put = (planId: string, fields: Record<string, unknown>) =>
      insertSubscription(sql, { appId, planId }, { externalId: 'c-1', ...fields });
    const paid = await put(a, { paidThrough: hours(100), nextPaymentDue: hours(100) });
    for (let count = 0; count < 60; count += 1) {
      await put(a, { nextPaymentDue: hours(0) });
      await put(a, { status: 'cancelled', trialEndsAt: hours(500), cancelledAt: hours(-1) });
    }
    await sql`
      with made as (
        insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, external_id, status, ended_at)
        select app_id, plan_id, 'pda-' || place, subscriber_wallet, amount, period_hours, external_id, 'expired', now()
        from subscriptions, generate_series(1, 3000) as place where id = ${paid}
        returning id, app_id, external_id
      )
      insert into subscription_work (subscription_id, app_id, external_id)
      select id, app_id, external_id from made`;
    const pending = await put(b, { nextPaymentDue: hours(0) });
    await sql`analyze subscriptions, subscription_work`;

    const ask = async (query: string) => {
      const path = `/merchant/apps/${appId}/access?externalId=c-1${query}`;
      return (await api.call<Access>('GET', path, { token: merchant.key })).body.data;
    };
    t.match(await ask(''), { hasAccess: true, reason: 'paid', subscriptionId: paid });
    t.match(await ask(`&planId=${a}`), { hasAccess: true, subscriptionId: paid });
    t.match(await ask(`&planId=${b}`), {
      hasAccess: false,
      reason: 'first_payment_pending',
      subscriptionId: pending,
    });

    const fetched = await sql.begin(async (tx) => {
      await readAccess(tx, [{ appId, externalId: 'c-1', wallet: null, planId: null }]);
      const [row] = await tx<{ rows: number }[]>`
        select sum(pg_stat_get_xact_tuples_fetched(oid) + pg_stat_get_xact_tuples_returned(oid))::int as rows from pg_class
        where relname in ('subscriptions', 'subscription_work')`;
      return row!.rows;
    });
    t.ok(fetched < 200, `rows that are read: ${fetched} of 3,122`);
  },
);
