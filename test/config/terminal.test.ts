import t from 'tap';
import { noColour, prepareTerminal } from '../../src/config/terminal.ts';

void t.test('NO_COLOR turns colour off unless it is empty', (t) => {
  t.same([{}, { NO_COLOR: '' }, { NO_COLOR: '0' }, { NO_COLOR: '1' }].map(noColour), [
    false,
    false,
    true,
    true,
  ]);
  t.end();
});

void t.test('variables that React, ink and chalk read are set before they are loaded', (t) => {
  const env: Record<string, string | undefined> = {
    TERM: 'xterm',
    CI: 'true',
    CONTINUOUS_INTEGRATION: '1',
    NO_COLOR: '1',
  };
  t.equal(prepareTerminal(env), true);
  t.same(env, { TERM: 'xterm', NODE_ENV: 'production', NO_COLOR: '1', FORCE_COLOR: '0' });
  const chosen = { NODE_ENV: 'development' };
  t.equal(prepareTerminal(chosen), true);
  t.same(chosen, { NODE_ENV: 'development' }, 'what is chosen stays, and colour is left to chalk');
  t.equal(prepareTerminal({ TERM: 'dumb' }), false, 'a terminal that cannot be drawn on');
  t.end();
});
