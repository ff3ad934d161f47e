// A Postgres whose sandbox was killed.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import postgres from 'postgres';
import t, { type Test } from 'tap';
import { startEmbeddedPostgres } from '../../../src/local/sandbox/postgres.ts';
import { childrenOf, isRunning } from '../../fixtures/children.ts';
import { emptyDirectory } from '../../fixtures/directory.ts';
import { until } from '../../fixtures/webhooks.ts';

const module = new URL('../../../src/local/sandbox/postgres.ts', import.meta.url).href;

/** A process of its own that starts a server, and the ids of both and of the server's guard. */
async function startApart(t: Test, dataDir: string) {
  const code = `
    import { startEmbeddedPostgres } from ${JSON.stringify(module)};
    console.log((await startEmbeddedPostgres({ dataDir: ${JSON.stringify(dataDir)} })).url);
    setInterval(() => undefined, 1_000_000);`;
  const owner = spawn(process.execPath, ['--import=tsx', '--input-type=module', '--eval', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => owner.kill('SIGKILL'));
  const [url] = (await once(createInterface({ input: owner.stdout }), 'line')) as [string];
  const pidFile = await readFile(join(dataDir, 'cluster', 'postmaster.pid'), 'utf8');
  const server = Number.parseInt(pidFile, 10);
  const [guard = 0] = (await childrenOf(owner.pid ?? 0)).filter((pid) => pid !== server);
  return { owner, url, server, guard };
}

void t.test('a server ends when the process that started it is killed with -9', async (t) => {
  const { owner, server, guard } = await startApart(t, await emptyDirectory(t));
  t.ok(isRunning(server) && isRunning(guard));
  owner.kill('SIGKILL');
  await until(() => Promise.resolve(!isRunning(server)));
  await until(() => Promise.resolve(!isRunning(guard)));
});

void t.test(
  'an orphaned Postgres on the data is stopped first; the data of a server in use are refused',
  async (t) => {
    const dataDir = await emptyDirectory(t);
    const { owner, url, server, guard } = await startApart(t, dataDir);
    const sql = postgres(url, { max: 1, onnotice: () => undefined });
    await sql`create table kept as select 7 as n`;
    await t.rejects(startEmbeddedPostgres({ dataDir }), { message: /ended at its start/ });
    t.same(await sql`select n from kept`, [{ n: 7 }], 'it belongs to a process that runs');
    await sql.end();

    process.kill(guard, 'SIGKILL');
    owner.kill('SIGKILL');
    await once(owner, 'exit');
    t.ok(isRunning(server), 'an orphan');
    const second = await startEmbeddedPostgres({ dataDir });
    t.teardown(() => second.stop());
    t.notOk(isRunning(server));
    const again = postgres(second.url, { max: 1 });
    t.same(await again`select n from kept`, [{ n: 7 }]);
    await again.end();
  },
);

void t.test('a process that stops its server continues until it ends normally', async (t) => {
  const code = `
    import { startEmbeddedPostgres } from ${JSON.stringify(module)};
    await (await startEmbeddedPostgres()).stop();
    console.log('stopped');`;
  const owner = spawn(process.execPath, ['--import=tsx', '--input-type=module', '--eval', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  owner.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
  const [exitCode] = (await once(owner, 'close')) as [number];
  t.equal(exitCode, 0);
  t.equal(said, 'stopped\n');
});
