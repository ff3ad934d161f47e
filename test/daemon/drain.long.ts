// SIGTERM to serve behind a load balancer: readiness first, then the listener, then the requests in
// hand.
import { Agent, get, request } from 'node:http';
import t from 'tap';
import { readRelease } from '../../src/config/release.ts';
import { connect } from '../../src/db/postgres/connect.ts';
import { knownSchema } from '../../src/db/postgres/migration-files.ts';
import { daemonEnv, startReady } from '../fixtures/daemons.ts';
import { until } from '../fixtures/webhooks.ts';

interface Answer {
  status: number;
  connection: string | undefined;
}

/** Over a new connection, unless an agent keeps them. */
const ask = (url: string, agent: Agent | false = false): Promise<Answer> =>
  new Promise((resolve, reject) => {
    get(url, { agent }, (response) => {
      response.resume().on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          connection: response.headers.connection,
        }),
      );
    }).on('error', reject);
  });

const timeOf = (line: string) => Date.parse((JSON.parse(line) as { time: string }).time);

void t.test(
  'during SHUTDOWN_DELAY serve reports not ready and still answers requests',
  async (t) => {
    const env: Record<string, string> = { ...(await daemonEnv(t)), SHUTDOWN_DELAY: '4' };
    const serve = await startReady(t, 'serve', env);
    const { address } = JSON.parse(await serve.line(/"address":.*"listening"/)) as {
      address: string;
    };
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    t.match(await ask(`${address}/readyz`, agent), { status: 200, connection: 'keep-alive' });

    const sql = connect(env.DATABASE_URL ?? '', { max: 2, name: 'billing test' });
    t.teardown(() => sql.end());
    const holder = await sql.reserve();
    await holder`begin`;
    await holder`lock table auth_nonces in exclusive mode`;

    serve.child.kill('SIGTERM');
    await serve.line('requests are still answered');
    // The answer of a moment ago is not repeated.
    t.match(await ask(`${address}/readyz`, agent), { status: 503, connection: 'close' });
    t.match(await ask(`${address}/readyz`), { status: 503 });
    t.match(await ask(`${serve.metricsUrl}/readyz`), { status: 503 });
    t.match(await ask(`${address}/healthz`), { status: 200 }, 'but alive');
    const reported = await sql<Record<string, unknown>[]>`
    select trouble, release, schema_version from daemons`;
    t.same(
      reported,
      [{ trouble: null, release: readRelease(), schemaVersion: await knownSchema() }],
      'and no problem, with its release and schema',
    );

    // Without an end until the listener is closed.
    let answered = 0;
    let wrong: Answer | undefined;
    const hammer = async () => {
      for (;;) {
        const answer = await ask(`${address}/healthz`).catch(() => undefined);
        if (answer === undefined) return Date.now();
        answered += 1;
        if (answer.status !== 200) wrong = answer;
      }
    };
    const hammering = [hammer(), hammer()];
    const inHand = new Promise<number | undefined>((resolve, reject) => {
      request(
        `${address}/auth/nonce`,
        { method: 'POST', agent: false, headers: { 'content-type': 'application/json' } },
        (response) => {
          response.resume();
          resolve(response.statusCode);
        },
      )
        .on('error', reject)
        .end(JSON.stringify({ wallet: env.KEEPER_ADDRESS }));
    });
    await until(
      async () =>
        (
          await sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
        ).length > 0,
    );
    const closing = timeOf(await serve.line('stopping; no new work is taken'));
    const refused = await Promise.all(hammering);
    t.ok(answered > 0);
    t.equal(wrong, undefined);
    for (const at of refused) t.ok(at >= closing, 'refused only after the delay');

    await holder`commit`;
    holder.release();
    t.match(await inHand, 200, 'a request in hand is answered');
    t.match(await serve.ended, { code: 0 });
  },
);

void t.test('a keeper and a dispatcher do not wait for clients', async (t) => {
  const env = { ...(await daemonEnv(t)), SHUTDOWN_DELAY: '120' };
  for (const daemon of ['keeper', 'dispatch'] as const) {
    const running = await startReady(t, daemon, env);
    running.child.kill('SIGTERM');
    const { code, stdout } = await running.ended;
    t.equal(code, 0);
    t.match(stdout, /no new work is taken/);
    t.notMatch(stdout, /still answered/);
  }
});
