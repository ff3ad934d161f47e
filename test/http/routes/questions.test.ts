// Questions that a merchant asks of the lists: several values, all apps, one subscription, one
// address, one pair of time names.
import t from 'tap';
import { testApi } from '../../fixtures/http.ts';
import { insertEvent, insertPayment, insertPlan, insertSubscription } from '../../fixtures/rows.ts';

interface Row {
  id: string;
  status: string;
  subscriptionPda: string;
}

void t.test(
  'lists can be requested for all apps, for several filter values, and for one subscription',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const stranger = await api.merchant();
    const token = merchant.key;
    const get = async (path: string) => {
      const answer = await api.call<Row[]>('GET', path, { token });
      t.equal(answer.status, 200, path);
      return answer.body.data.map(({ id }) => id);
    };
    const second = await api.call<{ id: string }>('POST', '/merchant/apps', {
      token,
      body: { name: 'Second' },
    });
    const apps = [merchant.appId, second.body.data.id];
    const subscriptions: string[] = [];
    for (const [index, status] of (['active', 'expired', 'cancelled'] as const).entries()) {
      const appId = apps[index % 2]!;
      const planId = await insertPlan(api.sql, { ...merchant, appId });
      subscriptions.unshift(
        await insertSubscription(
          api.sql,
          { appId, planId },
          { status, ...(status === 'cancelled' && { cancelledAt: new Date() }) },
        ),
      );
    }
    await insertSubscription(api.sql, {
      appId: stranger.appId,
      planId: await insertPlan(api.sql, stranger),
    });
    const [pastDue, expired, active] = subscriptions as [string, string, string];
    t.same(
      await get('/merchant/subscriptions'),
      subscriptions,
      'of both apps, and of no other merchant',
    );
    t.same(await get('/merchant/subscriptions?status=active,cancelled'), [pastDue, active]);
    const app = `/merchant/apps/${merchant.appId}`;
    t.same(await get(`${app}/subscriptions?status=active,cancelled`), [pastDue, active]);
    t.same(await get(`${app}/subscriptions?status=active&status=expired`), [active]);
    const page = await api.call<Row[]>('GET', '/merchant/subscriptions?limit=2', { token });
    t.same(await get(`/merchant/subscriptions?cursor=${String(page.headers['x-next-cursor'])}`), [
      active,
    ]);
    const pda = page.body.data[0]!.subscriptionPda;
    t.same(await get(`${app}/subscriptions?subscriptionPda=${pda}`), [pastDue]);
    t.same(await get(`${app}/subscriptions?subscriptionPda=${pda}&status=expired`), []);
    t.match(await api.call('GET', `${app}/subscriptions?status=active,lost`, { token }), {
      status: 400,
      body: { error: { details: [{ path: 'status.1' }] } },
    });

    const events: string[] = [];
    for (const id of [active, expired, active])
      events.unshift((await insertEvent(api.sql, id)).eventId);
    t.same(await get('/merchant/events'), events);
    t.same(await get(`${app}/events?subscriptionId=${active}`), [events[0], events[2]]);
    t.same(await get(`${app}/events?subscriptionId=${active.toUpperCase()}`), [
      events[0],
      events[2],
    ]);
    t.same(await get(`${app}/events?subscriptionId=${expired}`), [], 'of another app');
    t.same(
      await get(`/merchant/events?subscriptionId=${expired}&type=payment_success,payment_failed`),
      [events[1]],
    );

    await insertPayment(api.sql, active, '2026-01-01');
    await insertPayment(api.sql, expired, '2026-01-02');
    const payments = await get('/merchant/transactions');
    t.equal(payments.length, 2);
    t.same(await get(`/merchant/transactions?subscriptionId=${active}`), [payments[1]]);
    t.same(await get('/merchant/transactions?status=succeeded,failed&until=2026-01-02'), [
      payments[1],
    ]);
    t.match(await api.call('GET', `${app}/transactions/${payments[1]!}`, { token }), {
      status: 200,
      body: { data: { id: payments[1], subscriptionId: active } },
    });
    t.equal((await api.call('GET', `${app}/transactions/${payments[0]!}`, { token })).status, 404);
  },
);

void t.test('analytics accepts since and until, and the contract’s from and to', async (t) => {
  const api = await testApi(t);
  const { key: token, appId } = await api.merchant();
  const path = `/merchant/apps/${appId}/analytics`;
  const range = { from: '2026-01-01T00:00:00.000Z', to: '2026-01-03T00:00:00.000Z' };
  for (const query of ['since=2026-01-01&until=2026-01-03', 'from=2026-01-01&to=2026-01-03'])
    t.match(await api.call('GET', `${path}?${query}`, { token }), {
      status: 200,
      body: { data: range },
    });
});

void t.test('expand=plan shows the plan of each subscription in full', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const token = merchant.key;
  const [first, second] = [
    await insertPlan(api.sql, merchant, { amount: 100_000n }),
    await insertPlan(api.sql, merchant),
  ];
  const { appId } = merchant;
  for (const planId of [first, first, second]) await insertSubscription(api.sql, { appId, planId });
  interface Expanded extends Row {
    planId: string;
    plan?: { id: string; amountDisplay: string };
  }
  const get = async <T>(path: string) => (await api.call<T>('GET', path, { token })).body.data;
  for (const path of ['/merchant/subscriptions', `/merchant/apps/${appId}/subscriptions`]) {
    const rows = await get<Expanded[]>(`${path}?expand=plan`);
    t.same(
      rows.map(({ plan }) => plan?.id),
      [second, first, first],
    );
    t.same(
      rows.map(({ planId }) => planId),
      [second, first, first],
    );
    t.equal(rows[1]?.plan?.amountDisplay, '0.10 USDC');
    t.notOk(
      (await get<Expanded[]>(path)).some((row) => 'plan' in row),
      'only when asked for',
    );
    const one = `/merchant/apps/${appId}/subscriptions/${rows[0]!.id}`;
    t.same(await get<Expanded>(`${one}?expand=plan`), rows[0]);
    t.notOk('plan' in (await get<Expanded>(one)));
    t.match(await api.call('GET', `${one}?expand=app`, { token }), {
      status: 400,
      body: { error: { details: [{ path: 'expand.0' }] } },
    });
  }
});
