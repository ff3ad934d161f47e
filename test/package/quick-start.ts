// docs/quick-start.md from a clean clone, with what `npm ci` installs from the registry.
// test/docs/quick-start.test.ts says more about the result.
import t from 'tap';
import { runQuickStart } from '../fixtures/quick-start.ts';

void t.test('a newcomer has a paid subscription after six commands', async (t) => {
  const { code, stdout, commands } = await runQuickStart(t, { install: true });
  t.equal(code, 0, stdout);
  t.equal(commands.length, 6);
  t.match(stdout, /^payment_success /m);
});
