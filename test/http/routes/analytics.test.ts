// Analytics: sums and series of a merchant.
import { randomBytes, randomUUID } from 'node:crypto';
import t from 'tap';
import type { components } from '../../../src/client/openapi.ts';
import { testApi } from '../../fixtures/http.ts';
import { insertPayment, insertPlan, insertSubscription } from '../../fixtures/rows.ts';

type Report = components['schemas']['Analytics'];

const day = (n: number, hour = 12) => new Date(Date.UTC(2026, 0, n, hour));

void t.test('analytics returns every figure of a range and of each of its days', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const { appId } = merchant;
  const monthly = await insertPlan(api.sql, merchant);
  const weekly = await insertPlan(api.sql, merchant, { amount: '700', periodHours: 168 });
  const put = (planId: string, createdAt: Date, fields: Record<string, unknown> = {}) =>
    insertSubscription(api.sql, { appId, planId }, { createdAt, ...fields });
  // Before the range: one that stays, one that ends in it, one that ended before it.
  const stays = await put(monthly, new Date(Date.UTC(2025, 11, 1)));
  await put(monthly, new Date(Date.UTC(2025, 11, 2)), { status: 'cancelled', cancelledAt: day(3) });
  await put(monthly, new Date(Date.UTC(2025, 11, 3)), {
    status: 'cancelled',
    cancelledAt: new Date(Date.UTC(2025, 11, 20)),
  });
  // In the range: a weekly subscription, and a subscription that fails, is past due for two days
  // and expires.
  const starts = await put(weekly, day(2), { amount: '700', periodHours: 168 });
  const fails = await put(monthly, day(2), {
    status: 'expired',
    endedAt: day(5),
    updatedAt: day(28),
  });
  await insertPayment(api.sql, stays, day(2).toISOString());
  await insertPayment(api.sql, starts, day(2).toISOString(), {
    amountGross: '700',
    platformFee: '7',
    amountNet: '693',
  });
  await insertPayment(api.sql, fails, day(3).toISOString(), {
    failureReason: 'insufficient_funds',
  });
  await insertPayment(api.sql, fails, day(4).toISOString(), {
    failureReason: 'insufficient_funds',
    attempt: 2,
  });
  // Rows of another app do not count.
  const other = await api.merchant();
  await insertPayment(
    api.sql,
    await insertSubscription(api.sql, {
      appId: other.appId,
      planId: await insertPlan(api.sql, other),
    }),
    day(2).toISOString(),
  );

  const { body } = await api.call<Report>(
    'GET',
    `/merchant/apps/${appId}/analytics?from=2026-01-01&to=2026-01-07`,
    {
      token: merchant.key,
    },
  );
  const { daily, ...whole } = body.data;
  const monthlyMrr = 10_000_000n;
  const weeklyMrr = (700n * 730n) / 168n;
  t.match(whole, {
    from: '2026-01-01T00:00:00.000Z',
    to: '2026-01-07T00:00:00.000Z',
    active: 2,
    pastDue: 0,
    cancelled: 1,
    expired: 1,
    new: 2,
    mrr: (monthlyMrr + weeklyMrr).toString(),
    gross: '10000700',
    fees: '100007',
    net: '9900693',
    paymentsSucceeded: 2,
    paymentsFailed: 2,
    successRate: 0.5,
    churnRate: 1,
  });
  t.same(
    daily.map(({ date }) => date),
    ['2026-01-01', '2026-01-02', '2026-01-03', '2026-01-04', '2026-01-05', '2026-01-06'],
    'days without activity included',
  );
  t.same(
    daily.map(({ active }) => active),
    [2, 4, 2, 2, 2, 2],
  );
  t.same(
    daily.map(({ pastDue }) => pastDue),
    [0, 0, 1, 1, 0, 0],
  );
  t.same(
    daily.map((one) => one.new),
    [0, 2, 0, 0, 0, 0],
  );
  t.same(
    daily.map(({ cancelled }) => cancelled),
    [0, 0, 1, 0, 0, 0],
  );
  t.same(
    daily.map(({ expired }) => expired),
    [0, 0, 0, 0, 1, 0],
  );
  t.same(
    daily.map(({ mrr }) => mrr),
    [
      2n * monthlyMrr,
      3n * monthlyMrr + weeklyMrr,
      2n * monthlyMrr + weeklyMrr,
      2n * monthlyMrr + weeklyMrr,
      monthlyMrr + weeklyMrr,
      monthlyMrr + weeklyMrr,
    ].map(String),
  );
  t.same(
    daily.map(({ gross }) => gross),
    ['0', '10000700', '0', '0', '0', '0'],
  );
  t.same(
    daily.map(({ successRate }) => successRate),
    [null, 1, 0, 0, null, null],
  );
  t.same(
    daily.map(({ churnRate }) => churnRate),
    [0, 0, 0.25, 0, 0.333333, 0],
  );
});

