// Transactions with their filters on the payment's time.
import t from 'tap';
import { testApi } from '../../fixtures/http.ts';
import { insertPayment, insertPlan, insertSubscription } from '../../fixtures/rows.ts';

interface Payment {
  id: string;
  [field: string]: unknown;
}

void t.test(
  'amounts are strings beyond 2^53, a failure has its reason and no signature',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const subscription = await insertSubscription(api.sql, {
      appId: merchant.appId,
      planId: await insertPlan(api.sql, merchant),
    });
    const large = {
      amountGross: '9223372036854775807',
      platformFee: '92233720368547758',
      amountNet: '9131138316486228049',
    };
    const paid = await insertPayment(api.sql, subscription, '2026-01-01T00:00:00Z', large);
    const failed = await insertPayment(api.sql, subscription, '2026-02-01T00:00:00Z', {
      failureReason: 'insufficient_funds',
      attempt: 2,
    });
    const { body } = await api.call<Payment[]>(
      'GET',
      `/merchant/apps/${merchant.appId}/transactions`,
      { token: merchant.key },
    );
    t.match(body.data, [
      {
        id: failed,
        status: 'failed',
        failureReason: 'insufficient_funds',
        txSignature: null,
        attempt: 2,
      },
      {
        id: paid,
        status: 'succeeded',
        ...large,
        failureReason: null,
        occurredAt: '2026-01-01T00:00:00.000Z',
      },
    ]);
  },
);

void t.test(
  'transactions are filtered by time (since inclusive, until exclusive), status, plan and subscription',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const [planA, planB] = [
      await insertPlan(api.sql, merchant),
      await insertPlan(api.sql, merchant),
    ];
    const a = await insertSubscription(api.sql, { appId: merchant.appId, planId: planA });
    const b = await insertSubscription(api.sql, { appId: merchant.appId, planId: planB });
    // Payments are recorded in another order than they were made.
    const third = await insertPayment(api.sql, b, '2026-01-03T00:00:00Z');
    const first = await insertPayment(api.sql, a, '2026-01-01T00:00:00Z');
    const second = await insertPayment(api.sql, a, '2026-01-02T00:00:00Z', {
      failureReason: 'account_frozen',
    });
    const list = async (query: string) =>
      (
        await api.call<Payment[]>('GET', `/merchant/apps/${merchant.appId}/transactions?${query}`, {
          token: merchant.key,
        })
      ).body.data.map(({ id }) => id);
    t.same(await list(''), [third, second, first], 'newest payment first');
    t.same(await list('since=2026-01-02T00:00:00.000Z'), [third, second]);
    t.same(await list('since=2026-01-02T00:00:00.001Z'), [third]);
    t.same(await list('until=2026-01-02T00:00:00Z'), [first]);
    t.same(await list('until=2026-01-02T00:00:00.001Z'), [second, first]);
    t.same(await list('since=2026-01-02&until=2026-01-02'), []);
    t.same(await list('status=failed'), [second]);
    t.same(await list(`planId=${planB}`), [third]);
    t.same(await list(`subscriptionId=${a}&status=succeeded`), [first]);
    for (const query of [
      'since=x',
      'status=pending',
      'planId=x',
      'subscriptionId=x',
      'from=2026-01-01',
    ]) {
      t.equal(
        (
          await api.call('GET', `/merchant/apps/${merchant.appId}/transactions?${query}`, {
            token: merchant.key,
          })
        ).status,
        400,
        query,
      );
    }
  },
);

void t.test(
  'a further payment of a period is marked in all lists and counts in the sums',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const { token, wallet } = await api.signIn('subscriber');
    const planId = await insertPlan(api.sql, merchant);
    const subscription = await insertSubscription(
      api.sql,
      { appId: merchant.appId, planId },
      { subscriberWallet: wallet },
    );
    const at = '2026-01-01T00:00:00Z';
    const paid = await insertPayment(api.sql, subscription, at);
    const further = await insertPayment(api.sql, subscription, at, { further: true });
    const app = `/merchant/apps/${merchant.appId}`;
    const read = async <T>(url: string, by: string) =>
      (await api.call<T>('GET', url, { token: by })).body.data;
    const marked = [
      { id: further, further: true },
      { id: paid, further: false },
    ];
    t.match(await read(`${app}/transactions`, merchant.key), marked);
    t.match(await read(`${app}/transactions/${further}`, merchant.key), marked[0]);
    t.match(await read(`/subscriber/subscriptions/${subscription}/transactions`, token), marked);
    const range = 'from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z';
    t.match(await read(`${app}/analytics?${range}`, merchant.key), {
      gross: '20000000',
      fees: '200000',
      net: '19800000',
      paymentsSucceeded: 2,
    });
  },
);

