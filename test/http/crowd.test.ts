// One client's silent connections and hundreds of waiting requests leave a serve process to others.
import t from 'tap';
import { clientAt, crowdMerchants, openPolls, openSilent } from '../fixtures/crowd.ts';
import { startServe } from '../fixtures/serve.ts';

void t.test(
  '2,000 silent connections and 500 long polls: others and /healthz are answered',
  async (t) => {
    const { port, sql } = await startServe(t);
    const merchants = await crowdMerchants(sql, 508);
    const { key, path } = merchants.pop()!;
    const close = await openSilent(port, 2000);
    const polls = await openPolls(port, merchants, 504);
    t.teardown(() => {
      polls.close();
      close();
    });
    t.equal((await Promise.race(polls.answers)).status, 429, 'a quarter may wait, no more');

    const clients = ['127.0.0.1', '127.0.0.2'].map((address) => clientAt(port, address));
    for (const client of clients) {
      for (let n = 0; n < 20; n += 1) t.equal((await client.get('/healthz')).status, 200);
      t.equal((await client.get(path, key)).status, 200, 'a request that does not wait');
      client.close();
    }
  },
);
