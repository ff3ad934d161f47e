// A connection to Postgres may be reset or closed at any moment. Each statement then gets its own
// rows or an error, and soon (faults of postgres.js 3.4).
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { connect, type Queryable } from '../../../src/db/postgres/connect.ts';
import { isLost } from '../../../src/db/postgres/outage.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { startProxy } from '../../fixtures/proxy.ts';

const limits = { statementMs: 8000, lockMs: 4000, idleInTransactionMs: 4000, silentMs: 10_000 };

/** A pool over a wire, with TLS or without. */
async function wired(t: Test, tls: boolean, max = 1) {
  const { url } = await testDatabase(t);
  const wire = await startProxy(t, Number(new URL(url).port), tls ? { tls: 'leaf' } : {});
  const behind = new URL(url);
  behind.port = String(wire.port);
  if (tls) behind.searchParams.set('sslmode', 'require');
  const sql = connect(behind.href, { max, name: 'billing test', limits });
  t.teardown(() => sql.end({ timeout: 0 }));
  return { sql, wire };
}

const numbered = async (sql: Queryable, n: number) => {
  const [row] = await sql<{ n: number }[]>`select ${n}::int as n`;
  return row?.n;
};

for (const tls of [false, true]) {
  const over = tls ? 'over TLS' : 'over TCP';

  void t.test(
    `after a connection reset during a statement, later statements get the right rows, ${over}`,
    async (t) => {
      const { sql, wire } = await wired(t, tls);
      await numbered(sql, 0);
      for (let round = 0; round < 3; round += 1) {
        setTimeout(() => wire.reset(), 20);
        await t.rejects(Promise.resolve(sql`select pg_sleep(5)`), { code: 'CONNECTION_CLOSED' });
        const answers = [1, 2, 3, 4, 5].map((n) => numbered(sql, n));
        t.same(await Promise.all(answers), [1, 2, 3, 4, 5]);
      }
      t.equal(wire.connections, 4);
    },
  );

  void t.test(
    `after a connection reset during a transaction, the pool connects again, ${over}`,
    async (t) => {
      const { sql, wire } = await wired(t, tls);
      for (let round = 0; round < 3; round += 1) {
        const error: unknown = await sql
          .begin(async (tx) => {
            await tx`select 1`;
            setTimeout(() => wire.reset(), 20);
            await tx`select pg_sleep(5)`;
          })
          .catch((thrown: unknown) => thrown);
        t.ok(isLost(error), String(error));
        t.equal(await numbered(sql, round), round);
      }
    },
  );

  void t.test(
    `after a socket write is lost with its connection, later statements work, ${over}`,
    async (t) => {
      const { sql, wire } = await wired(t, tls);
      for (let round = 0; round < 3; round += 1) {
        // Written in the last phase of a turn, in which the connection closes.
        const lost = sql.begin(async (tx) => {
          await tx`select 1`;
          await new Promise(setImmediate);
          wire.reset();
          await new Promise(setImmediate);
          await tx`select 2`;
        });
        await t.rejects(lost);
        t.equal(await numbered(sql, round), round);
      }
    },
  );

  void t.test(
    `each statement gets its own rows or an error while connections are reset repeatedly, ${over}`,
    async (t) => {
      const { sql, wire } = await wired(t, tls, 4);
      let isOver = false;
      let right = 0;
      let lost = 0;
      const wrong: unknown[] = [];
      const work = async (worker: number) => {
        for (let k = 0; !isOver; k += 1) {
          const n = worker * 1_000_000 + k;
          const inTransaction = k % 3 === 0;
          try {
            const got = inTransaction
              ? await sql.begin(async (tx) => {
                  await tx`select 1`;
                  return numbered(tx, n);
                })
              : await numbered(sql, n);
            if (got === n) right += 1;
            else wrong.push([n, got]);
          } catch (error) {
            if (isLost(error)) lost += 1;
            else wrong.push(error);
          }
        }
      };
      const workers = Array.from({ length: 12 }, (_, worker) => work(worker));
      for (let round = 0; round < 60; round += 1) {
        await delay(Math.random() * 30);
        const before = right;
        if (round % 4 === 3) {
          wire.cut();
          wire.restore();
        } else wire.reset();
        while (right < before + 5) await delay(2);
      }
      isOver = true;
      await Promise.all(workers);
      t.same(wrong, []);
      t.ok(lost > 0, `${right} right, ${lost} lost`);
    },
  );
}

