// The primary of a URL with two hosts dies or freezes, and its standby is promoted: the daemons go
// on by themselves.
import { readFile } from 'node:fs/promises';
import t, { type Test } from 'tap';
import { connect } from '../../src/db/postgres/connect.ts';
import { migrate } from '../../src/db/postgres/migrate.ts';
import { childrenOf } from '../fixtures/children.ts';
import { daemonEnv, daemons, startReady } from '../fixtures/daemons.ts';
import { makeTestRoles } from '../fixtures/postgres.ts';
import { type Replicated, startReplicated } from '../fixtures/replicated-postgres.ts';
import { until } from '../fixtures/webhooks.ts';

/** Waits until the standby has replayed all that the primary has written. */
async function replayed({ primary, standby }: Replicated): Promise<void> {
  const [written] = await primary.sql<[{ lsn: string }]>`select pg_current_wal_lsn() as lsn`;
  await until(
    async () =>
      (await standby.sql`select where pg_last_wal_replay_lsn() >= ${written.lsn}::pg_lsn`).length >
      0,
  );
}

/** Creates a migrated database, and returns its URL with both hosts. */
async function bothHosts(pair: Replicated): Promise<string> {
  const { primary, standby, password } = pair;
  await primary.sql`create database billing`;
  await makeTestRoles(primary.sql);
  // A standby that lacks the database refuses the connection, which ends the search for a primary.
  await replayed(pair);
  const credentials = `postgres:${password}`;
  const url = `postgres://${credentials}@127.0.0.1:${standby.port},127.0.0.1:${primary.port}/billing`;
  const sql = connect(url, { max: 1, name: 'billing test' });
  await migrate(sql);
  await sql.end();
  return url;
}

/** Stops the server and all its sessions in their tracks; the kernel still takes connections. */
async function freeze(t: Test, { cluster }: Replicated['primary']): Promise<void> {
  const [postmaster = ''] = (await readFile(`${cluster}/postmaster.pid`, 'utf8')).split('\n');
  const children = await childrenOf(Number(postmaster));
  const all = [Number(postmaster), ...children];
  for (const pid of all) process.kill(pid, 'SIGSTOP');
  t.teardown(() => {
    for (const pid of children) process.kill(pid, 'SIGKILL');
  });
}

const faults = {
  dies: (_t: Test, { primary }: Replicated) => {
    primary.kill();
    return primary.exited;
  },
  freezes: (t: Test, { primary }: Replicated) => freeze(t, primary),
};

for (const [fault, begin] of Object.entries(faults)) {
  void t.test(`the daemons continue after the Postgres primary ${fault}`, async (t) => {
    const pair = await startReplicated(t);
    const { standby } = pair;
    const env = await daemonEnv(t, await bothHosts(pair));
    const running = await Promise.all(daemons.map((daemon) => startReady(t, daemon, env)));
    const areReady = async () => {
      const answers = await Promise.all(
        running.map(({ metricsUrl }) => fetch(`${metricsUrl}/readyz`).then(({ ok }) => ok)),
      );
      return answers;
    };
    await replayed(pair);
    await begin(t, pair);
    await until(async () => (await areReady()).every((isReady) => !isReady));
    await standby.sql`select pg_promote()`;
    await until(async () => (await areReady()).every((isReady) => isReady));
    const { address } = JSON.parse((await running[0]?.line(/"address":.*"listening"/)) ?? '') as {
      address: string;
    };
    const asked = await fetch(`${address}/auth/nonce`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ wallet: env.KEEPER_ADDRESS }),
    });
    t.ok(asked.ok, 'the promoted server takes writes');
    for (const { child, ended } of running) {
      child.kill('SIGTERM');
      t.match(await ended, { code: 0 });
    }
  });
}
