// To which customer a subscription belongs, by what the database does at each write.
import t, { type Test } from 'tap';
import { connect } from '../../../src/db/postgres/connect.ts';
import { updateOwnIds } from '../../../src/db/subscriptions/merchant-edits.ts';
import { randomAddress } from '../../fixtures/http.ts';
import { asRole, testDatabase } from '../../fixtures/postgres.ts';
import { insertPlan, insertSubscription } from '../../fixtures/rows.ts';

interface Customer {
  id: string;
  externalId: string | null;
  wallet: string | null;
}

async function scene(t: Test) {
  const { sql, url } = await testDatabase(t);
  const wallet = randomAddress();
  const [{ id: merchantId }] = await sql<[{ id: string }]>`
    insert into merchants (wallet) values (${wallet}) returning id`;
  const app = async () => {
    const [{ id: appId }] = await sql<[{ id: string }]>`
      insert into apps (merchant_id, name) values (${merchantId}, 'App') returning id`;
    return { appId, planId: await insertPlan(sql, { appId, wallet }) };
  };
  const of = await app();
  const customerOf = async (id: string): Promise<Customer> => {
    const [row] = await sql<[Customer]>`
      select c.id, c.external_id, c.wallet from subscriptions s join customers c on c.id = customer_id
      where s.id = ${id}`;
    return row;
  };
  const subscribe = (fields: Record<string, unknown> = {}, to = of) =>
    insertSubscription(sql, to, fields);
  const patch = (id: string, externalId: string | null) =>
    updateOwnIds(sql, id, { externalId }, 'merchant');
  return { sql, url, app, of, customerOf, subscribe, patch };
}

void t.test(
  'the customer is who has the id of a session or the merchant, else the wallet',
  async (t) => {
    const { app, customerOf, subscribe } = await scene(t);
    const subscriberWallet = randomAddress();
    const own = { externalId: 'c1', ownIdsFrom: 'merchant' };
    const named = await customerOf(await subscribe({ subscriberWallet, ...own }));
    t.match(named, { externalId: 'c1', wallet: null });
    t.same(await customerOf(await subscribe({ ...own, ownIdsFrom: 'checkout' })), named);
    const byWallet = await customerOf(await subscribe({ subscriberWallet }));
    t.match(byWallet, { externalId: null, wallet: subscriberWallet });
    // Anybody may set the id of somebody else.
    const stranger = { subscriberWallet, externalId: 'c1', ownIdsFrom: 'subscriber' };
    t.same(await customerOf(await subscribe(stranger)), byWallet);
    t.not((await customerOf(await subscribe(own, await app()))).id, named.id, 'of another app');
  },
);

void t.test(
  'if the only subscription of a customer gets another external id, the customer keeps its row',
  async (t) => {
    const { customerOf, subscribe, patch } = await scene(t);
    const id = await subscribe();
    const { id: customer, wallet } = await customerOf(id);
    await patch(id, 'c1');
    t.same(await customerOf(id), { id: customer, externalId: 'c1', wallet: null });
    await patch(id, 'c2');
    t.same(await customerOf(id), { id: customer, externalId: 'c2', wallet: null });
    await patch(id, null);
    const back = await customerOf(id);
    t.match(back, { externalId: null, wallet });
    t.not(back.id, customer, 'without an id, the customer is the wallet');
    await patch(id, 'c2');
    t.equal((await customerOf(id)).id, customer, 'who has the id');
  },
);

void t.test(
  'one of several subscriptions, or one that gets the id of another customer, moves',
  async (t) => {
    const { sql, customerOf, subscribe, patch } = await scene(t);
    const own = { externalId: 'c1', ownIdsFrom: 'merchant' };
    const [one, two] = [await subscribe(own), await subscribe(own)];
    const { id: first } = await customerOf(one);
    await patch(one, 'c2');
    t.match(await customerOf(one), { externalId: 'c2' });
    t.equal((await customerOf(two)).id, first);
    await patch(two, 'c2');
    t.same(await customerOf(two), await customerOf(one));
    t.match(await sql`select external_id from customers order by id`, [
      { externalId: 'c1' },
      { externalId: 'c2' },
    ]);
  },
);

void t.test('metadata of the merchant does not confirm the id of a subscriber', async (t) => {
  const { sql, customerOf, subscribe } = await scene(t);
  const id = await subscribe({ externalId: 'c1', ownIdsFrom: 'subscriber' });
  await updateOwnIds(sql, id, { metadata: { seen: 'yes' } }, 'merchant');
  const read = () => sql`select own_ids_from, metadata from subscriptions where id = ${id}`;
  t.match(await read(), [{ ownIdsFrom: 'subscriber', metadata: { seen: 'yes' } }]);
  t.equal((await customerOf(id)).externalId, null);
  await updateOwnIds(sql, id, { externalId: 'c1' }, 'merchant');
  t.match(await read(), [{ ownIdsFrom: 'merchant' }]);
  t.equal((await customerOf(id)).externalId, 'c1');
});

void t.test('twenty subscriptions of a new customer at once have one customer', async (t) => {
  const { sql, customerOf, subscribe } = await scene(t);
  const own = { externalId: 'c1', ownIdsFrom: 'checkout' };
  const made = await Promise.all(Array.from({ length: 20 }, () => subscribe(own)));
  const customers = await Promise.all(made.map(customerOf));
  t.equal(new Set(customers.map(({ id }) => id)).size, 1);
  t.same(await sql`select count(*)::int as count from customers`, [{ count: 1 }]);
});

void t.test(
  'a subscription that arrives while its customer gets an id belongs to the wallet',
  async (t) => {
    const { sql, customerOf, subscribe, patch } = await scene(t);
    const subscriberWallet = randomAddress();
    const first = await subscribe({ subscriberWallet });
    let second: Promise<string> | undefined;
    await sql.begin(async (tx) => {
      await updateOwnIds(tx, first, { externalId: 'c1' }, 'merchant');
      second = subscribe({ subscriberWallet });
      // The insert waits for the customer's row.
      for (;;) {
        const waiting = await sql`select 1 from pg_locks where not granted`;
        if (waiting.length > 0) break;
      }
    });
    t.match(await customerOf(first), { externalId: 'c1', wallet: null });
    t.match(await customerOf(await second!), { externalId: null, wallet: subscriberWallet });
    await t.resolves(patch(first, 'c2'));
  },
);

void t.test('neither serve nor a keeper writes customers by itself', async (t) => {
  const { url, subscribe, of } = await scene(t);
  await subscribe();
  for (const daemon of ['serve', 'keeper'] as const) {
    const sql = connect(asRole(url, daemon), { max: 1, name: daemon });
    t.teardown(() => sql.end());
    await t.rejects(sql`update customers set external_id = 'x'`, { code: '42501' });
    await t.rejects(sql`insert into customers (app_id, wallet) values (${of.appId}, 'w')`, {
      code: '42501',
    });
    await insertSubscription(sql, of, { externalId: daemon, ownIdsFrom: 'merchant' });
    t.equal((await sql`select 1 from customers where external_id = ${daemon}`).length, 1);
  }
});
