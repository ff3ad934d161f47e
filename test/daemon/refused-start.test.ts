// A daemon that refuses to start after its loops began stops them, and logs nothing of Postgres.
import t from 'tap';
import { run } from '../fixtures/command.ts';
import { daemonEnv, daemons } from '../fixtures/daemons.ts';
import { testDatabase } from '../fixtures/postgres.ts';

void t.test(
  'a metrics address that cannot be used ends the daemon with one line and is not treated as an outage',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const env = { ...(await daemonEnv(t, url)), HOST: '127.0.0.1', METRICS_HOST: '203.0.113.9' };
    for (const name of daemons) {
      const { code, stdout, stderr } = await run(t, [name], env);
      t.equal(code, 1, name);
      const [line = '', ...rest] = stderr.trim().split('\n');
      t.match(line, /^billing: The metrics cannot be served on 203\.0\.113\.9:0: .*EADDRNOTAVAIL/);
      t.match(line, /Set METRICS_HOST or METRICS_PORT\.$/);
      t.same(rest, []);
      const lines = stdout.split('\n').filter((line) => line !== '');
      t.same(
        lines.filter((line) => (JSON.parse(line) as { level: number }).level > 30),
        [],
        name,
      );
    }
    const running = await sql`select name from daemons where stopped_at is null`;
    t.same([...running], [], 'each has recorded its stop');
  },
);
