// What runs all the time, as far as the command line goes; how the daemons start and end: test/cli.test.ts.
import { join } from 'node:path';
import t from 'tap';
import { run } from '../fixtures/command.ts';

void t.test('each reads the file that --env-file names, and the environment before it', async (t) => {
  const file = join(t.testdir({ '.env': 'DATABASE_POOL=many\nPORT=many\n' }), '.env');
  await Promise.all(
    ['serve', 'keeper', 'dispatch', 'migrate'].map(async (command) => {
      const outcome = await run(t, [command, '--env-file', file], { PORT: '3000' });
      t.match(outcome, { code: 2, stdout: '' }, command);
      t.match(outcome.stderr, /DATABASE_POOL must be a whole number from 2 to 1000\./);
      t.notMatch(outcome.stderr, / PORT /);
    }),
  );
});
