import t from 'tap';
import { testApi } from '../../fixtures/http.ts';
import { insertEvent, insertPayment, insertPlan, insertSubscription } from '../../fixtures/rows.ts';

void t.test('a subscription’s story is one list, newest first', async (t) => {
  const api = await testApi(t);
  const [mine, other] = [await api.merchant(), await api.merchant()];
  await api.call('POST', `/merchant/apps/${mine.appId}/webhooks`, {
    token: mine.key,
    body: { url: 'https://a.test/' },
  });
  const planId = await insertPlan(api.sql, mine);
  const subscription = await insertSubscription(api.sql, { appId: mine.appId, planId });
  await insertPayment(api.sql, subscription, '2026-01-01');
  await insertEvent(api.sql, subscription);
  const path = (appId: string, id = subscription) =>
    `/merchant/apps/${appId}/subscriptions/${id}/timeline`;
  const { body } = await api.call<{ kind: string; at: string }[]>('GET', path(mine.appId), {
    token: mine.key,
  });
  t.same(body.data.map(({ kind }) => kind).sort(), ['delivery', 'event', 'payment']);
  const times = body.data.map(({ at }) => at);
  t.same(times, [...times].sort().reverse());
  t.equal((await api.call('GET', path(other.appId), { token: other.key })).status, 404);
  t.equal((await api.call('GET', path(mine.appId), { token: other.key })).status, 403);
  t.equal((await api.call('GET', path(mine.appId, 'none'), { token: mine.key })).status, 404);
});
