// Every command of docs/walk-through.md, in order, in a shell, against serve, keeper and dispatch
// on a database and a chain of their own.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { freePorts } from '../../src/local/sandbox/ports.ts';
import { blockOf, blocksOf, readPage } from '../fixtures/pages.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { startChainServe } from '../fixtures/serve.ts';

void t.test('every step of the walk-through works', async (t) => {
  // The service has the name under which the shell reaches it, so that sign-ins are signed.
  const [own = 0] = await freePorts(1);
  const named = { PORT: String(own), PUBLIC_URL: `http://127.0.0.1:${own}` };
  const { chain, served } = await startChainServe(t, named);
  const [keeper, dispatch] = [served.daemon('keeper'), served.daemon('dispatch')];
  await Promise.all([keeper.line('keeper is running'), dispatch.line('dispatch is running')]);
  // A recording proxy between the service and the page's receiver.
  const [port = 0] = await freePorts(1);
  const receiver = await startReceiver(t, (response, { body, headers }) => {
    const { 'x-service-signature': signature, 'x-service-timestamp': timestamp } = headers;
    const forwarded = fetch(`http://127.0.0.1:${port}/`, {
      method: 'POST',
      headers: {
        'x-service-signature': String(signature),
        'x-service-timestamp': String(timestamp),
      },
      body: new Uint8Array(body),
    });
    void forwarded.then(({ status }) => response.writeHead(status).end());
  });
  const dir = t.testdir();
  for (const name of ['merchant', 'subscriber']) {
    await writeFile(
      join(dir, `${name}.json`),
      JSON.stringify([...chain.wallet().keypair.secretKey]),
      { mode: 0o600 },
    );
  }
  const program = fileURLToPath(new URL('../../bin/billing.js', import.meta.url));
  await writeFile(
    join(dir, 'billing'),
    `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`,
    {
      mode: 0o755,
    },
  );
  const blocks = await blocksOf('walk-through.md');
  for (const { name, code } of blocks)
    if (name !== undefined) await writeFile(join(dir, name), code);
  const commands = blocks.flatMap(({ language, name, code }) =>
    language === 'sh' && name === undefined ? [code] : [],
  );
  t.ok(commands.length >= 10);
  await writeFile(
    join(dir, 'all.sh'),
    [...commands, 'echo "secret $WEBHOOK_SECRET"'].join('\necho "== done"\n'),
  );

  const shell = spawn('bash', ['-euo', 'pipefail', 'all.sh'], {
    cwd: dir,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
    env: {
      PATH: `${dir}:${process.env.PATH ?? ''}`,
      HOME: dir,
      API: served.url,
      RPC: chain.rpcUrl,
      HOOK: receiver.url,
      PORT: String(port),
    },
  });
  // The receiver outlives the shell.
  t.teardown(() => shell.pid !== undefined && process.kill(-shell.pid, 'SIGKILL'));
  const [stdout, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr)]);
  const shown = [
    `Signing in to ${served.url} as a merchant\\.`,
    'The transaction of the wallet \\w+',
    '- pays a network fee of [\\d.]+ SOL at most',
    '- opens the token account \\w+ of .*',
    '- publishes the plan \\w+ of \\w+: 10\\.00 USDC of the local chain every 730 hours, .*',
    `Signing in to ${served.url} as a subscriber\\.`,
    'The transaction of the wallet \\w+',
    '- pays a network fee of [\\d.]+ SOL at most',
    '- approves the Subscriptions program to collect USDC of the local chain of .*',
    '- subscribes \\w+ to the plan \\w+ of the merchant \\w+: 10\\.00 USDC .* every 730 hours',
  ];
  t.match(stderr, new RegExp(`^${shown.join('\n')}\n$`));
  t.equal(stdout.split('== done').length - 1, commands.length, stdout);

  const [payment] =
    await served.sql`select status, amount_gross, platform_fee, amount_net from payments`;
  t.match(payment, {
    status: 'succeeded',
    amountGross: 10_000_000n,
    platformFee: 100_000n,
    amountNet: 9_900_000n,
  });
  t.match(stdout, /"paidThrough": "\d{4}-/);
  t.match(stdout, /"cancelRequestedBy": "merchant"/);
  t.match((await served.sql`select revoked_at from api_keys`)[0], { revokedAt: Date });

  const secret = /^secret (whsec_\S+)$/m.exec(stdout)?.[1] ?? '';
  const events = receiver.requests.map(({ body, headers, at }) => {
    // The clock of the arrival, because the request is too old five minutes later.
    const clock = t.intercept(Date, 'now', { value: () => at });
    const event = new Webhook(secret).verify(body.toString(), headers as Record<string, string>);
    clock.restore();
    return event as { id: string; type: string };
  });
  const types = events.map(({ type }) => type);
  for (const type of ['ping', 'subscription_created', 'payment_success'])
    t.ok(types.includes(type), type);
  const taken = await readFile(join(dir, 'received.log'), 'utf8');
  for (const type of ['ping', 'subscription_created', 'payment_success'])
    t.match(taken, new RegExp(`^${type} `, 'm'), 'the receiver of the page took it');
});

void t.test(
  'the shell that the walk-through’s sandbox opens has every variable that its commands need',
  async (t) => {
    const root = new URL('../../', import.meta.url);
    const dir = t.testdir({ bin: t.fixture('symlink', fileURLToPath(new URL('bin', root))) });
    const page = await readPage('walk-through.md');
    const said = (pattern: RegExp) => pattern.exec(page)?.[1] ?? `echo "${String(pattern)}?"`;
    const script = [
      await blockOf('walk-through.md', 'sandbox'),
      said(/`(billing wallet new mine\.json)`/),
      said(/`(billing wallet balance mine\.json[^`]*)`/),
      'billing trigger ping',
      said(/`(kill %1)`/),
      'wait',
    ];
    const shell = spawn('bash', ['-euo', 'pipefail', '-c', script.join('\n')], {
      cwd: dir,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      env: { PATH: process.env.PATH, HOME: dir },
    });
    t.teardown(() => {
      try {
        process.kill(-shell.pid!, 'SIGTERM');
      } catch {
        // All have ended.
      }
    });
    const [stdout, stderr] = await Promise.all([
      text(shell.stdout),
      text(shell.stderr),
      once(shell, 'exit'),
    ]);
    t.equal(shell.exitCode, 0, stderr);
    t.match(stdout, /USDC[^]*^Sample ping/m);
    t.throws(() => process.kill(-shell.pid!, 0), 'nothing of it is left');
    await t.rejects(access(join(dir, 'wallets', 'env')), 'the next run waits for its own');
  },
);
