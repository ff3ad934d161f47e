import { setTimeout as delay } from 'node:timers/promises';
import postgres from 'postgres';
import t from 'tap';
import { startEmbeddedPostgres } from '../../../src/local/sandbox/postgres.ts';
import { keepPostgres } from '../../../src/local/sandbox/processes.ts';
import { emptyDirectory } from '../../fixtures/directory.ts';

void t.test(
  'a data directory survives kill -9: the next start has all committed rows, on the same port',
  async (t) => {
    const dataDir = await emptyDirectory(t);
    const first = await startEmbeddedPostgres({ dataDir });
    const sql = postgres(first.url, { max: 1, onnotice: () => undefined });
    await sql`create table kept (n int)`;
    await sql`insert into kept values (7)`;
    await sql.end();
    first.kill();
    await first.exited;

    const port = Number(new URL(first.url).port);
    const second = await startAgain(() => startEmbeddedPostgres({ dataDir, port }));
    t.teardown(() => second.stop());
    t.equal(second.url, first.url);
    const again = postgres(second.url, { max: 1 });
    t.same(await again<{ n: number }[]>`select n from kept`, [{ n: 7 }]);
    await again.end();
  },
);

void t.test(
  'a supervised server restarts after every kill, also during a restart, and stays down once stopped',
  async (t) => {
    const kept = await keepPostgres(await emptyDirectory(t));
    kept.kill();
    kept.kill();
    const answers = async () => {
      const sql = postgres(kept.url, { max: 1, onnotice: () => undefined });
      try {
        return await sql`select 1 as n`;
      } finally {
        await sql.end();
      }
    };
    t.same(await startAgain(answers), [{ n: 1 }]);
    kept.kill();
    await kept.stop();
    await t.rejects(answers(), { code: 'ECONNREFUSED' });
  },
);

/** Tries until it starts: the killed server's children hold its shared memory for a moment. */
async function startAgain<T>(start: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await start();
    } catch {
      await delay(50);
    }
  }
}

void t.test('an unusable data directory is an error message without a stack trace', async (t) => {
  const dataDir = t.testdir({ cluster: { PG_VERSION: '9.1\n' }, password: 'secret' });
  await t.rejects(startEmbeddedPostgres({ dataDir }), {
    name: 'OperatorError',
    message: /ended at its start/,
  });
});
