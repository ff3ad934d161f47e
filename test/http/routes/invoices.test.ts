// Invoices of an app: what was owed for each period, with its lines.
import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import type { Sql } from '../../../src/db/postgres/connect.ts';
import { type Answer, testApi } from '../../fixtures/http.ts';
import {
  grantCredit,
  insertAttempt,
  insertInvoice,
  insertPlan,
  insertSubscription,
} from '../../fixtures/rows.ts';

interface Invoice {
  id: string;
  state: string;
  [field: string]: unknown;
}

const START = Date.UTC(2027, 0, 1);
const HOUR = 3_600_000;
const period = (n: number) => new Date(START + n * 730 * HOUR);

async function scene(t: Test) {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const { appId, key: token } = merchant;
  const planId = await insertPlan(api.sql, merchant);
  const subscription = (fields: Record<string, unknown> = {}) =>
    insertSubscription(api.sql, { appId, planId }, fields);
  const invoices = `/merchant/apps/${appId}/invoices`;
  const get = <T = Invoice>(path: string, by: string = token): Promise<Answer<T>> =>
    api.call<T>('GET', path, { token: by });
  const list = async (query = '') =>
    (await get<Invoice[]>(`${invoices}?${query}`)).body.data.map(({ id }) => id);
  return { api, sql: api.sql, merchant, appId, planId, subscription, invoices, get, list };
}

const close = (sql: Sql, id: string, fields: Record<string, unknown>) => sql`
  update invoices set ${sql({ closedAt: period(1), ...fields })} where id = ${id}`;

void t.test('an invoice has its lines and every sum, as strings', async (t) => {
  const { sql, appId, planId, subscription, invoices, get } = await scene(t);
  const subscriptionId = await subscription({ externalId: 'customer-1', ownIdsFrom: 'merchant' });
  const id = await insertInvoice(sql, subscriptionId, { from: period(0) });
  const [row] = await sql<[Record<string, string>]>`
    select customer_id, subscriber_wallet from subscriptions`;
  const { status, body } = await get(`${invoices}/${id}`);
  t.equal(status, 200);
  const { createdAt, ...data } = body.data;
  t.type(createdAt, 'string');
  t.strictSame(data, {
    ...{ id, appId, planId, subscriptionId, ...row, externalId: 'customer-1' },
    ...{ reason: 'period', state: 'open', voidReason: null },
    ...{ periodStart: period(0).toISOString(), periodEnd: period(1).toISOString() },
    ...{ coversFrom: period(0).toISOString(), coversTo: period(1).toISOString() },
    lines: [{ kind: 'plan', amount: '10000000' }],
    ...{ planAmount: '10000000', usageAmount: '0', itemsAmount: '0', discountAmount: '0' },
    ...{ adjustmentAmount: '0', taxAmount: '0', total: '10000000', creditApplied: '0' },
    ...{ amountDue: '10000000', dueAt: period(0).toISOString(), failedTries: 0, nextTryAt: null },
    ...{ drawnUpAt: period(0).toISOString(), closedAt: null },
  });
  t.strictSame((await get<Invoice[]>(invoices)).body.data, [body.data]);
});

void t.test('a discount is negative, and an adjustment says its source', async (t) => {
  const { sql, subscription, invoices, get } = await scene(t);
  const subscriptionId = await subscription();
  const [of] = await sql<[Record<string, string>]>`
    select app_id, customer_id, id as subscription_id, subscription_pda from subscriptions
    where id = ${subscriptionId}`;
  const lines = [
    { kind: 'plan', amount: '10000000' },
    { kind: 'discount', amount: '-2500000' },
    { kind: 'adjustment', amount: '-7500000', source: 'minimum' },
  ];
  const row: Record<string, unknown> = {
    ...{ ...of, lines: sql.json(lines), planAmount: 10_000_000n, discountAmount: -2_500_000n },
    ...{ adjustmentAmount: -7_500_000n, total: 0n, amountDue: 0n, state: 'paid' },
    ...{ closedAt: period(0), dueAt: period(0), drawnUpAt: period(0) },
    ...{ periodStart: period(0), periodEnd: period(1) },
    ...{ coversFrom: period(0), coversTo: period(1) },
  };
  await sql`insert into invoices ${sql(row)}`;
  t.match((await get<Invoice[]>(invoices)).body.data, [
    { lines, discountAmount: '-2500000', adjustmentAmount: '-7500000', total: '0' },
  ]);
});

