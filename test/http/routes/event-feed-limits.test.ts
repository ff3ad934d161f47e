import { once } from 'node:events';
import { connect, type AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
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

void t.test(
  'a client that disconnects before it is identified does not count as a waiting request',
  async (t) => {
    const api = await testApi(t);
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = api.app.server.address() as AddressInfo;
    const [merchant, other] = [await api.merchant(), await api.merchant()];
    const urlOf = async ({ appId, key: token }: typeof merchant) => {
      const path = `/merchant/apps/${appId}/events/next`;
      const start = await api.call<{ cursor: string }>('GET', path, { token });
      return `${path}?wait=15&after=${encodeURIComponent(start.body.data.cursor)}`;
    };
    const [url, otherUrl] = [await urlOf(merchant), await urlOf(other)];
    const clients = Array.from({ length: 4 }, () => connect(port, '127.0.0.1'));
    await Promise.all(clients.map((client) => once(client, 'connect')));
    await api.sql.begin(async (tx) => {
      await tx`lock table api_keys in access exclusive mode`;
      for (const client of clients)
        client.write(
          `GET ${url} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${merchant.key}\r\n\r\n`,
        );
      const waiting = () => tx`select from pg_locks where not granted`;
      while ((await waiting()).length === 0) await pause(10);
      for (const client of clients) client.destroy();
      const open = () =>
        new Promise<number>((resolve) => {
          api.app.server.getConnections((_, count) => resolve(count));
        });
      while ((await open()) > 0) await pause(10);
    });
    const clock = api.call('GET', otherUrl, { token: other.key }).then(() => 'late');
    const probe = async () =>
      (await api.call('GET', url.replace('wait=15', 'wait=1'), { token: merchant.key })).status;
    const allFree = async () => {
      const free = async () =>
        (await Promise.all([probe(), probe(), probe(), probe()])).every((status) => status === 200);
      while (!(await free())) await pause(200);
      return 'free';
    };
    t.equal(await Promise.race([allFree(), clock]), 'free');
    await api.app.close();
    await clock;
  },
);
