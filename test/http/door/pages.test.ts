// Pagination. Rules of every list are in document.test.ts.
import { get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { publicUrl, testApi } from '../../fixtures/http.ts';

void t.test(
  'the next page of a list requested with an absolute URL, as proxies do, points to this API',
  async (t) => {
    const api = await testApi(t);
    const { token } = await api.merchant();
    await api.call('POST', '/merchant/apps', { token, body: { name: 'Another' } });
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = api.app.server.address() as AddressInfo;
    const ask = async (path: string) => {
      const response = await new Promise<IncomingMessage>((resolve, reject) => {
        get(
          { port, host: '127.0.0.1', path, headers: { authorization: `Bearer ${token}` } },
          resolve,
        ).on('error', reject);
      });
      response.resume();
      return response;
    };
    const { headers } = await ask('http://elsewhere.test/merchant/apps?limit=1');
    const cursor = String(headers['x-next-cursor']);
    t.equal(
      headers.link,
      `<${publicUrl}/merchant/apps?limit=1&cursor=${encodeURIComponent(cursor)}>; rel="next"`,
    );
    t.equal((await ask(`/merchant/apps?cursor=${encodeURIComponent(cursor)}`)).statusCode, 200);
    for (const path of ['http://elsewhere.test', 'http://elsewhere.test?limit=1', '*'])
      t.equal((await ask(path)).statusCode, 404, path);
  },
);