void t.test(
  'invoices are filtered by state, reason, plan, subscription, customer and time',
  async (t) => {
    const { sql, appId, merchant, planId, subscription, list, invoices, get } = await scene(t);
    const a = await subscription({ externalId: 'a', ownIdsFrom: 'merchant' });
    const other = await insertPlan(sql, merchant);
    const b = await insertSubscription(sql, { appId, planId: other });
    const [first, second] = [
      await insertInvoice(sql, a, { from: period(0) }),
      await insertInvoice(sql, a, { from: period(1) }),
    ];
    const third = await insertInvoice(sql, b, { from: period(2) });
    const unpaid = { unpaidAt: period(1), troubledAt: period(1) };
    await close(sql, first, { state: 'void', voidReason: 'replaced', ...unpaid });
    const [foreign] = await sql<[{ id: string }]>`
      insert into invoices (app_id, customer_id, subscription_id, subscription_pda, reason, lines,
        period_start, period_end, adjustment_amount, total, amount_due, due_at, drawn_up_at, state,
        closed_at)
      select app_id, customer_id, id, subscription_pda, 'foreign',
        '[{"kind": "adjustment", "amount": "1", "source": "pull"}]', ${period(2)}, ${period(3)}, 1,
        1, 1, ${period(3)}, ${period(3)}, 'paid', ${period(3)}
      from subscriptions where id = ${a} returning id`;
    const [wallet] = await sql<[{ of: string }]>`
      select subscriber_wallet as of from subscriptions where id = ${a}`;
    const found = async (query: string, ids: string[]) => t.same(await list(query), ids, query);
    await found('', [foreign.id, third, second, first]);
    await found('state=open', [third, second]);
    await found('state=void,paid', [foreign.id, first]);
    await found('reason=foreign', [foreign.id]);
    await found(`planId=${planId}`, [foreign.id, second, first]);
    await found(`subscriptionId=${a}`, [foreign.id, second, first]);
    await found(`subscriptionId=${a}&state=open&reason=period`, [second]);
    await found(`subscriptionId=${b}&externalId=a`, []);
    await found('externalId=a', [foreign.id, second, first]);
    await found(`subscriberWallet=${wallet.of}&planId=${other}`, []);
    await found(`subscriberWallet=${wallet.of}`, [foreign.id, second, first]);
    await found(`since=${period(1).toISOString()}&until=${period(3).toISOString()}`, [
      third,
      second,
    ]);
    for (const query of ['state=draft', 'planId=x', 'since=x', 'limit=0', 'from=2027-01-01'])
      t.equal((await get(`${invoices}?${query}`)).status, 400, query);
  },
);

void t.test('pages are stable, also those of a subscription', async (t) => {
  const { sql, subscription, invoices, get } = await scene(t);
  const subscriptionId = await subscription({ externalId: 'a', ownIdsFrom: 'merchant' });
  const made: string[] = [];
  for (const n of [0, 1, 2, 3, 4])
    made.unshift(await insertInvoice(sql, subscriptionId, { from: period(n) }));
  for (const filter of ['', `&subscriptionId=${subscriptionId}`, '&externalId=a']) {
    const seen: string[] = [];
    let next: string | undefined = `limit=2${filter}`;
    while (next !== undefined) {
      const page: Answer<Invoice[]> = await get<Invoice[]>(`${invoices}?${next}`);
      seen.push(...page.body.data.map(({ id }) => id));
      const link = /\?([^>]+)>/.exec(String(page.headers.link ?? ''));
      next = link?.[1];
    }
    t.same(seen, made, filter);
  }
});

void t.test(
  'only invoices with a subscription are shown, and only to their merchant',
  async (t) => {
    const { api, sql, subscription, invoices, get } = await scene(t);
    const id = await insertInvoice(sql, await subscription());
    const stranger = await api.merchant();
    t.equal((await get(`${invoices}/${id}`, stranger.key)).status, 403);
    t.equal((await get(invoices, stranger.key)).status, 403);
    t.equal(
      (await get(`/merchant/apps/${stranger.appId}/invoices/${id}`, stranger.key)).status,
      404,
    );
    const { token } = await api.signIn('subscriber');
    t.equal((await get(invoices, token)).status, 403);
    t.equal((await get(`${invoices}/not-an-id`)).status, 404);
    await sql`alter table invoices disable trigger user`;
    await sql`alter table invoices drop constraint invoice_of_subscription_or_offer`;
    await sql`update invoices set subscription_id = null`;
    t.equal((await get(`${invoices}/${id}`)).status, 404, 'of an offer that has not landed');
    t.same((await get(invoices)).body.data, []);
  },
);

