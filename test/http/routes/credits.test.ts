// A merchant grants credit to a customer or takes it back; merchant and subscriber list its
// movements.
import t, { type Test } from 'tap';
import { connect } from '../../../src/db/postgres/connect.ts';
import { type Answer, testApi } from '../../fixtures/http.ts';
import { asRole } from '../../fixtures/postgres.ts';
import {
  grantCredit,
  insertAttempt,
  insertInvoice,
  insertPlan,
  insertSubscription,
} from '../../fixtures/rows.ts';

const START = Date.UTC(2097, 0, 1);
const OVERDUE = {
  ...{ status: 'past_due', pastDueSince: new Date(START), nextPaymentDue: new Date(START) },
  ...{ dueAt: new Date(START + 3_600_000), failedAttempts: 2, chainInitId: 1n },
  chainPeriodStart: new Date(START),
};

interface Movement {
  id: string;
  amount: string;
  reason: string;
  balance: string;
  [field: string]: unknown;
}

/** A customer with a subscription, and an endpoint that takes credit_changed. */
async function scene(t: Test, fields: Record<string, unknown> = {}) {
  const api = await testApi(t);
  const { sql } = api;
  const merchant = await api.merchant();
  const { appId, key } = merchant;
  const subscriber = await api.signIn('subscriber');
  const app = { appId, planId: await insertPlan(sql, merchant) };
  const subscribed = (more: Record<string, unknown> = {}) =>
    insertSubscription(sql, app, { subscriberWallet: subscriber.wallet, ...more });
  const id = await subscribed(fields);
  const [{ customerId }] = await sql<[{ customerId: string }]>`
    select customer_id from subscriptions where id = ${id}`;
  const customer = `/merchant/apps/${appId}/customers/${customerId}`;
  const path = `${customer}/credits`;
  const change = (amount: string, more: Record<string, unknown> = {}) =>
    api.call<Movement>('POST', path, {
      token: key,
      body: { amount, reason: 'An outage' },
      ...more,
    });
  const list = async () => (await api.call<Movement[]>('GET', path, { token: key })).body.data;
  const events = () => sql<{ type: string; body: string }[]>`select type, body from events`;
  return {
    api,
    sql,
    merchant,
    subscriber,
    id,
    customer,
    customerId,
    path,
    change,
    list,
    events,
    subscribed,
  };
}

const refused = (status: number, code: string, message: RegExp) => ({
  status,
  body: { error: { code, message } },
});

void t.test('a grant and a take-back are movements that add up to the balance', async (t) => {
  const { api, merchant, customer, customerId, change, list, events, subscriber, id } =
    await scene(t);
  const { key, wallet, token } = merchant;
  const granted = await change('2500000');
  t.match(granted, {
    status: 201,
    body: {
      data: {
        ...{ customerId, amount: '2500000', reason: 'granted', balance: '2500000' },
        ...{ note: 'An outage', notedBy: /^sk_test_/ },
        ...{ invoiceId: null, transactionId: null, subscriptionId: null },
      },
    },
  });
  t.ok(key.startsWith(granted.body.data.notedBy as string));
  const taken = await change('-1000000', { token });
  t.match(taken.body.data, { reason: 'taken_back', balance: '1500000', notedBy: wallet });
  const all = await list();
  t.match(all, [{ id: taken.body.data.id }, { id: granted.body.data.id }]);
  t.same(
    (await events()).map(({ body }) => {
      const { type, data } = JSON.parse(body) as { type: string; data: Record<string, unknown> };
      return [type, data.amount, data.reason, data.balance, data.customerId, data.wallet];
    }),
    [
      ['credit_changed', '2500000', 'granted', '2500000', customerId, subscriber.wallet],
      ['credit_changed', '-1000000', 'taken_back', '1500000', customerId, subscriber.wallet],
    ],
  );
  t.ok(api.woken.dispatchers > 0 && api.woken.keepers > 0);
  const read = async (path: string) => (await api.call('GET', path, { token: key })).body.data;
  t.match(await read(customer), { credit: '1500000' });
  const sums = await read(`/merchant/apps/${merchant.appId}/customer?wallet=${subscriber.wallet}`);
  t.match(sums, { customerIds: [customerId], credit: '1500000' });
  t.strictSame(sums.creditMovements, all);
  const own = await api.call<Movement[]>('GET', `/subscriber/subscriptions/${id}/credits`, {
    token: subscriber.token,
  });
  t.same(
    own.body.data.map(({ amount, reason, note }) => [amount, reason, note]),
    [
      ['-1000000', 'taken_back', undefined],
      ['2500000', 'granted', undefined],
    ],
  );
});

void t.test('movements are listed in pages', async (t) => {
  const { api, merchant, path, change } = await scene(t);
  const ids: string[] = [];
  for (const amount of ['1', '2', '3']) ids.unshift((await change(amount)).body.data.id);
  const get = (query: string): Promise<Answer<Movement[]>> =>
    api.call('GET', `${path}?limit=2${query}`, { token: merchant.key });
  const first = await get('');
  const second = await get(`&cursor=${String(first.headers['x-next-cursor'])}`);
  t.same(
    [first, second].map(({ body }) => body.data.map(({ id }) => id)),
    [ids.slice(0, 2), ids.slice(2)],
  );
});

void t.test('no more is taken back than the balance, which the refusal names', async (t) => {
  const { change, list, events } = await scene(t);
  t.match(await change('-1'), refused(409, 'CONFLICT', /balance is 0\.00 USDC/));
  await change('1500000');
  t.match(await change('-1500001'), refused(409, 'CONFLICT', /1\.50 USDC \(1500000 base units\)/));
  t.match((await change('-1500000')).body.data, { balance: '0' });
  t.equal((await list()).length, 2);
  t.equal((await events()).length, 2);
});