void t.test('a payment names its invoice, and what that is for', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const { token, wallet: subscriberWallet } = await api.signIn('subscriber');
  const { appId } = merchant;
  const planId = await insertPlan(api.sql, merchant);
  const id = await insertSubscription(api.sql, { appId, planId }, { subscriberWallet });
  const paid = await insertPayment(api.sql, id, '2026-01-01T00:00:00Z');
  const found = await insertPayment(api.sql, id, '2026-01-02T00:00:00Z', { further: true });
  const [{ invoiceId }] = await api.sql<
    [{ invoiceId: string }]
  >`select id as invoice_id from invoices`;
  const named = [
    { id: found, invoiceId: null, reason: null },
    { id: paid, invoiceId, reason: 'period' },
  ];
  const app = `/merchant/apps/${appId}/transactions`;
  const read = async (url: string, by = merchant.key) =>
    (await api.call('GET', url, { token: by })).body.data;
  t.match(await read(app), named);
  t.match(await read('/merchant/transactions'), named);
  t.match(await read(`${app}/${paid}`), named[1]);
  t.match(await read(`/subscriber/subscriptions/${id}/transactions`, token), named);
});

void t.test(
  'pages are ordered by payment time and id, and stable while newer payments are added',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const subscriptions: string[] = [];
    const planId = await insertPlan(api.sql, merchant);
    for (let n = 0; n < 9; n += 1)
      subscriptions.push(await insertSubscription(api.sql, { appId: merchant.appId, planId }));
    const paid: string[] = [];
    // Three at each instant.
    for (const [n, id] of subscriptions.entries())
      paid.push(await insertPayment(api.sql, id, `2026-01-0${1 + Math.floor(n / 3)}T00:00:00Z`));
    const seen: string[] = [];
    let url: string | undefined = `/merchant/apps/${merchant.appId}/transactions?limit=2`;
    while (url !== undefined) {
      const page: { body: { data: Payment[] }; headers: Record<string, unknown> } = await api.call<
        Payment[]
      >('GET', url, {
        token: merchant.key,
      });
      seen.push(...page.body.data.map(({ id }) => id));
      url = /<http:\/\/billing\.test([^>]+)>/.exec(String(page.headers.link))?.[1];
      await insertPayment(
        api.sql,
        subscriptions[0]!,
        `2026-02-01T00:00:${String(seen.length).padStart(2, '0')}Z`,
      );
    }
    t.same(seen, paid.reverse());
  },
);

void t.test('a subscriber sees the payments of its subscription', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const subscriber = await api.signIn('subscriber');
  const planId = await insertPlan(api.sql, merchant);
  const mine = await insertSubscription(
    api.sql,
    { appId: merchant.appId, planId },
    { subscriberWallet: subscriber.wallet },
  );
  const other = await insertSubscription(api.sql, { appId: merchant.appId, planId });
  const ids = [
    await insertPayment(api.sql, mine, '2026-01-01'),
    await insertPayment(api.sql, mine, '2026-02-01'),
  ];
  await insertPayment(api.sql, other, '2026-01-01');
  const path = `/subscriber/subscriptions/${mine}/transactions`;
  const first = await api.call<Payment[]>('GET', `${path}?limit=1`, { token: subscriber.token });
  const second = await api.call<Payment[]>(
    'GET',
    `${path}?limit=1&cursor=${String(first.headers['x-next-cursor'])}`,
    {
      token: subscriber.token,
    },
  );
  t.same(
    [...first.body.data, ...second.body.data].map(({ id }) => id),
    ids.reverse(),
  );
  t.equal(second.headers['x-next-cursor'], undefined);
});
