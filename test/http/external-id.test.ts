// Spaces around an externalId do not make another customer.
import t from 'tap';
import { chainApi } from '../fixtures/http.ts';
import { insertSubscription } from '../fixtures/rows.ts';

void t.test('an externalId is trimmed in sessions, changes and queries', async (t) => {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  const plan = await api.publishedPlan(merchant);
  const app = `/merchant/apps/${merchant.appId}`;
  const { key: token } = merchant;
  const session = await api.call<{ externalId: string }>('POST', `${app}/checkout-sessions`, {
    token,
    body: { planId: plan.id, externalId: ' alice\t' },
  });
  t.match(session, { status: 201, body: { data: { externalId: 'alice' } } });
  const of = { appId: merchant.appId, planId: plan.id };
  const id = await insertSubscription(api.sql, of, { externalId: 'bob' });
  const path = `${app}/subscriptions/${id}`;
  const changed = await api.call('PATCH', path, { token, body: { externalId: ' alice ' } });
  t.match(changed, { status: 200, body: { data: { externalId: 'alice' } } });
  const found = await api.call('GET', `${app}/subscriptions?externalId=%20alice%20`, { token });
  t.match(found.body.data, [{ id }]);
  const empty = await api.call('PATCH', path, { token, body: { externalId: '  ' } });
  t.equal(empty.status, 400);
});
