// A merchant's subscriptions, their filters, pages and cancellation.
import t from 'tap';
import { chainApi, randomAddress, testApi } from '../../fixtures/http.ts';
import { insertPayment, insertPlan, insertSubscription } from '../../fixtures/rows.ts';

interface Subscription {
  id: string;
  status: string;
  [field: string]: unknown;
}
const ids = (rows: { id: string }[]) => rows.map(({ id }) => id);

void t.test(
  'a subscription has the same fields in the list, in the filtered list and in its own route',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const at = (day: number) => new Date(Date.UTC(2026, 0, day, 1, 2, 3, 4));
    const id = await insertSubscription(
      api.sql,
      { appId: merchant.appId, planId },
      {
        amount: '9223372036854775807',
        status: 'cancelled',
        paidThrough: at(1),
        nextPaymentDue: at(2),
        cancelRequestedAt: at(3),
        cancelRequestedBy: 'merchant',
        cancelledAt: at(4),
        delegationRevokedAt: at(5),
        endReason: 'plan_recreated',
        createdAt: at(6),
        updatedAt: at(7),
      },
    );
    const path = `/merchant/apps/${merchant.appId}/subscriptions`;
    const one = await api.call<Subscription>('GET', `${path}/${id}`, { token: merchant.key });
    t.same(Object.keys(one.body.data), [
      'id',
      'appId',
      'planId',
      'subscriptionPda',
      'subscriberWallet',
      'merchantWallet',
      'status',
      'amount',
      'periodHours',
      'trialEndsAt',
      'paidThrough',
      'accessUntil',
      'nextPaymentDue',
      'nextAmount',
      'discount',
      'pausedAt',
      'cancelRequestedAt',
      'cancelRequestedBy',
      'cancelledAt',
      'delegationRevokedAt',
      'pastDueSince',
      'lastFailureReason',
      'endReason',
      'reinstatedAt',
      'externalId',
      'metadata',
      'ownIdsFrom',
      'replaces',
      'replacedBy',
      'replacedAt',
      'startsAt',
      'credit',
      'duplicateOf',
      'createdAt',
      'updatedAt',
    ]);
    t.match(
      one.body.data,
      {
        amount: '9223372036854775807',
        merchantWallet: merchant.wallet,
        paidThrough: '2026-01-01T01:02:03.004Z',
      },
      'amounts are strings beyond 2^53',
    );
    for (const token of [merchant.key, merchant.token]) {
      for (const url of [path, path, `${path}?limit=1`, `${path}?status=cancelled`]) {
        t.same(
          (await api.call('GET', url, { token })).body,
          { success: true, data: [one.body.data] },
          url,
        );
      }
    }
  },
);

void t.test(
  'a past-due subscription shows why its last try failed and the time of the next try',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const { appId, token } = merchant;
    const planId = await insertPlan(api.sql, merchant);
    const due = { status: 'past_due', pastDueSince: new Date('2026-02-01') };
    const nextPaymentDue = new Date('2026-02-03');
    const [failing, never, paid] = await Promise.all([
      insertSubscription(api.sql, { appId, planId }, { ...due, nextPaymentDue }),
      insertSubscription(api.sql, { appId, planId }, due),
      insertSubscription(api.sql, { appId, planId }),
    ]);
    for (const id of [failing, paid]) {
      await insertPayment(api.sql, id, '2026-02-01', { failureReason: 'account_frozen' });
      await insertPayment(api.sql, id, '2026-02-02', { failureReason: 'insufficient_funds' });
      await insertPayment(api.sql, id, '2026-01-01');
    }
    const path = `/merchant/apps/${appId}/subscriptions`;
    const reasonsOf = async (query: string) => {
      const { body } = await api.call<Subscription[]>('GET', `${path}${query}`, { token });
      return new Map(body.data.map((one) => [one.id, one.lastFailureReason]));
    };
    const pastDue = new Map([
      [never, null],
      [failing, 'insufficient_funds'],
    ]);
    t.same(await reasonsOf('?status=past_due'), pastDue);
    t.same(await reasonsOf(''), new Map([[paid, null], ...pastDue]));
    const one = await api.call<Subscription>('GET', `${path}/${failing}`, { token });
    t.match(one.body.data, {
      lastFailureReason: 'insufficient_funds',
      nextPaymentDue: nextPaymentDue.toISOString(),
    });
  },
);