type Movements = Record<
  | 'mrr'
  | 'mrrBefore'
  | 'mrrNew'
  | 'mrrReactivation'
  | 'mrrExpansion'
  | 'mrrContraction'
  | 'mrrChurn',
  string
>;

void t.test(
  'analytics splits changes of recurring revenue into new, back, up, down and lost',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const { appId } = merchant;
    const planId = await insertPlan(api.sql, merchant);
    const put = (subscriberWallet: string, at: Date, fields: Record<string, unknown> = {}) =>
      insertSubscription(
        api.sql,
        { appId, planId },
        { subscriberWallet, createdAt: at, periodHours: 730, ...fields },
      );
    const replace = (id: string, replacedBy: string, replacedAt: Date) =>
      api.sql`
      update subscriptions set replaced_by = ${replacedBy}, replaced_at = ${replacedAt},
        cancel_requested_at = ${replacedAt}, cancel_requested_by = 'subscriber' where id = ${id}`;
    const cancelled = (cancelledAt: Date) => ({ status: 'cancelled', cancelledAt });
    await put('back', day(1), { amount: '100', ...cancelled(day(2)) });
    await put('back', day(4), { amount: '300' });
    const small = await put('up', day(1), { amount: '1000' });
    const large = await put('up', day(4), { amount: '5000', replaces: small });
    await replace(small, large, day(4));
    // A downgrade at the end of the paid time: the new subscription begins when the old one ends.
    const dear = await put('down', day(1), { amount: '9000' });
    const cheap = await put('down', day(2), {
      amount: '2000',
      replaces: dear,
      startsAt: day(5),
    });
    await replace(dear, cheap, day(5));
    const { body } = await api.call<
      Movements & { new: number; daily: (Movements & { new: number })[] }
    >('GET', `/merchant/apps/${appId}/analytics?from=2026-01-01&to=2026-01-07`, {
      token: merchant.key,
    });
    const { daily, ...whole } = body.data;
    t.match(whole, { mrrBefore: '0', mrr: '7300', mrrNew: '10100', mrrChurn: '100', new: 4 });
    t.match(whole, { mrrReactivation: '300', mrrExpansion: '4000', mrrContraction: '7000' });
    t.match(daily[3], { mrrReactivation: '300', mrrExpansion: '4000', mrr: '14300' });
    t.match(daily[4], { mrrContraction: '7000', mrr: '7300' });
    for (const one of [whole, ...daily]) {
      const [plus, less] = [
        [one.mrrBefore, one.mrrNew, one.mrrReactivation, one.mrrExpansion],
        [one.mrrContraction, one.mrrChurn],
      ].map((list) => list.reduce((sum, each) => sum + BigInt(each), 0n));
      t.equal(plus! - less!, BigInt(one.mrr));
    }
  },
);

