// `billing sandbox` interrupted: nothing that it has started is left running.
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { childrenOf, isRunning, runsBelow } from '../../fixtures/children.ts';
import { start } from '../../fixtures/command.ts';
import { startTerminal } from '../../fixtures/terminal.ts';
import { until } from '../../fixtures/webhooks.ts';

void t.test(
  'ctrl-C in the middle of sandbox --once prints one line, stops everything and exits with 130',
  async (t) => {
    const running = start(t, ['sandbox', '--once', '--subscribers', '8', '--periods', '40']);
    await running.line('period 1 of 40');
    const started = await childrenOf(running.child.pid ?? 0);
    t.equal(started.length, 6);
    running.child.kill('SIGINT');
    const { code, stderr } = await running.ended;
    t.equal(code, 130);
    t.equal(
      stderr,
      'billing: Interrupted: the scenario did not finish, and nothing was checked.\n',
    );
    t.same(started.filter(isRunning), []);
  },
);

void t.test(
  'sandbox interrupted during its start, and again while it stops, leaves no process',
  async (t) => {
    const running = start(t, ['sandbox', '--once']);
    let started: number[] = [];
    while (started.length < 2) {
      await delay(20);
      started = await childrenOf(running.child.pid ?? 0);
    }
    running.child.kill('SIGTERM');
    t.match(await running.ended, {
      code: 143,
      stdout: '',
      stderr: 'billing: Interrupted: the scenario did not finish, and nothing was checked.\n',
    });
    t.same(started.filter(isRunning), []);

    const second = start(t, ['sandbox', '--once', '--subscribers', '8', '--periods', '40']);
    await second.line('everything is up');
    started = await childrenOf(second.child.pid ?? 0);
    second.child.kill('SIGINT');
    // Two signals at once may come in either order: the second when the first has had an effect.
    while (started.every(isRunning)) await delay(5);
    second.child.kill('SIGTERM');
    t.match(await second.ended, { code: 143, stderr: /^billing: Interrupted.*\n$/ });
    // They were killed, not asked: the last may take a moment to go.
    while (started.some(isRunning)) await delay(20);
  },
);

void t.test(
  'ctrl-C while dev or sandbox runs initdb prints one line and exits with 130',
  async (t) => {
    for (const args of [['dev', '--dir', t.testdir()], ['sandbox']]) {
      // A terminal sends SIGINT to the whole process group. startTerminal() is not used, because
      // node-pty starts programs with this signal blocked, and so are the programs that they start.
      const { child, ended } = start(t, args, {}, { leads: true });
      const pid = child.pid ?? 0;
      await until(() => runsBelow(pid, 'initdb'));
      process.kill(-pid, 'SIGINT');
      t.match(
        await ended,
        { code: 130, stdout: '', stderr: /^([^\n]*\.\.\.\n)?billing: Interrupted\.\n$/ },
        args.join(' '),
      );
    }
  },
);

void t.test('closing the terminal of a running sandbox leaves no process behind', async (t) => {
  const terminal = startTerminal(t, ['sandbox', '--no-play']);
  await terminal.waitFor(/^Sandbox/);
  const started = await childrenOf(terminal.pid);
  t.equal(started.length, 6);
  terminal.hangUp();
  t.same(await terminal.ended, { code: 0, signal: 0 });
  t.same(started.filter(isRunning), []);
});
