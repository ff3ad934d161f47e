// A connection that ends in the middle of a transaction, at each of its steps: the caller gets an
// error, and the process survives.
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import {
  connect,
  type Queryable,
  silenceOf,
  type Sql,
  type Transaction,
} from '../../../src/db/postgres/connect.ts';
import { isLost } from '../../../src/db/postgres/outage.ts';
import { databaseTrouble } from '../../../src/db/postgres/readiness.ts';
import { limitsWithin } from '../../../src/db/postgres/settings.ts';
import { messageOf } from '../../../src/errors.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { startProxy } from '../../fixtures/proxy.ts';
import { until } from '../../fixtures/webhooks.ts';

async function pidOf(sql: Queryable): Promise<number> {
  const [row] = await sql<[{ pid: number }]>`select pg_backend_pid() as pid`;
  return row.pid;
}

/** Resolves once that session runs pg_sleep. */
const sleeps = (sql: Sql, pid: number) =>
  until(
    async () =>
      (
        await sql`select from pg_stat_activity where pid = ${pid} and state = 'active' and query like '%pg_sleep%'`
      ).length === 1,
  );

void t.test(
  'a transaction whose connection ends is rejected, and nothing is written to the closed connection',
  async (t) => {
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
      'cut while a query runs': async (tx) => {
        const pid = await pidOf(tx);
        void sleeps(direct, pid).then(() => wire.cut());
        await tx`select pg_sleep(3600)`;
      },
      'ended by the server while a query runs': async (tx) => {
        const pid = await pidOf(tx);
        void sleeps(direct, pid).then(() => direct`select pg_terminate_backend(${pid})`);
        await tx`select pg_sleep(3600)`;
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
      // The driver gives the server's last word on the lost connection to the first query of the
      // next one.
      const next = () => sql`select 1 as one`;
      t.same(await next().catch(next), [{ one: 1 }], `${name}: the pool has a connection again`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
    t.same(escaped, []);
  },
);

void t.test(
  'transactions commit, roll back, and accept options and lists of queries as postgres.js does',
  async (t) => {
    const { sql } = await testDatabase(t);
    await sql`create table stored (n int)`;
    t.equal(await sql.begin(async (tx) => (await tx`insert into stored values (1)`).count), 1);
    await t.rejects(
      sql.begin(async (tx) => {
        await tx`insert into stored values (2)`;
        throw new Error('no');
      }),
      { message: 'no' },
    );
    await t.rejects(
      sql.begin('read only', (tx) => tx`insert into stored values (3)`),
      { code: '25006' },
    );
    t.equal(
      (
        await sql.begin((tx) => [
          tx`insert into stored values (4)`,
          tx`insert into stored values (5)`,
        ])
      ).length,
      2,
    );
    t.same(await sql`select n from stored order by n`, [{ n: 1 }, { n: 4 }, { n: 5 }]);
  },
);

/**
 * A pool of one connection with short limits, and the wire that it goes over. Each limit is far
 * above what an answer takes.
 */
async function wired(t: Test, { statementMs = 1500, silentMs = 2000 } = {}) {
  const { url, sql: direct } = await testDatabase(t);
  const wire = await startProxy(t, Number(new URL(url).port));
  const behind = new URL(url);
  behind.port = String(wire.port);
  const limits = { statementMs, lockMs: 1000, idleInTransactionMs: 1000, silentMs };
  const sql = connect(behind.href, { max: 1, name: 'billing test', limits });
  t.teardown(() => sql.end({ timeout: 0 }));
  return { sql, wire, direct };
}

void t.test('a connection that receives nothing is dropped, and LISTEN starts again', async (t) => {
  const { sql, wire } = await wired(t);
  let listens = 0;
  const received: string[] = [];
  await sql.listen(
    'news',
    (payload) => received.push(payload),
    () => (listens += 1),
  );
  await sql`select 1`;
  t.equal(wire.connections, 2);
  wire.hold();
  await t.rejects(Promise.resolve(sql`select 1`), { code: 'CONNECTION_CLOSED' });
  t.ok((silenceOf(sql)?.dropped ?? 0) >= 2);
  t.match(await databaseTrouble(sql), /went silent and were dropped/);
  // The next connection gets no answer from the start: the limit for connecting ends that.
  await t.rejects(
    sql.begin((tx) => tx`select 3`),
    { code: 'CONNECT_TIMEOUT' },
  );
  wire.release();
  await until(() =>
    sql`select 2`.raw().then(
      () => true,
      () => false,
    ),
  );
  await until(() => listens === 2);
  await sql.notify('news', 'today');
  await until(() => received.length > 0);
  t.same(received, ['today']);
});

void t.test(
  'a commit or statement in a transaction is rejected if Postgres does not answer',
  async (t) => {
    const { sql, wire } = await wired(t);
    await t.rejects(
      sql.begin(async (tx) => {
        await tx`select 1`;
        wire.hold();
      }),
      { code: 'CONNECTION_CLOSED' },
    );
    wire.release();
    await sql`select 1`;
    await t.rejects(
      sql.begin(async (tx) => {
        wire.hold();
        await tx`select 1`;
      }),
      { code: 'CONNECTION_CLOSED' },
    );
  },
);

void t.test(
  'a statement that waits for a connection longer than the limit is cancelled',
  async (t) => {
    const { sql } = await wired(t);
    let isCancelled = false;
    let isFree = false;
    const holding = sql
      .begin(async (tx) => {
        while (!isCancelled) await tx`select pg_sleep(0.1)`;
      })
      .then(() => (isFree = true));
    await t.rejects(
      sql`select 1`.then((rows) => [...rows]),
      { code: '57014' },
    );
    t.notOk(isFree, 'before the connection is free');
    isCancelled = true;
    await holding;
  },
);

void t.test('a slow statement is cancelled by the server, and its connection stays', async (t) => {
  const { sql, wire, direct } = await wired(t, { silentMs: 10_000 });
  await sql`select 1`;
  await t.rejects(Promise.resolve(sql`select pg_sleep(3600)`), { code: '57014' });
  await direct`create table locked (n int)`;
  await direct.begin(async (tx) => {
    await tx`lock table locked`;
    await t.rejects(Promise.resolve(sql`select * from locked`), { code: '55P03' });
  });
  t.same([...(await sql`select 3 as answer`)], [{ answer: 3 }]);
  t.equal(wire.connections, 1);
});

void t.test('the server ends an idle transaction after its time limit', async (t) => {
  const { sql } = await wired(t);
  let begun: () => void = () => undefined;
  const ended = sql.begin(async (tx) => {
    await tx`select 1`;
    await new Promise<void>((resolve) => (begun = resolve));
  });
  await t.rejects(ended, { code: /25P03|CONNECTION_CLOSED/ });
  begun();
});

void t.test(
  'an error of a connection that the server ended is not passed to a later statement',
  async (t) => {
    const { sql, direct } = await wired(t, { statementMs: 600_000, silentMs: 1_200_000 });
    for (let round = 0; round < 3; round += 1) {
      const pid = await pidOf(sql);
      const running = t.rejects(Promise.resolve(sql`select pg_sleep(3600)`), {
        code: 'CONNECTION_CLOSED',
      });
      await sleeps(direct, pid);
      await direct`select pg_terminate_backend(${pid})`;
      await running;
      if (round === 0) t.same([...(await sql`select 3 as answer`)], [{ answer: 3 }]);
      if (round === 1) t.same(await sql`select 3 as answer`.values(), [[3]]);
      if (round === 2)
        t.same([...(await sql.begin((tx) => tx`select 3 as answer`))], [{ answer: 3 }]);
    }
  },
);

void t.test('connection errors include the port of the server', async (t) => {
  const limits = { statementMs: 800, lockMs: 400, idleInTransactionMs: 400, silentMs: 1000 };
  const silent = createServer(() => undefined).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  t.teardown(() => silent.close());
  const sql = connect(`postgres://postgres@127.0.0.1:${port}/none`, {
    max: 1,
    name: 'billing test',
    limits,
  });
  t.teardown(() => sql.end({ timeout: 0 }));
  const error: unknown = await sql`select 1`.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  t.notMatch(messageOf(error), /undefined/);
});

/** A queue's pool of one connection, and the wire that it goes over. */
async function wiredQueue(t: Test, limitMs: number) {
  const { url } = await testDatabase(t);
  const proxy = await startProxy(t, Number(new URL(url).port));
  const via = new URL(url);
  via.port = String(proxy.port);
  const sql = connect(via.href, { max: 1, name: 'test' });
  const queue = connect(sql, { max: 1, planning: 'queue', limits: limitsWithin(limitMs) });
  t.teardown(() => queue.end({ timeout: 0 }));
  return { proxy, queue };
}

void t.test(
  'after a statement without a response, the pool rejects it and opens new connections',
  async (t) => {
    const { proxy, queue } = await wiredQueue(t, 2000);
    let listens = 0;
    const received: string[] = [];
    await queue.listen(
      'news',
      (payload) => received.push(payload),
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
    await until(() => received.length > 0);
    t.same(received, ['of today']);
  },
);

void t.test('the pool keeps a connection whose slow statement the server cancels', async (t) => {
  const { proxy, queue } = await wiredQueue(t, 2000);
  await queue`select 1`;
  await t.rejects(queue`select pg_sleep(3600)`, { code: '57014' });
  for (let n = 0; n < 3; n += 1) await queue`select pg_sleep(0.4)`;
  await new Promise((resolve) => setTimeout(resolve, 1200));
  t.same([...(await queue`select 3 as answer`)], [{ answer: 3 }]);
  t.equal(proxy.connections, 1);
});

void t.test(
  'arrays of each type in the schema are read back from Postgres unchanged',
  async (t) => {
    const { sql } = await testDatabase(t);
    // Postgres stores no NUL.
    const text = fc.string({ unit: 'binary' }).map((value) => value.replaceAll('\0', ''));
    const special = fc.constantFrom(
      '',
      'NULL',
      'null',
      '{}',
      '"',
      '\\',
      ',',
      ' a ',
      "'",
      '{"a","b"}',
    );
    const whole = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(text, special)),
        fc.array(fc.uuid()),
        fc.array(whole),
        async (texts, uuids, ints) => {
          const [row] = await sql`
          select ${texts}::text[] as texts, ${uuids}::uuid[] as uuids, ${ints}::int[] as ints, null::text[] as none,
            array(select unnest(${texts}::text[])) as rebuilt, cardinality(${texts}::text[]) as length`;
          t.same(row, { texts, uuids, ints, none: null, rebuilt: texts, length: texts.length });
        },
      ),
      { numRuns: 200 },
    );
  },
);