void t.test(
  'analytics agrees with transactions and subscriptions on random rows and ranges',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const { appId, key } = merchant;
    const planId = await insertPlan(api.sql, merchant);
    const pick = (n: number) => Math.floor(Math.random() * n);
    for (let n = 0; n < 30; n += 1) {
      const states = [
        {},
        { status: 'past_due', pastDueSince: day(20) },
        { status: 'cancelled', cancelledAt: day(20 + pick(5)) },
        { status: 'expired', endedAt: day(25) },
      ];
      const id = await insertSubscription(
        api.sql,
        { appId, planId },
        { createdAt: day(1 + pick(10), pick(24)), ...states[pick(4)] },
      );
      for (let at = 11; at < 20; at += 1 + pick(4)) {
        await insertPayment(
          api.sql,
          id,
          day(at, pick(24)).toISOString(),
          pick(3) === 0
            ? { failureReason: 'insufficient_funds', attempt: 1 }
            : {
                amountGross: '9223372036854775807',
                platformFee: '0',
                amountNet: '9223372036854775807',
              },
        );
      }
    }
    for (const [from, to] of [
      ['2026-01-01', '2026-02-01'],
      ['2026-01-12T07:30:00Z', '2026-01-17T19:00:00.500Z'],
      ['2026-01-12T07:30:00Z', '2026-01-12T07:30:00.001Z'],
    ] as const) {
      const { body } = await api.call<Report>(
        'GET',
        `/merchant/apps/${appId}/analytics?from=${from}&to=${to}`,
        { token: key },
      );
      const rows: { status: string; amountGross: string }[] = [];
      let url: string | undefined =
        `/merchant/apps/${appId}/transactions?limit=100&since=${from}&until=${to}`;
      while (url !== undefined) {
        const page: {
          body: { data: { status: string; amountGross: string }[] };
          headers: Record<string, unknown>;
        } = await api.call('GET', url, { token: key });
        rows.push(...page.body.data);
        url = /<http:\/\/billing\.test([^>]+)>/.exec(String(page.headers.link))?.[1];
      }
      const succeeded = rows.filter(({ status }) => status === 'succeeded');
      t.equal(
        body.data.gross,
        succeeded.reduce((sum, { amountGross }) => sum + BigInt(amountGross), 0n).toString(),
        'beyond 2^63 too',
      );
      t.equal(body.data.paymentsSucceeded, succeeded.length);
      t.equal(body.data.paymentsFailed, rows.length - succeeded.length);
      t.equal(
        body.data.daily.reduce((sum, { gross }) => sum + BigInt(gross), 0n).toString(),
        body.data.gross,
      );
      for (const figures of [body.data, ...body.data.daily])
        t.ok(figures.active >= 0 && figures.pastDue >= 0);
    }
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
    const now = await api.call<Report>('GET', `/merchant/apps/${appId}/analytics?to=${tomorrow}`, {
      token: key,
    });
    for (const [status, figure] of [
      ['active', now.body.data.active],
      ['past_due', now.body.data.pastDue],
    ] as const) {
      const listed = await api.call<unknown[]>(
        'GET',
        `/merchant/apps/${appId}/subscriptions?limit=100&status=${status}`,
        { token: key },
      );
      t.equal(figure, listed.body.data.length, `${status} as the list says`);
    }
  },
);

void t.test(
  'for a range that ends now, analytics counts states as the lists show them',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000);
    const subscription = await insertSubscription(
      api.sql,
      { appId: merchant.appId, planId },
      { createdAt: hoursAgo(48) },
    );
    await insertPayment(api.sql, subscription, hoursAgo(24).toISOString(), {
      failureReason: 'insufficient_funds',
    });
    const { body } = await api.call<Report>('GET', `/merchant/apps/${merchant.appId}/analytics`, {
      token: merchant.key,
    });
    t.match(body.data, { active: 1, pastDue: 0 });
    t.match(body.data.daily.at(-1), { active: 1, pastDue: 0 });
  },
);

void t.test(
  'later writes to an ended subscription do not change its end date in analytics',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const id = await insertSubscription(
      api.sql,
      { appId: merchant.appId, planId },
      { createdAt: day(1), status: 'expired', endedAt: day(5) },
    );
    const url = `/merchant/apps/${merchant.appId}`;
    const expired = async () => {
      const { body } = await api.call<Report>(
        'GET',
        `${url}/analytics?from=2026-01-01&to=2026-02-01`,
        {
          token: merchant.key,
        },
      );
      return body.data.daily.filter((one) => one.expired > 0).map(({ date }) => date);
    };
    t.same(await expired(), ['2026-01-05']);
    const patched = await api.call('PATCH', `${url}/subscriptions/${id}`, {
      token: merchant.key,
      body: { metadata: { a: 'b' } },
    });
    t.equal(patched.status, 200);
    t.same(await expired(), ['2026-01-05']);
  },
);

