// A connection that ends in the middle of a transaction, at each of its steps: the caller is told, and the process lives.
import t from 'tap';
import { connect, type Transaction } from '../../src/db/connect.ts';
import { isLost } from '../../src/db/outage.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { startProxy } from '../fixtures/proxy.ts';

void t.test('a transaction whose connection ends is rejected, and nothing is written to what is gone', async (t) => {
  const { url, sql: direct } = await testDatabase(t);
  const wire = await startProxy(t, Number(new URL(url).port));
  const behind = new URL(url);
  behind.port = String(wire.port);
  const sql = connect(behind.href, { max: 1, name: 'billing test' });
  t.teardown(() => sql.end({ timeout: 1 }));
  const escaped: unknown[] = [];
  const note = (error: unknown) => escaped.push(error);
  process.on('uncaughtException', note);
  t.teardown(() => process.off('uncaughtException', note));

  /** Ends the connection under it, from the server's side or on the way. */
  const ends: Record<string, (tx: Transaction) => Promise<unknown>> = {
    'cut while a query runs': (tx) => {
      setTimeout(() => wire.cut(), 20);
      return tx`select pg_sleep(10)`;
    },
    'ended by the server while a query runs': async (tx) => {
      const [{ pid }] = await tx<[{ pid: number }]>`select pg_backend_pid() as pid`;
      setTimeout(() => void direct`select pg_terminate_backend(${pid})`.execute(), 20);
      await tx`select pg_sleep(10)`;
    },
    'cut between two queries': async (tx) => {
      await tx`select 1`;
      wire.cut();
      await new Promise((resolve) => setTimeout(resolve, 50));
    },
    'cut, and work throws for a reason of its own': async (tx) => {
      await tx`select 1`;
      wire.cut();
      await new Promise((resolve) => setTimeout(resolve, 50));
      throw new Error('a reason of its own');
    },
  };
  for (const [name, end] of Object.entries(ends)) {
    const error: unknown = await sql.begin(end).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    t.ok(isLost(error), `${name}: ${String(error)}`);
    wire.restore();
    // The driver gives the server's last word on the lost connection to the first query of the next one.
    const next = () => sql`select 1 as one`;
    t.same(await next().catch(next), [{ one: 1 }], `${name}: the pool has a connection again`);
  }
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.same(escaped, []);
});

void t.test('a transaction is what it was: it commits, it rolls back, it takes options and lists of queries', async (t) => {
  const { sql } = await testDatabase(t);
  await sql`create table kept (n int)`;
  t.equal(await sql.begin(async (tx) => (await tx`insert into kept values (1)`).count), 1);
  await t.rejects(
    sql.begin(async (tx) => {
      await tx`insert into kept values (2)`;
      throw new Error('no');
    }),
    { message: 'no' },
  );
  await t.rejects(
    sql.begin('read only', (tx) => tx`insert into kept values (3)`),
    { code: '25006' },
  );
  t.equal((await sql.begin((tx) => [tx`insert into kept values (4)`, tx`insert into kept values (5)`])).length, 2);
  t.same(await sql`select n from kept order by n`, [{ n: 1 }, { n: 4 }, { n: 5 }]);
});