void t.test(
  'lists are newest first, and pages follow Link and X-Next-Cursor without a gap or a repeat',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const created: string[] = [];
    for (let n = 0; n < 45; n += 1) {
      // Several at one instant: the id decides between them.
      created.push(
        await insertSubscription(
          api.sql,
          { appId: merchant.appId, planId },
          { createdAt: new Date(Date.UTC(2026, 0, 1 + Math.floor(n / 4))) },
        ),
      );
    }
    const path = `/merchant/apps/${merchant.appId}/subscriptions`;
    for (const query of [
      'limit=7',
      'limit=7&status=active',
      '',
      `limit=44&planId=${planId}`,
      'limit=45',
      'limit=100',
    ]) {
      const seen: string[] = [];
      let url = `${path}?${query}`;
      for (let pages = 0; pages < 20; pages += 1) {
        const { body, headers } = await api.call<Subscription[]>('GET', url, {
          token: merchant.key,
        });
        seen.push(...ids(body.data));
        if (pages === 0 && query === '') t.equal(body.data.length, 20, 'twenty by default');
        if (headers['x-next-cursor'] === undefined) {
          t.equal(headers.link, undefined);
          break;
        }
        const [, next] =
          /^<http:\/\/billing\.test([^>]+)>; rel="next"$/.exec(String(headers.link)) ?? [];
        t.ok(next?.includes(`cursor=${String(headers['x-next-cursor'])}`));
        url = next!;
      }
      t.same(seen, [...created].reverse(), query);
    }
  },
);

void t.test(
  'lists are filtered by status, planId, subscriberWallet, since (inclusive) and until (exclusive)',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const [planA, planB] = [
      await insertPlan(api.sql, merchant),
      await insertPlan(api.sql, merchant),
    ];
    const wallet = randomAddress();
    const put = (planId: string, day: number, fields: Record<string, unknown> = {}) =>
      insertSubscription(
        api.sql,
        { appId: merchant.appId, planId },
        { createdAt: new Date(Date.UTC(2026, 0, day)), ...fields },
      );
    const a1 = await put(planA, 1, { subscriberWallet: wallet });
    const a2 = await put(planA, 2, { status: 'expired' });
    const b3 = await put(planB, 3, { subscriberWallet: wallet });
    const b4 = await put(planB, 4, { status: 'past_due', pastDueSince: new Date() });
    const list = async (query: string) =>
      ids(
        (
          await api.call<Subscription[]>(
            'GET',
            `/merchant/apps/${merchant.appId}/subscriptions?${query}`,
            { token: merchant.key },
          )
        ).body.data,
      );
    t.same(await list(`planId=${planA}`), [a2, a1]);
    t.same(await list('status=past_due'), [b4]);
    t.same(await list(`subscriberWallet=${wallet}`), [b3, a1]);
    t.same(await list(`subscriberWallet=${wallet}&planId=${planB}`), [b3]);
    t.same(await list('since=2026-01-02T00:00:00Z'), [b4, b3, a2]);
    t.same(await list('until=2026-01-02'), [a1]);
    t.same(await list('since=2026-01-02T01:00:00%2B01:00&until=2026-01-03T00:00:00.001Z'), [
      b3,
      a2,
    ]);
    t.same(await list('status=cancelled'), []);
  },
);

void t.test('a malformed query or a cursor of another list gets VALIDATION_ERROR', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const planId = await insertPlan(api.sql, merchant);
  for (let n = 0; n < 3; n += 1)
    await insertSubscription(api.sql, { appId: merchant.appId, planId });
  const path = `/merchant/apps/${merchant.appId}/subscriptions`;
  const cursor = String(
    (await api.call('GET', `${path}?limit=1`, { token: merchant.key })).headers['x-next-cursor'],
  );
  const elsewhere = String(
    (await api.call('GET', `/merchant/apps?limit=1`, { token: merchant.key })).headers[
      'x-next-cursor'
    ],
  );
  const cases: [string, string][] = [
    ['limit', 'limit=0'],
    ['limit', 'limit=101'],
    ['limit', 'limit=-1'],
    ['limit', 'limit=1.5'],
    ['limit', 'limit=x'],
    ['limit', 'limit='],
    ['limit', 'limit=1&limit=2'],
    ['status', 'status=paused'],
    ['status', 'status='],
    ['planId', 'planId=x'],
    ['subscriberWallet', 'subscriberWallet=0'],
    ['since', 'since=yesterday'],
    ['since', 'since=2026-13-01'],
    ['since', 'since=1795254369'],
    ['until', 'until=0000-01-01'],
    ['until', 'until=2026-01-01T00:00:00'],
    ['unknown', 'unknown=1'],
    ['cursor', 'cursor='],
    ['cursor', 'cursor=x'],
    ['cursor', `cursor=${'A'.repeat(38)}`],
    ['cursor', `cursor=${cursor}A`],
    ['cursor', `cursor=${cursor.slice(0, -1)}`],
    ['cursor', `cursor=${cursor.startsWith('A') ? 'B' : 'A'}${cursor.slice(1)}`],
    ['cursor', `cursor=${elsewhere}`],
    ['cursor', 'cursor=%00'],
  ];
  for (const [field, query] of cases) {
    const answer = await api.call('GET', `${path}?${query}`, { token: merchant.key });
    t.match(
      answer,
      {
        status: 400,
        body: {
          success: false,
          data: null,
          error: { code: 'VALIDATION_ERROR', details: [{ path: field }] },
        },
      },
      query,
    );
  }
  t.equal((await api.call('GET', `${path}?cursor=${cursor}`, { token: merchant.key })).status, 200);
  const other = await api.merchant();
  t.equal(
    (
      await api.call('GET', `/merchant/apps/${other.appId}/subscriptions?cursor=${cursor}`, {
        token: other.key,
      })
    ).status,
    400,
    'not another wallet’s',
  );
});

