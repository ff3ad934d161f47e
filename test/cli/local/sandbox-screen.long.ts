// `billing sandbox` on a terminal. Interrupted: sandbox.long.ts.
import t from 'tap';
import { childrenOf, isRunning } from '../../fixtures/children.ts';
import { call } from '../../fixtures/localnet.ts';
import { startTerminal } from '../../fixtures/terminal.ts';
import { until } from '../../fixtures/webhooks.ts';

void t.test(
  'sandbox on a terminal shows payments, webhooks, URLs and deliveries at two sizes; ctrl-C stops it',
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
    t.match(screen, /Payers +\d+ active/);
    const [, page = ''] = /^Subscribe +(http:\S+\/subscribe)$/m.exec(screen) ?? [];
    t.match(screen, /^Account .*\nDashboard .*\nWallets +--write-wallets DIR/m);
    t.ok(terminal.written().includes(`\u001b]8;;${page}\u0007`), 'clickable');
    const led = await fetch(page, { redirect: 'manual' });
    t.match(led.headers.get('location'), /^http:\S+\/s\/[0-9a-f-]{36}#demo=\w+$/);
    t.match(screen, /USDC +\d+\.\d+ = \d+\.\d+ to merchants \+ \d+\.\d+ fees/);
    t.ok(
      await terminal.waitFor(
        /\n\d\d-\d\d \d\d:\d\d {2}\S{5}…\S{4} {2}── \d+\.\d+ ──▶ .+ \d+\.\d+, fee \d+\.\d+/,
      ),
      'a payment on its way',
    );
    t.ok(
      await terminal.waitFor(
        /\n\d\d-\d\d \d\d:\d\d:\d\d {2}(payment|subscription|renewal)_\w+ +──▶ .+ 204 in \d+ ms/,
      ),
      'a webhook on its way',
    );
    t.match(screen.split('\n').at(-2), /q stop everything/);

    terminal.resize(200, 50);
    await terminal.waitFor(/Money, by the chain's clock {10,}Webhooks, by the clock of Postgres/);
    t.ok(
      await terminal.waitFor(/──▶ .*fee \d+\.\d+ {3,}\d\d-\d\d \d\d:\d\d:\d\d .*──▶ /),
      'both side by side',
    );
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

    await t.test('after the simulated time the sandbox’s chain runs in real time', async (t) => {
      const [, rpcUrl = ''] = /chain +(http:\S+)/.exec(terminal.written()) ?? [];
      const confirmed = { commitment: 'confirmed' };
      const blocks = () => call<number>(rpcUrl, 'getBlockHeight', confirmed);
      const time = async () =>
        call<number>(rpcUrl, 'getBlockTime', await call(rpcUrl, 'getSlot', confirmed));
      const [height, from] = [await blocks(), await time()];
      await until(async () => (await blocks()) >= height + 11);
      t.ok((await time()) - from >= 3, 'ten blocks take 4 s');
    });

    const started = await childrenOf(terminal.pid);
    t.equal(started.length, 6, 'localnet, Postgres and its guard, serve, keeper, dispatch');
    terminal.press('ctrl-c');
    t.match(await terminal.ended, { code: 0 });
    t.equal(terminal.buffer(), 'normal');
    t.match(terminal.screen(), /Stopping\.\.\./);
    t.same(started.filter(isRunning), [], 'nothing is left');
  },
);
