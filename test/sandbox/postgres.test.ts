import { once } from 'node:events';
import postgres from 'postgres';
import t from 'tap';
import { startEmbeddedPostgres } from '../../src/sandbox/postgres.ts';

void t.test('a kept data directory survives kill -9: the next start has what was committed, on the same port', async (t) => {
  const dataDir = t.testdir();
  const first = await startEmbeddedPostgres({ dataDir });
  const sql = postgres(first.url, { max: 1, onnotice: () => undefined });
  await sql`create table kept (n int)`;
  await sql`insert into kept values (7)`;
  await sql.end();
  process.kill(first.pid, 'SIGKILL');
  await first.exited;

  const port = Number(new URL(first.url).port);
  const second = await startAgain(() => startEmbeddedPostgres({ dataDir, port }));
  t.teardown(() => second.stop());
  t.equal(second.url, first.url);
  const again = postgres(second.url, { max: 1 });
  t.same(await again<{ n: number }[]>`select n from kept`, [{ n: 7 }]);
  await again.end();
});

/** The killed server's children hold its shared memory for a moment. */
async function startAgain<T>(start: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await start();
    } catch (error) {
      if (attempt === 20) throw error;
      await once(AbortSignal.timeout(50), 'abort');
    }
  }
}

void t.test('a data directory that cannot be used is said in words, without a stack of ours', async (t) => {
  const dataDir = t.testdir({ cluster: { PG_VERSION: '9.1\n' }, password: 'secret' });
  await t.rejects(startEmbeddedPostgres({ dataDir }), { name: 'OperatorError', message: /ended at its start/ });
});
