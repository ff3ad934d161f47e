// The customers of an app: who has an externalId that the merchant set, else the wallet.
import t from 'tap';
import { testApi } from '../../fixtures/http.ts';
import { insertPlan, insertSubscription } from '../../fixtures/rows.ts';

interface Customer {
  id: string;
  externalId: string | null;
  [field: string]: unknown;
}

void t.test(
  'customers are listed with their subscriptions, and found by id or wallet',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const { appId, key: token, wallet } = merchant;
    const planId = await insertPlan(api.sql, merchant);
    const subscribed = (fields: Record<string, unknown> = {}) =>
      insertSubscription(api.sql, { appId, planId }, fields);
    const named = { externalId: 'customer-1', ownIdsFrom: 'merchant' };
    const [first, second] = [await subscribed(named), await subscribed(named)];
    const third = await subscribed({ subscriberWallet: wallet });
    const own = { externalId: 'customer-1', ownIdsFrom: 'subscriber' };
    const fourth = await subscribed(own);
    const path = `/merchant/apps/${appId}/customers`;
    const list = async (query = '') =>
      (await api.call<Customer[]>('GET', `${path}?${query}`, { token })).body.data;
    const all = await list();
    t.match(all, [
      { appId, externalId: null, wallet: String, subscriptionIds: [fourth] },
      { externalId: null, wallet, name: null, email: null, subscriptionIds: [third] },
      { externalId: 'customer-1', wallet: null, subscriptionIds: [second, first] },
    ]);
    t.same(
      all.map(({ id }) => id),
      all
        .map(({ id }) => id)
        .sort()
        .reverse(),
    );
    t.strictSame(await list('externalId=customer-1'), [all[2]]);
    t.strictSame(await list(`wallet=${wallet}`), [all[1]]);
    t.same(await list(`wallet=${wallet}&externalId=customer-1`), []);
    const one = `${path}/${all[2]!.id}`;
    t.strictSame((await api.call('GET', one, { token })).body.data, all[2]);
    const stranger = await api.merchant();
    const asked = (url: string) => api.call('GET', url, { token: stranger.key });
    t.equal((await asked(one)).status, 403);
    t.equal((await asked(path)).status, 403);
    t.equal((await asked(`/merchant/apps/${stranger.appId}/customers/${all[2]!.id}`)).status, 404);
  },
);

void t.test('at most 20 subscriptions of a customer are named, the newest', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const app = { appId: merchant.appId, planId: await insertPlan(api.sql, merchant) };
  const ids: string[] = [];
  for (let n = 0; n < 22; n += 1)
    ids.unshift(
      await insertSubscription(api.sql, app, { externalId: 'a', ownIdsFrom: 'merchant' }),
    );
  const path = `/merchant/apps/${merchant.appId}/customers`;
  const { body } = await api.call<Customer[]>('GET', path, { token: merchant.key });
  t.same(body.data[0]?.subscriptionIds, ids.slice(0, 20));
});
