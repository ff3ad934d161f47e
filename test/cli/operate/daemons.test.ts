// The command line of the daemons; their start and end: test/cli.test.ts.
import { join } from 'node:path';
import t from 'tap';
import { run } from '../../fixtures/command.ts';
import { daemonEnv, daemons, startReady } from '../../fixtures/daemons.ts';
import { startProxy } from '../../fixtures/proxy.ts';

void t.test(
  'serve, keeper, dispatch and migrate read the file of --env-file; the environment comes first',
  async (t) => {
    const file = join(t.testdir({ '.env': 'DATABASE_POOL=many\nPORT=many\n' }), '.env');
    await Promise.all(
      ['serve', 'keeper', 'dispatch', 'migrate'].map(async (command) => {
        const outcome = await run(t, [command, '--env-file', file], { PORT: '3000' });
        t.match(outcome, { code: 2, stdout: '' }, command);
        t.match(outcome.stderr, /DATABASE_POOL must be a whole number from 2 to 1000\./);
        t.notMatch(outcome.stderr, / PORT /);
      }),
    );
  },
);

void t.test(
  'every session of the daemons disables sequential scans, because cached plans outlive their statistics',
  async (t) => {
    const env = await daemonEnv(t);
    for (const daemon of daemons) {
      const url = new URL(env.DATABASE_URL ?? '');
      const wire = await startProxy(t, Number(url.port));
      url.port = String(wire.port);
      const running = await startReady(t, daemon, { ...env, DATABASE_URL: url.href });
      t.ok(wire.greetings.length > 0, daemon);
      const settings = wire.greetings.map((greeting) => {
        // Names and values, each ended by a zero (PostgreSQL, Message Formats, StartupMessage).
        const words = greeting.toString().split('\0');
        return ['enable_seqscan', 'jit'].map((name) => words[words.indexOf(name) + 1]);
      });
      t.same(new Set(settings.map(String)), new Set(['off,off']), daemon);
      running.child.kill('SIGTERM');
      t.match(await running.ended, { code: 0 }, daemon);
    }
  },
);
