// All of one customer: its sums, and the lists of payments and refunds by wallet and externalId.
import t from 'tap';
import { randomAddress, testApi } from '../../fixtures/http.ts';
import { grantCredit, insertPayment, insertPlan, insertSubscription } from '../../fixtures/rows.ts';

interface Row {
  id: string;
}

const api = await testApi(t);
const { sql } = api;
const [mine, other] = [await api.merchant(), await api.merchant()];
const [wallet, second] = [randomAddress(), randomAddress()];
const planId = await insertPlan(sql, mine);

const subscribe = (fields: Record<string, unknown>) =>
  insertSubscription(sql, { appId: mine.appId, planId }, fields);
const alice = await subscribe({
  subscriberWallet: wallet,
  externalId: 'alice',
  createdAt: new Date('2026-01-01T00:00:00Z'),
});
const alice2 = await subscribe({
  subscriberWallet: second,
  externalId: 'alice',
  status: 'cancelled',
  cancelledAt: new Date(),
});
const nameless = await subscribe({ subscriberWallet: wallet });
const bob = await subscribe({ externalId: 'bob' });
// The same customer and the same wallet of another merchant.
const elsewhere = await insertSubscription(
  sql,
  { appId: other.appId, planId: await insertPlan(sql, other) },
  { subscriberWallet: wallet, externalId: 'alice' },
);

await grantCredit(sql, alice, 2_500_000n);
await grantCredit(sql, alice2, 7n);

const refund = async (paymentId: string, fields: Record<string, unknown>) => {
  const [row] = await sql<Row[]>`
    insert into refunds ${sql({ reference: randomAddress(), ...fields, paymentId })} returning id`;
  return row!.id;
};
const first = await insertPayment(sql, alice, '2026-01-01', { amountRefunded: 1_000_000n });
const later = await insertPayment(sql, alice2, '2026-01-05', { amountRefunded: 4n });
const failed = await insertPayment(sql, alice, '2026-02-01', {
  failureReason: 'insufficient_funds',
});
const alone = await insertPayment(sql, nameless, '2026-01-03');
await insertPayment(sql, bob, '2026-01-04');
await insertPayment(sql, elsewhere, '2026-01-02');
const base = { appId: mine.appId, amount: 1_000_000n };
const returned = { status: 'succeeded', txSignature: 'a signature', occurredAt: new Date() };
const one = await refund(first, { ...base, subscriptionId: alice, ...returned });
const two = await refund(later, { ...base, subscriptionId: alice2, ...returned, amount: 4n });
const pending = await refund(alone, { ...base, subscriptionId: nameless });

const app = `/merchant/apps/${mine.appId}`;
const get = (path: string, token = mine.key) =>
  api
    .call<unknown>('GET', path, { token })
    .then(({ status, body }) => ({ status, data: body.data }));
const ids = async (path: string) => ((await get(path)).data as Row[]).map(({ id }) => id);

void t.test('the sums of a customer equal those of its lists', async (t) => {
  const { customerIds, creditMovements, ...sums } = (await get(`${app}/customer?externalId=alice`))
    .data as { customerIds: string[]; creditMovements: object[] };
  t.equal(customerIds.length, 2);
  t.match(creditMovements, [
    { amount: '7', customerId: customerIds[0] },
    { amount: '2500000', customerId: customerIds[1] },
  ]);
  t.same(sums, {
    externalIds: ['alice'],
    wallets: [wallet, second].sort(),
    subscriptions: 2,
    liveSubscriptions: 1,
    amountPaid: '20000000',
    amountRefunded: '1000004',
    credit: '2500007',
    createdAt: '2026-01-01T00:00:00.000Z',
  });
  t.match((await get(`${app}/customer?wallet=${wallet}`)).data, {
    externalIds: ['alice'],
    wallets: [wallet],
    subscriptions: 2,
    liveSubscriptions: 2,
    amountPaid: '20000000',
    amountRefunded: '1000000',
  });
  t.match((await get(`${app}/customer?externalId=bob`)).data, {
    amountPaid: '10000000',
    amountRefunded: '0',
    credit: '0',
  });
  t.equal((await get(`${app}/customer?externalId=carol`)).status, 404);
  t.equal((await get(`${app}/customer?wallet=${randomAddress()}`)).status, 404);
  for (const query of ['', `?externalId=alice&wallet=${wallet}`, '?wallet=alice', '?externalId='])
    t.equal((await get(`${app}/customer${query}`)).status, 400, query);
  t.equal((await get(`${app}/customer?externalId=alice`, other.key)).status, 403);
});

void t.test('payments are listed by wallet and by externalId, page by page', async (t) => {
  for (const list of [`${app}/transactions`, '/merchant/transactions']) {
    t.same(await ids(`${list}?externalId=alice`), [failed, later, first], list);
    t.same(await ids(`${list}?subscriberWallet=${wallet}`), [failed, alone, first], list);
    t.same(await ids(`${list}?subscriberWallet=${wallet}&externalId=alice`), [failed, first]);
    t.same(await ids(`${list}?externalId=alice&status=succeeded`), [later, first]);
    t.same(await ids(`${list}?externalId=alice&subscriptionId=${alice2}`), [later]);
    t.same(await ids(`${list}?externalId=alice&since=2026-01-05&until=2026-02-01`), [later]);
    t.same(await ids(`${list}?externalId=carol`), []);
    const page = await api.call<Row[]>('GET', `${list}?externalId=alice&limit=2`, {
      token: mine.key,
    });
    const cursor = encodeURIComponent(String(page.headers['x-next-cursor']));
    t.same(await ids(`${list}?externalId=alice&limit=2&cursor=${cursor}`), [first]);
    for (const query of ['subscriberWallet=alice', 'externalId='])
      t.equal((await get(`${list}?${query}`)).status, 400, query);
  }
});

void t.test('refunds are listed for the app, a subscription and a customer', async (t) => {
  const list = `${app}/refunds`;
  t.same(await ids(list), [pending, two, one]);
  t.same(await ids(`${list}?status=succeeded`), [two, one]);
  t.same(await ids(`${list}?subscriptionId=${alice}`), [one]);
  t.same(await ids(`${list}?subscriptionId=${elsewhere}`), []);
  t.same(await ids(`${list}?externalId=alice`), [two, one]);
  t.same(await ids(`${list}?externalId=alice&subscriptionId=${alice2}`), [two]);
  t.same(await ids(`${list}?subscriberWallet=${wallet}`), [pending, one]);
  t.same(await ids(`${list}?until=2026-01-01`), []);
  t.same(await ids(`${list}?since=2026-01-01`), [pending, two, one]);
  const page = await api.call<Row[]>('GET', `${list}?externalId=alice&limit=1`, {
    token: mine.key,
  });
  const cursor = encodeURIComponent(String(page.headers['x-next-cursor']));
  t.same(await ids(`${list}?externalId=alice&limit=1&cursor=${cursor}`), [one]);
  t.equal((await get(list, other.key)).status, 403);
});
