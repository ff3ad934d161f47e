import t, { type Test } from 'tap';
import { connect } from '../../../src/db/postgres/connect.ts';
import { connectQueue } from '../../../src/db/postgres/queue-connection.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { startProxy } from '../../fixtures/proxy.ts';
import { until } from '../../fixtures/webhooks.ts';

/** A queue's pool of one connection, and the wire that it goes over. */
async function wired(t: Test, limitMs: number) {
  const { url } = await testDatabase(t);
  const proxy = await startProxy(t, Number(new URL(url).port));
  const via = new URL(url);
  via.port = String(proxy.port);
  const sql = connect(via.href, { max: 1, name: 'test' });
  const queue = connectQueue(sql, 1, { limitMs });
  t.teardown(() => queue.end({ timeout: 0 }));
  return { proxy, queue };
}

void t.test(
  'a statement without an answer is rejected; later ones and LISTEN get new connections',
  async (t) => {
    const { proxy, queue } = await wired(t, 2000);
    let listens = 0;
    const heard: string[] = [];
    await queue.listen(
      'news',
      (payload) => heard.push(payload),
      () => (listens += 1),
    );
    await queue`select 1`;
    t.equal(proxy.connections, 2);
    proxy.hold();
    const began = performance.now();
    const both = [queue`select 1`, queue`select 2`.raw()].map((asked) =>
      t.rejects(asked, { code: 'CONNECTION_CLOSED' }),
    );
    await Promise.all(both);
    t.ok(performance.now() - began >= 1990);
    proxy.release();
    t.same([...(await queue`select 3 as answer`)], [{ answer: 3 }]);
    await until(() => listens === 2);
    await queue.notify('news', 'of today');
    await until(() => heard.length > 0);
    t.same(heard, ['of today']);
  },
);

void t.test(
  'the server cancels a slow statement and its connection is kept; an idle connection is kept too',
  async (t) => {
    const { proxy, queue } = await wired(t, 2000);
    await queue`select 1`;
    await t.rejects(queue`select pg_sleep(3600)`, { code: '57014' });
    for (let n = 0; n < 3; n += 1) await queue`select pg_sleep(0.4)`;
    await new Promise((resolve) => setTimeout(resolve, 1200));
    t.same([...(await queue`select 3 as answer`)], [{ answer: 3 }]);
    t.equal(proxy.connections, 1);
  },
);
