// `billing sandbox` on a terminal, and interrupted: nothing that it has started is left running.
import { execFile } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import t from 'tap';
import { start } from '../fixtures/command.ts';
import { startTerminal } from '../fixtures/terminal.ts';

const run = promisify(execFile);

/** Ids of the processes that `pid` has started and that still run. */
async function childrenOf(pid: number): Promise<number[]> {
  const { stdout } = await run('ps', ['-eo', 'pid=,ppid=']);
  return stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .flatMap(([child = 0, parent]) => (parent === pid ? [child] : []));
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

void t.test(
  'on a terminal: money and webhooks as they flow, at 80x24 and 200x50; URLs and keys; the deliveries; ctrl-C stops everything',
  { timeout: 180_000 },
  async (t) => {
    const terminal = startTerminal(t, [
      'sandbox',
      '--subscribers',
      '8',
      '--periods',
      '4',
      '--seed',
      '3',
    ]);
    await terminal.waitFor(/everything is up/);
    let screen = await terminal.waitFor(/Payments +[1-9]\d* collected/);
    t.equal(terminal.buffer(), 'alternate');
    t.match(
      screen,
      /^Sandbox {3}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d on the chain +(live, as of|reading)/,
    );
    t.match(screen, /Wallets +\d+ active/);
    t.match(screen, /USDC +\d+\.\d+ = \d+\.\d+ to merchants \+ \d+\.\d+ fees/);
    t.match(
      screen,
      /\n\d\d-\d\d \d\d:\d\d {2}\S{5}…\S{4} {2}── \d+\.\d+ ──▶ .+ \d+\.\d+, fee \d+\.\d+/,
      'a payment on its way',
    );
    t.match(
      screen,
      /\n\d\d-\d\d \d\d:\d\d:\d\d {2}(payment|subscription|renewal)_\w+ +──▶ .+ 204 in \d+ ms/,
      'a webhook on its way',
    );
    t.match(screen.split('\n').at(-2), /q stop everything/);

    terminal.resize(200, 50);
    screen = await terminal.waitFor(
      /Money, by the chain's clock {10,}Webhooks, by the clock of Postgres/,
    );
    t.match(screen, /──▶ .*fee \d+\.\d+ {3,}\d\d-\d\d \d\d:\d\d:\d\d .*──▶ /, 'both side by side');
    terminal.resize(80, 24);
    await terminal.waitFor(/^Sandbox[^]*\nMoney[^]*\nWebhooks, by/);

    terminal.press('k');
    screen = await terminal.waitFor('Press Enter to go back to the screen');
    t.equal(terminal.buffer(), 'normal', 'where it can be copied');
    t.match(screen, /API key +sk_test_\w+/);
    const [, key = '', url = ''] =
      /Bearer (sk_test_\w+)" (http:\S+?\/subscriptions)/.exec(
        terminal.written().replaceAll(/\r?\n/g, ''),
      ) ?? [];
    t.equal(
      (await fetch(url, { headers: { authorization: `Bearer ${key}` } })).status,
      200,
      'and they work',
    );
    terminal.press('enter');
    await terminal.waitFor(/^Sandbox/);

    terminal.press('d');
    await terminal.waitFor(/^Deliveries +live/);
    terminal.press('enter');
    await terminal.waitFor('x-service-signature: sha256=');
    terminal.press('q');
    await terminal.waitFor(/^Sandbox/);
    await terminal.waitFor(/days of chain time in .* s: all 12 invariants hold/);

    const started = await childrenOf(terminal.pid);
    t.equal(started.length, 5, 'localnet, Postgres, serve, keeper, dispatch');
    terminal.press('ctrl-c');
    t.match(await terminal.ended, { code: 0 });
    t.equal(terminal.buffer(), 'normal');
    t.match(terminal.screen(), /Stopping\.\.\./);
    t.same(started.filter(isRunning), [], 'nothing is left');
  },
);

void t.test(
  '--once, ctrl-C in the middle of the play: one line, exit code 130, everything stopped',
  { timeout: 120_000 },
  async (t) => {
    const running = start(t, ['sandbox', '--once', '--subscribers', '8', '--periods', '40']);
    await running.line('period 1 of 40');
    const started = await childrenOf(running.child.pid ?? 0);
    t.equal(started.length, 5);
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
  'interrupted during the start, and again while it stops: no process is left',
  { timeout: 120_000 },
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