void t.test(
  "a subscription of the merchant's other app, or an unknown one, gets 404",
  async (t) => {
    const api = await testApi(t);
    const [mine, other] = [await api.merchant(), await api.merchant()];
    const second = await api.call<{ id: string }>('POST', '/merchant/apps', {
      token: mine.token,
      body: { name: 'Second' },
    });
    const planId = await insertPlan(api.sql, mine);
    const id = await insertSubscription(api.sql, { appId: mine.appId, planId });
    for (const [method, suffix] of [
      ['GET', ''],
      ['POST', '/cancel'],
    ] as const) {
      t.equal(
        (
          await api.call(
            method,
            `/merchant/apps/${second.body.data.id}/subscriptions/${id}${suffix}`,
            { token: mine.key },
          )
        ).status,
        404,
      );
      t.equal(
        (
          await api.call(method, `/merchant/apps/${mine.appId}/subscriptions/malformed${suffix}`, {
            token: mine.key,
          })
        ).status,
        404,
      );
      t.equal(
        (
          await api.call(method, `/merchant/apps/${mine.appId}/subscriptions/${id}${suffix}`, {
            token: other.key,
          })
        ).status,
        403,
      );
    }
  },
);

void t.test(
  'a cancellation at period end leaves no payment due and keeps the status until paidThrough',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const paidThrough = new Date(Date.UTC(2030, 0, 1));
    const claim = {
      leaseUntil: new Date(Date.now() + 3_600_000),
      claimId: '01999999-0000-7000-8000-000000000001',
    };
    const id = await insertSubscription(
      api.sql,
      { appId: merchant.appId, planId },
      { paidThrough, nextPaymentDue: paidThrough, dueAt: paidThrough, ...claim },
    );
    const cancel = (body?: unknown) =>
      api.call<Subscription>(
        'POST',
        `/merchant/apps/${merchant.appId}/subscriptions/${id}/cancel`,
        { token: merchant.key, body },
      );
    const first = await cancel();
    t.match(first, {
      status: 200,
      body: {
        data: {
          status: 'active',
          cancelRequestedBy: 'merchant',
          nextPaymentDue: null,
          paidThrough: paidThrough.toISOString(),
        },
      },
    });
    t.type(first.body.data.cancelRequestedAt, 'string');
    t.same(
      (await cancel({ mode: 'period_end' })).body.data,
      first.body.data,
      'asking again changes nothing',
    );
    const events = await api.sql<{ type: string; body: string }[]>`select type, body from events`;
    t.same(
      events.map(({ type }) => type),
      ['cancel_requested'],
    );
    const { data } = JSON.parse(events[0]!.body) as { data: Record<string, unknown> };
    t.match(data, {
      subscriptionId: id,
      cancelRequestedAt: first.body.data.cancelRequestedAt,
      sequence: 1,
    });
    t.notOk(
      'amountGross' in data || 'txSignature' in data,
      'cancel events carry no amountGross or txSignature',
    );
    const [row] = await api.sql<
      { dueAt: Date; claimId: string | null }[]
    >`select due_at, claim_id from subscription_work where subscription_id = ${id}`;
    t.same(row!.dueAt, paidThrough, 'the keeper ends it then');
    t.equal(
      row!.claimId,
      null,
      'a keeper that holds it loses it: it cannot commit another attempt',
    );

    const requestedAt = new Date('2029-12-01T00:00:00.000Z');
    const ofSubscriber = await insertSubscription(
      api.sql,
      { appId: merchant.appId, planId },
      { paidThrough, cancelRequestedAt: requestedAt, cancelRequestedBy: 'subscriber', ...claim },
    );
    const path = `/merchant/apps/${merchant.appId}/subscriptions/${ofSubscriber}/cancel`;
    t.match(
      (await api.call<Subscription>('POST', path, { token: merchant.key })).body.data,
      { cancelRequestedBy: 'merchant', cancelRequestedAt: requestedAt.toISOString() },
      'after the subscriber’s request it is the merchant’s too',
    );
    t.equal((await api.sql`select 1 from events`).length, 1, 'which was reported already');

    const unpaid = await insertSubscription(
      api.sql,
      { appId: merchant.appId, planId },
      { dueAt: paidThrough },
    );
    await api.call('POST', `/merchant/apps/${merchant.appId}/subscriptions/${unpaid}/cancel`, {
      token: merchant.key,
    });
    const [soon] = await api.sql<
      { dueAt: Date }[]
    >`select due_at from subscription_work where subscription_id = ${unpaid}`;
    t.ok(soon!.dueAt <= new Date(), 'nothing was paid: it ends at once');
  },
);