void t.test('the upcoming invoice is previewed, or is the open one', async (t) => {
  const { sql, appId, planId, subscription, get } = await scene(t);
  const due = { nextPaymentDue: period(1), paidThrough: period(1), periodAnchor: period(0) };
  const discount = { discountPercent: 25, discountId: randomUUID() };
  const subscriptionId = await subscription({ ...due, ...discount });
  await grantCredit(sql, subscriptionId, 1_000_000n);
  const path = `/merchant/apps/${appId}/subscriptions/${subscriptionId}/upcoming`;
  const cover = { coversFrom: period(1).toISOString(), coversTo: period(2).toISOString() };
  const { status, body } = await get<Record<string, unknown> | null>(path);
  t.equal(status, 200);
  t.match(body.data, {
    ...{ id: null, appId, planId, subscriptionId, reason: 'period', drawnUpAt: null, ...cover },
    lines: [
      { kind: 'plan', amount: '10000000' },
      { kind: 'discount', amount: '-2500000' },
    ],
    ...{ planAmount: '10000000', discountAmount: '-2500000', taxAmount: '0', total: '7500000' },
    ...{ creditApplied: '1000000', amountDue: '6500000', dueAt: cover.coversFrom },
    ...{ failedTries: 0, nextTryAt: null, asOf: String },
  });
  t.match(body.data, { customerId: String, subscriberWallet: String, externalId: null });
  t.same(await sql`select 1 from invoices`, []);

  const id = await insertInvoice(sql, subscriptionId, { from: period(1) });
  t.match((await get(path)).body.data, { id, total: '10000000', drawnUpAt: cover.coversFrom });
  const unpaid = { unpaidAt: period(1), troubledAt: period(1) };
  await close(sql, id, { state: 'void', voidReason: 'replaced', ...unpaid });
  t.match((await get(path)).body.data, { id: null, total: '7500000' });

  for (const fields of [
    { nextPaymentDue: null, pausedAt: period(0) },
    { nextPaymentDue: null, cancelRequestedAt: period(0), cancelRequestedBy: 'merchant' },
    { status: 'expired' },
  ]) {
    const other = await subscription({ ...due, ...fields });
    const asked = await get(`/merchant/apps/${appId}/subscriptions/${other}/upcoming`);
    t.match(asked, { status: 200, body: { success: true, data: null } });
  }
});

void t.test('an invoice in collection is the upcoming one', async (t) => {
  const { sql, appId, subscription, get } = await scene(t);
  const due = { nextPaymentDue: period(1), paidThrough: period(1), periodAnchor: period(0) };
  const subscriptionId = await subscription(due);
  const id = await insertInvoice(sql, subscriptionId, { from: period(1) });
  await insertAttempt(sql);
  const path = `/merchant/apps/${appId}/subscriptions/${subscriptionId}/upcoming`;
  t.match((await get(path)).body.data, { id });
});

void t.test('a wallet reads the invoices of its own subscriptions', async (t) => {
  const { api, sql, subscription, get } = await scene(t);
  const [{ token, wallet: subscriberWallet }, stranger] = [
    await api.signIn('subscriber'),
    await api.signIn('subscriber'),
  ];
  const ids = { externalId: 'a', ownIdsFrom: 'merchant' };
  const mine = await subscription({ subscriberWallet, ...ids });
  await insertInvoice(sql, await subscription({ subscriberWallet }));
  const made = [
    await insertInvoice(sql, mine, { from: period(1) }),
    await insertInvoice(sql, mine, { from: period(0) }),
  ];
  const path = `/subscriber/subscriptions/${mine}/invoices`;
  const { body } = await get<Invoice[]>(path, token);
  t.same(
    body.data.map(({ id }) => id),
    made,
  );
  t.match(body.data[0], { state: 'open', amountDue: '10000000', lines: [{ kind: 'plan' }] });
  for (const hidden of ['externalId', 'customerId']) t.notOk(hidden in body.data[0]!, hidden);
  const one = `/subscriber/invoices/${made[0]}`;
  t.strictSame((await get(one, token)).body.data, body.data[0]);
  for (const url of [path, one]) {
    t.equal((await get(url, stranger.token)).status, 403);
    t.equal((await get(url)).status, 403, 'an API key');
  }
  t.equal((await get('/subscriber/invoices/x', token)).status, 404);
});