void t.test(
  'a statement of a transaction whose connection was closed is not sent over the next one',
  async (t) => {
    const { sql, wire } = await wired(t, false);
    await sql`create table sent (n int)`;
    const late: unknown[] = [];
    const lost = sql.begin(async (tx) => {
      await tx`insert into sent values (1)`;
      wire.reset();
      await delay(50);
      await numbered(sql, 1);
      for (let n = 2; n < 4; n += 1)
        late.push(await tx`insert into sent values (${n})`.catch((error: unknown) => error));
    });
    await t.rejects(lost, { code: 'CONNECTION_CLOSED' });
    while (late.length < 2) await delay(5);
    t.match(late, [{ code: 'CONNECTION_CLOSED' }, { code: 'CONNECTION_CLOSED' }]);
    t.same(await sql`select n from sent`, []);
  },
);

void t.test(
  'if the server closes each connection at once, statements fail and reconnects pause in between',
  async (t) => {
    for (const [how, close] of Object.entries<(socket: Socket) => void>({
      'without a word': (socket) => socket.end(),
      'after the greeting': (socket) => socket.once('data', () => socket.end()),
    })) {
      let connections = 0;
      const server = createServer((socket) => {
        connections += 1;
        socket.on('error', () => undefined);
        close(socket);
      }).listen(0, '127.0.0.1');
      await once(server, 'listening');
      t.teardown(() => server.close());
      const { port } = server.address() as AddressInfo;
      const sql = connect(`postgres://postgres@127.0.0.1:${port}/none`, {
        max: 1,
        name: 'billing test',
      });
      t.teardown(() => sql.end({ timeout: 0 }));
      for (let n = 1; n < 4; n += 1) {
        const error: unknown = await sql`select 1`.catch((thrown: unknown) => thrown);
        t.match(error, { code: 'ECONNRESET', message: /closed before Postgres answered/ }, how);
        t.equal(connections, n);
      }
    }
  },
);

void t.test('server certificates are verified as libpq verifies them', async (t) => {
  const { url } = await testDatabase(t);
  const start = (tls: 'leaf' | 'localhost') => startProxy(t, Number(new URL(url).port), { tls });
  const [wire, local] = [await start('leaf'), await start('localhost')];
  const file = (name: string) =>
    fileURLToPath(new URL(`../../fixtures/tls/${name}`, import.meta.url));
  const asked = (query: string, host = 'localhost', { port } = wire) => {
    const { username, password, pathname } = new URL(url);
    const at = `postgres://${username}:${password}@${host}:${port}${pathname}?${query}`;
    const sql = connect(at, { max: 1, name: 'billing test' });
    t.teardown(() => sql.end({ timeout: 0 }));
    return numbered(sql, 1).catch((error: unknown) => error);
  };
  const trusted = `sslrootcert=${file('ca.pem')}`;
  const named = `sslmode=verify-full&sslrootcert=${file('localhost.pem')}`;
  t.equal(await asked(named, 'localhost', local), 1, 'the name of the certificate');
  t.match(await asked(`sslmode=verify-full&${trusted}`), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
  t.match(await asked(`sslmode=verify-full&${trusted}`, '127.0.0.1'), {
    code: 'ERR_TLS_CERT_ALTNAME_INVALID',
  });
  for (const mode of ['verify-ca', 'require']) {
    t.equal(await asked(`sslmode=${mode}&${trusted}`), 1, `${mode}: any name`);
    t.match(await asked(`sslmode=${mode}&sslrootcert=${file('root.pem')}`), {
      code: /UNABLE_TO_VERIFY|SELF_SIGNED|UNABLE_TO_GET/,
    });
  }
  t.throws(() => asked('sslmode=verify-full&sslrootcert=/none'), {
    exitCode: 2,
    message: /The file of sslrootcert in DATABASE_URL cannot be read: ENOENT/,
  });
});

void t.test('each sslmode has the same effect as in postgres.js', async (t) => {
  const { url } = await testDatabase(t);
  const wire = await startProxy(t, Number(new URL(url).port), { tls: 'leaf' });
  const asked = async (port: number, sslmode: string) => {
    const at = new URL(url);
    at.port = String(port);
    at.searchParams.set('sslmode', sslmode);
    const sql = connect(at.href, { max: 1, name: 'billing test' });
    t.teardown(() => sql.end({ timeout: 0 }));
    return numbered(sql, 1).catch((error: unknown) => error);
  };
  const plain = Number(new URL(url).port);
  t.equal(await asked(wire.port, 'require'), 1, 'any certificate');
  t.match(await asked(wire.port, 'verify-full'), { code: /UNABLE_TO_VERIFY|SELF_SIGNED/ });
  t.equal(await asked(plain, 'prefer'), 1, 'a server without TLS');
  t.match(await asked(plain, 'require'), { message: /offers no TLS, and sslmode is require/ });
  t.equal(await asked(plain, 'disable'), 1);
});