void t.test(
  'a forced cancellation ends the subscription at once; for an ended subscription it gets CONFLICT',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const pastDue = { status: 'past_due', pastDueSince: new Date(), dueAt: new Date() };
    const id = await insertSubscription(
      api.sql,
      { appId: merchant.appId, planId },
      {
        ...pastDue,
        leaseUntil: new Date(Date.now() + 3_600_000),
        claimId: '01999999-0000-7000-8000-000000000001',
      },
    );
    const cancel = (mode: string) =>
      api.call<Subscription>(
        'POST',
        `/merchant/apps/${merchant.appId}/subscriptions/${id}/cancel`,
        { token: merchant.key, body: { mode } },
      );
    t.equal((await cancel('period_end')).status, 200);
    const forced = await cancel('force');
    t.match(forced, {
      status: 200,
      body: {
        data: {
          status: 'cancelled',
          cancelRequestedBy: 'merchant',
          nextPaymentDue: null,
          endReason: 'forced',
        },
      },
    });
    t.type(forced.body.data.cancelledAt, 'string');
    const [row] = await api.sql<
      { due: boolean; claimId: string | null }[]
    >`select due_at <= now() as due, claim_id from subscription_work where subscription_id = ${id}`;
    t.same(
      row,
      { due: true, claimId: null },
      'the keeper checks once more for an account to close',
    );
    t.equal((await cancel('force')).status, 409);
    t.equal((await cancel('period_end')).status, 409);
    t.equal((await cancel('now')).status, 400);
    t.same(
      (await api.sql<{ type: string }[]>`select type from events order by sequence`).map(
        ({ type }) => type,
      ),
      ['cancel_requested', 'cancel_forced'],
    );
  },
);

void t.test('only one of many concurrent forced cancels has an effect', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const planId = await insertPlan(api.sql, merchant);
  const id = await insertSubscription(api.sql, { appId: merchant.appId, planId });
  const url = `/merchant/apps/${merchant.appId}/subscriptions/${id}/cancel`;
  const answers = await Promise.all(
    Array.from({ length: 8 }, () =>
      api.call('POST', url, { token: merchant.key, body: { mode: 'force' } }),
    ),
  );
  t.same(answers.map(({ status }) => status).sort(), [200, ...Array<number>(7).fill(409)]);
  t.equal((await api.sql`select 1 from events`).length, 1);
});

void t.test('a merchant sees the subscriptions of its subscribers', async (t) => {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  const plan = await api.publishedPlan(merchant);
  const subscriber = await api.signIn('subscriber', api.funded());
  const subscriptionPda = await api.subscribed(subscriber, plan.id);
  const body = { appId: merchant.appId, planId: plan.id, subscriptionPda };
  const mine = await api.call<Subscription>('POST', '/subscriber/subscriptions', {
    token: subscriber.token,
    body,
  });
  const theirs = await api.call<Subscription[]>(
    'GET',
    `/merchant/apps/${merchant.appId}/subscriptions`,
    { token: merchant.key },
  );
  const ids = { externalId: null, metadata: {}, ownIdsFrom: null, duplicateOf: null };
  t.same(theirs.body.data, [{ ...mine.body.data, ...ids }]);
});