void t.test(
  'a prepared statement whose table gets a column is repeated with the same parameters',
  async (t) => {
    const { sql: admin, url } = await testDatabase(t);
    const sql = connect(url, { max: 1, name: 'billing test' });
    t.teardown(() => sql.end({ timeout: 1 }));
    await admin`create table warm (yes boolean, bytes bytea, texts text[], uuids uuid[], ints int[],
      document jsonb, amount int8, at timestamptz, word text)`;
    const given = {
      yes: true,
      bytes: Buffer.from([0, 1, 0xff, 0x5c]),
      texts: ['a"b', String.raw`c\d`, '{}'],
      uuids: ['018f0000-0000-7000-8000-000000000000'],
      ints: [1, -2],
      document: { of: ['a'] },
      amount: 9_007_199_254_740_993n,
      at: new Date('2026-11-28T00:00:00.001Z'),
      word: 't',
    };
    const insert = () => sql`
      insert into warm (yes, bytes, texts, uuids, ints, document, amount, at, word)
      values (${given.yes}, ${given.bytes}, ${given.texts}, ${given.uuids}, ${given.ints},
        ${sql.json(given.document)}, ${given.amount}, ${given.at}, ${given.word})
      returning *`;
    const [first] = await insert();
    t.same(first, given);
    for (const column of ['added', 'added_later']) {
      await admin`alter table warm add column ${admin(column)} int`;
      const [row] = await insert();
      t.match(row, given, column);
      t.ok(column.replace('_l', 'L') in (row ?? {}), 'prepared anew');
    }
    t.equal((await sql`select from warm where not yes`).length, 0);
  },
);