void t.test('an amount that no balance can hold is a VALIDATION_ERROR', async (t) => {
  const { change, list } = await scene(t);
  const most = '9223372036854775807';
  for (const amount of [most, `-${'9'.repeat(19)}`, '0', '-0', '1.5', '', '+1', '01', '1e3'])
    t.match(await change(amount), refused(400, 'VALIDATION_ERROR', /amount/), amount);
  t.match(await change(`-${most}`), refused(409, 'CONFLICT', /balance/));
  t.match(await change('1000000000000000'), { status: 201 });
  t.match(await change('1'), refused(400, 'VALIDATION_ERROR', /balance of at most/));
  t.equal((await list()).length, 1);
});

void t.test('a reason of 1 to 500 characters is asked for', async (t) => {
  const { change } = await scene(t);
  for (const reason of [undefined, null, '', ' ', 'x'.repeat(501), '\0', 7])
    t.match(
      await change('1', { body: { amount: '1', reason } }),
      refused(400, 'VALIDATION_ERROR', /reason/),
    );
  const long = '💡'.repeat(500);
  t.match((await change('1', { body: { amount: '1', reason: long } })).body.data, {
    note: long,
  });
});

void t.test('a retry with the same Idempotency-Key grants once', async (t) => {
  const { change, list } = await scene(t);
  const headers = { 'idempotency-key': 'once' };
  const [first, second] = [await change('5', { headers }), await change('5', { headers })];
  t.strictSame(second.body, first.body);
  t.match(await change('6', { headers }), refused(409, 'CONFLICT', /Idempotency-Key/));
  t.equal((await list()).length, 1);
});

void t.test('first grants at the same time are all kept', async (t) => {
  const { api, merchant, customer, change } = await scene(t);
  const all = await Promise.all(Array.from({ length: 8 }, () => change('1000000')));
  t.same(
    all.map(({ status }) => status),
    Array(8).fill(201),
  );
  const { body } = await api.call('GET', customer, { token: merchant.key });
  t.match(body.data, { credit: '8000000' });
});

void t.test('another merchant neither grants nor reads', async (t) => {
  const { api, merchant, path, change } = await scene(t);
  const stranger = await api.merchant();
  t.equal((await change('1', { token: stranger.key })).status, 403);
  t.equal((await api.call('GET', path, { token: stranger.key })).status, 403);
  const elsewhere = path.replace(merchant.appId, stranger.appId);
  t.equal((await api.call('GET', elsewhere, { token: stranger.key })).status, 404);
});

void t.test('a grant replaces the open invoices of past-due subscriptions', async (t) => {
  const { sql, id, change, subscribed } = await scene(t, OVERDUE);
  const second = await subscribed(OVERDUE);
  const active = await subscribed({ dueAt: new Date(START) });
  const from = new Date(START);
  for (const one of [id, second, active]) await insertInvoice(sql, one, { from });
  await grantCredit(sql, id, 3_000_000n);
  const states = async () =>
    (
      await sql<{ state: string }[]>`
        select i.state || coalesce(' ' || i.void_reason, '') || case
          when w.due_at <= now() then ' due' else '' end as state
        from invoices i join subscription_work w using (subscription_id) order by i.subscription_id`
    ).map(({ state }) => state);
  t.match(await change('-1'), { status: 201 });
  t.same(await states(), ['open', 'open', 'open'], 'a take-back changes no invoice');
  t.match(await change('1'), { status: 201 });
  t.same(await states(), ['void replaced due', 'void replaced due', 'open']);
});

void t.test('an invoice whose attempt may still land is not replaced by a grant', async (t) => {
  const { sql, id, change } = await scene(t, OVERDUE);
  await insertInvoice(sql, id, { from: new Date(START) });
  await insertAttempt(sql);
  t.match(await change('1'), { status: 201 });
  const [invoice] = await sql`select state from invoices`;
  t.match(invoice, { state: 'open' });
});

void t.test('a wallet sees no ids of the other wallets of its customer', async (t) => {
  const named = { externalId: 'customer-1', ownIdsFrom: 'merchant' };
  const { api, sql, id, subscriber, subscribed } = await scene(t, named);
  const other = await subscribed({
    ...named,
    subscriberWallet: (await api.signIn('subscriber')).wallet,
  });
  await grantCredit(sql, id, 1n);
  await grantCredit(sql, other, 2n);
  const path = `/subscriber/subscriptions/${id}/credits`;
  const { body } = await api.call<Movement[]>('GET', path, { token: subscriber.token });
  t.match(body.data, [
    { amount: '2', subscriptionId: null },
    { amount: '1', subscriptionId: id },
  ]);
  const stranger = await api.signIn('subscriber');
  t.equal((await api.call('GET', path, { token: stranger.token })).status, 403);
});

void t.test('serve neither spends credit nor writes a balance', async (t) => {
  const { api, id, change } = await scene(t);
  await change('5');
  const serve = connect(asRole(api.databaseUrl, 'serve'), { max: 1, name: 'billing test' });
  t.teardown(() => serve.end());
  const forbidden = { code: '42501' };
  for (const statement of [
    `update credit_balances set balance = 9`,
    `update credits set amount = 9`,
    `delete from credits`,
    `insert into credits (customer_id, amount, reason, invoice_id)
      select customer_id, -1, 'spent', id from subscriptions where id = '${id}'`,
  ])
    await t.rejects(serve.unsafe(statement), forbidden, statement);
});
