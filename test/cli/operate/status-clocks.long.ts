// The clocks of Postgres, the host and the chain in billing status and in the daemons' metrics.
import t, { type Test } from 'tap';
import { CLUSTERS } from '../../../src/chain/clusters.ts';
import type { Sql } from '../../../src/db/postgres/connect.ts';
import { connect } from '../../../src/db/postgres/connect.ts';
import { startRewritingEndpoint } from '../../fixtures/bad-endpoint.ts';
import { preload, run } from '../../fixtures/command.ts';
import { daemonEnv, startReady } from '../../fixtures/daemons.ts';
import { startTestChain } from '../../fixtures/localnet.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { until } from '../../fixtures/webhooks.ts';

/** Moves the clock of this database: other functions take the names of Postgres's own. */
async function moveClock(sql: Sql, seconds: number) {
  for (const clock of ['clock_timestamp', 'now']) {
    const [real] = await sql`select to_regproc(${`pg_catalog.real_${clock}`}) as name`;
    if (real?.name === null)
      await sql.unsafe(`alter function pg_catalog.${clock}() rename to real_${clock}`);
    await sql.unsafe(
      `create or replace function public.${clock}() returns timestamptz language sql
        as $$ select pg_catalog.real_${clock}() + interval '${seconds} seconds' $$`,
    );
  }
}

/** Moves the host's clock of a process. */
const hostAt = (seconds: number) => ({
  NODE_OPTIONS: preload(`const now = Date.now; Date.now = () => now() + ${seconds * 1000};`),
});

async function scene(t: Test) {
  const [{ sql, url }, chain] = await Promise.all([testDatabase(t), startTestChain(t)]);
  const proxy = await startRewritingEndpoint(chain.rpcUrl, (method, _params, result) =>
    method === 'getGenesisHash' ? CLUSTERS.devnet.genesisHash : result,
  );
  t.teardown(() => proxy.close());
  const env = { DATABASE_URL: url, SOLANA_RPC_URL: proxy.url, SOLANA_CLUSTER: 'devnet' };
  const status = async (more: Record<string, string> = {}) => {
    const told = await run(t, ['status', '--json'], { ...env, ...more });
    return { code: told.code, ...(JSON.parse(told.stdout) as { problems: string[] }) };
  };
  return { sql, env, chain, status };
}

void t.test(
  'status shows clocks that differ by over 30 s, and reports a problem over 240 s',
  async (t) => {
    const { sql, env, status } = await scene(t);
    for (const seconds of [0, 15]) {
      await moveClock(sql, seconds);
      t.notMatch((await run(t, ['status'], env)).stdout, /Clocks/, `${seconds} s`);
    }
    await moveClock(sql, 45);
    const shown = await run(t, ['status'], env);
    t.match(shown, {
      code: 0,
      stdout:
        /Clocks +the clock of Postgres is wrong: \d+ s ahead of this host's clock and the chain's clock/,
    });
    t.ok(shown.stdout.split('\n').length <= 24);
    await moveClock(sql, 220);
    t.match(await status(), { code: 0, problems: [] }, '220 s');
    await moveClock(sql, 260);
    t.match(await status(), {
      code: 1,
      problems: [/^the clock of Postgres is wrong: 4 min ahead/],
    });
    await moveClock(sql, 600);
    t.match(await status(), {
      code: 1,
      problems: [
        /^the clock of Postgres is wrong: (9|10) min ahead of this host's clock and the chain's clock, which agree; the limit is 4 min$/,
      ],
    });
    await moveClock(sql, -600);
    t.match(await status(), { code: 1, problems: [/^the clock of Postgres is wrong: .* behind/] });
  },
);

void t.test('an endpoint of a wrong host or chain is named once', async (t) => {
  const { chain, env, status } = await scene(t);
  t.match(await status(hostAt(-600)), {
    code: 1,
    problems: [
      /^this host's clock is wrong: (9|10) min behind the clock of Postgres and the chain's clock, which agree; the limit is 4 min$/,
    ],
  });
  t.match(await status({ ...hostAt(600), SOLANA_RPC_URL: '' }), {
    code: 1,
    problems: [
      /^the clock of Postgres and this host's clock differ by (9|10) min; which one is wrong is not known; the limit is 4 min$/,
    ],
  });
  chain.passSeconds(600);
  t.match(await status(), {
    code: 1,
    problems: [/^the chain's clock is wrong: (9|10) min ahead of the clock of Postgres and this/],
  });
  t.match(
    await status({ SOLANA_RPC_URL: chain.rpcUrl, SOLANA_CLUSTER: 'localnet' }),
    { code: 0, problems: [] },
    'the time of a local chain jumps',
  );
  t.match(await status({ ...env, ...hostAt(600) }), {
    code: 1,
    problems: [/^the clock of Postgres is wrong: .* behind this host's clock and the chain's/],
  });
});

void t.test('a chain clock behind the two others is reported as one problem', async (t) => {
  const { sql, status } = await scene(t);
  await moveClock(sql, 600);
  t.match(await status(hostAt(600)), {
    code: 1,
    problems: [/^the chain's clock, as the RPC endpoints have it, has been behind for (9|10) min/],
  });
});

void t.test('the daemons measure the difference between the clocks', async (t) => {
  const env = await daemonEnv(t);
  const url = env.DATABASE_URL ?? '';
  const sql = connect(url, { max: 1, name: 'billing test' });
  await moveClock(sql, 600);
  await sql.end();
  const { metricsUrl } = await startReady(t, 'dispatch', env);
  const difference = async () => {
    const text = await (await fetch(`${metricsUrl}/metrics`)).text();
    return Number(
      /^billing_clock_difference_seconds\{clock="unknown".*\} (\S+)$/m.exec(text)?.[1] ?? 0,
    );
  };
  await until(async () => (await difference()) > 0);
  t.ok(Math.abs((await difference()) - 600) < 60);
});
