import t from 'tap';
import { testApi } from '../../fixtures/http.ts';

void t.test('at most 4 requests of a merchant wait for events concurrently', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const path = `/merchant/apps/${merchant.appId}/events/next`;
  const start = await api.call<{ cursor: string }>('GET', path, { token: merchant.key });
  const url = `${path}?wait=15&after=${encodeURIComponent(start.body.data.cursor)}`;
  const answers = Array.from({ length: 5 }, () => api.call('GET', url, { token: merchant.key }));
  const refused = await Promise.race(answers);
  t.match(refused, { status: 429, headers: { 'retry-after': '1' } });
  const now = await api.call('GET', url.replace('wait=15', 'wait=0'), { token: merchant.key });
  t.equal(now.status, 200, 'one that does not wait is answered');
  await api.app.close();
  const statuses = (await Promise.all(answers)).map(({ status }) => status).sort();
  t.same(statuses, [200, 200, 200, 200, 429], 'those that wait are answered when serve stops');
});