void t.test(
  'a subscription that was past due before the range counts as past due until it is paid',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const id = await insertSubscription(
      api.sql,
      { appId: merchant.appId, planId },
      { createdAt: day(1) },
    );
    const failed = { failureReason: 'insufficient_funds' };
    await insertPayment(api.sql, id, day(2).toISOString());
    await insertPayment(api.sql, id, day(8).toISOString(), failed);
    await insertPayment(api.sql, id, day(9).toISOString(), { ...failed, attempt: 2 });
    await insertPayment(api.sql, id, day(12).toISOString());
    const { body } = await api.call<Report>(
      'GET',
      `/merchant/apps/${merchant.appId}/analytics?from=2026-01-10&to=2026-01-14`,
      { token: merchant.key },
    );
    t.same(
      body.data.daily.map(({ active, pastDue }) => [active, pastDue]),
      [
        [0, 1],
        [0, 1],
        [1, 0],
        [1, 0],
      ],
    );
  },
);

void t.test(
  'the default range is 30 days, and an app without data has zeros and nulls',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const before = Date.now();
    const { body } = await api.call<Report>('GET', `/merchant/apps/${merchant.appId}/analytics`, {
      token: merchant.key,
    });
    const after = Date.now();
    t.equal(Date.parse(body.data.to) - Date.parse(body.data.from), 30 * 86_400_000);
    t.ok(Date.parse(body.data.to) >= before && Date.parse(body.data.to) <= after);
    t.ok(body.data.daily.length === 30 || body.data.daily.length === 31);
    t.match(body.data, { active: 0, mrr: '0', gross: '0', successRate: null, churnRate: null });
    for (const query of [
      'from=2026-02-01&to=2026-01-01',
      'from=2026-01-01&to=2026-01-01',
      'from=2020-01-01&to=2026-01-01',
      'from=x',
      'days=3',
    ]) {
      t.equal(
        (
          await api.call('GET', `/merchant/apps/${merchant.appId}/analytics?${query}`, {
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
  'analytics sums the network fees and rent of the app’s sponsored transactions',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const [plan, other] = [
      await insertPlan(api.sql, merchant),
      await insertPlan(api.sql, await api.merchant()),
    ];
    const put = async (planId: string, fields: Record<string, unknown>) => {
      const [{ id }] = await api.sql<[{ id: string }]>`
      insert into transactions (signature, last_valid_block_height, state)
      values (${randomBytes(64)}, 1, 'landed')
      returning id`;
      const row = {
        offerId: randomUUID(),
        purpose: 'subscribe',
        wallet: 'W',
        address: '',
        sponsor: 'K',
        planId,
        transactionId: id,
        state: 'landed',
        fee: '12000',
        createdAt: day(5),
        endedAt: day(5, 13),
        ...fields,
      };
      await api.sql`insert into sponsorships ${api.sql(row)}`;
    };
    const rent = { authorityRent: '1000', subscriptionRent: '500' };
    await put(plan, rent);
    await put(plan, { ...rent, subscriptionReturnedAt: day(20) });
    await put(plan, { purpose: 'cancel', fee: '11000' });
    await put(plan, { state: 'failed', reason: 'it failed' });
    await put(plan, { ...rent, createdAt: day(15), endedAt: day(15) });
    await put(other, rent);
    const { body } = await api.call<{ sponsored: unknown }>(
      'GET',
      `/merchant/apps/${merchant.appId}/analytics?from=2026-01-01T00:00:00Z&to=2026-01-10T00:00:00Z`,
      { token: merchant.token },
    );
    t.match(body.data.sponsored, {
      subscriptions: 2,
      transactions: 3,
      failed: 1,
      lamportsFees: '47000',
      lamportsRent: '3000',
      lamportsReturned: '500',
    });
  },
);
