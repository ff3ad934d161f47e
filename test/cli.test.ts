import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { type Command, Help } from 'commander';
import t from 'tap';
import { generateKeypair } from '../src/chain/keypair.ts';
import { buildTree } from '../src/cli.ts';
import { LOCALNET_MINT } from '../src/local/chain/genesis.ts';
import { freePorts } from '../src/local/sandbox/ports.ts';
import { bytesOf, walletFromSeed } from '../src/local/sandbox/wallet.ts';
import { run, runShared, start } from './fixtures/command.ts';
import { startTestChain } from './fixtures/localnet.ts';
import { testDatabase } from './fixtures/postgres.ts';
import { until } from './fixtures/webhooks.ts';

const treasury = generateKeypair().address;
const keeper = walletFromSeed(Buffer.alloc(32, 7));

async function keeperEnv(dir: string, databaseUrl: string, rpcUrl: string, mint = treasury) {
  const keypair = join(dir, 'keeper.json');
  await writeFile(keypair, JSON.stringify([...bytesOf(keeper)]), { mode: 0o600 });
  return {
    DATABASE_URL: databaseUrl,
    SOLANA_RPC_URL: rpcUrl,
    SOLANA_CLUSTER: 'localnet',
    USDC_MINT: mint,
    KEEPER_KEYPAIR: keypair,
    PLATFORM_TREASURY: treasury,
    METRICS_PORT: '0',
  };
}

void t.test('--help and --version print to stdout with exit code 0', async (t) => {
  const help = await run(t, ['--help']);
  t.equal(help.code, 0);
  t.match(help.stdout, /Run:\n  serve[^]+Operate:\n  keys[^]+Develop:\n  listen[^]+sandbox/);
  for (const command of [
    'serve',
    'keeper',
    'dispatch',
    'migrate',
    'replay',
    'reconcile',
    'localnet',
    'sandbox',
  ])
    t.match(help.stdout, command);
  t.match(await runShared(['--version']), { code: 0, stdout: /^\d+\.\d+\.\d+$/ });
});

void t.test(
  'each command file is loaded only when its command is named, and cli.ts shows the full tree',
  async (t) => {
    const stubs = await buildTree(
      () => false,
      () => undefined,
    );
    const complete = await buildTree(
      () => true,
      () => undefined,
    );
    const shown = complete.createHelp();
    t.same(
      stubs.commands.map(({ options, registeredArguments, commands }) => [
        ...[...options, ...registeredArguments, ...commands],
      ]),
      stubs.commands.map(() => []),
    );
    for (const command of complete.commands)
      t.equal(shown.subcommandTerm(command), new Help().subcommandTerm(command));
    t.equal(stubs.helpInformation(), complete.helpInformation());
  },
);

void t.test('the help of every command and of its subcommands can be shown', async (t) => {
  const complete = await buildTree(
    () => true,
    () => undefined,
  );
  const names = (command: Command): string[] => {
    t.match(command.helpInformation(), `Usage: `, command.name());
    return [command.name(), ...command.commands.flatMap(names)];
  };
  t.ok(names(complete).includes('fund'));
});

void t.test('wrong usage of the command line prints one line and exits with code 2', async (t) => {
  for (const args of [
    ['serv'],
    ['keeper', '--fast'],
    ['sandbox', '--subscribers', 'many'],
    ['localnet', '--port', '99999'],
  ]) {
    const { code, stderr } = await runShared(args);
    t.equal(code, 2, args.join(' '));
    t.match(stderr, /error: /, args.join(' '));
    t.notMatch(stderr, /\n\s+at /, args.join(' '));
  }
});

void t.test(
  'a wrong environment ends with one message that lists every fault, and exit code 2',
  async (t) => {
    const { code, stderr } = await runShared(['serve'], { PORT: 'x', JWT_SECRET: 'short' });
    t.equal(code, 2);
    for (const name of [
      'PORT',
      'JWT_SECRET',
      'DATABASE_URL',
      'SOLANA_RPC_URL',
      'KEEPER_ADDRESS',
      'PLATFORM_TREASURY',
      'ENCRYPTION_KEY',
    ])
      t.match(stderr, name);
    t.notMatch(stderr, /\n\s+at /);
  },
);

void t.test(
  'with Postgres unreachable, a command names the host and the next step, and exits with code 1',
  async (t) => {
    const url = 'postgres://billing:hunter2@127.0.0.1:1/ledger';
    for (const args of [['migrate', '--wait', '0'], ['dispatch']]) {
      const { code, stderr } = await run(t, args, {
        DATABASE_URL: url,
        ENCRYPTION_KEY: 'an encryption key of 32 bytes ...',
      });
      t.equal(code, 1, args.join(' '));
      t.match(
        stderr,
        /Postgres at 127\.0\.0\.1:1, database "ledger" cannot be used: .*ECONNREFUSED.*DATABASE_URL/,
      );
      t.notMatch(stderr, /hunter2|\n\s+at /);
    }
  },
);

void t.test(
  'daemons refuse an unmigrated database and name the command to run; after migrate they start',
  async (t) => {
    const { url } = await testDatabase(t, { empty: true });
    const env = {
      DATABASE_URL: url,
      ENCRYPTION_KEY: 'an encryption key of 32 bytes ...',
      METRICS_PORT: '0',
    };
    t.match(await run(t, ['dispatch'], env), {
      code: 1,
      stderr: /no schema yet\. Run "billing migrate" first/,
    });
    t.match(await runShared(['migrate', '--json'], env), {
      code: 0,
      stdout: /^\{"applied":\["0001_/,
    });
    t.match(await runShared(['migrate', '--json'], env), {
      code: 0,
      stdout: /^\{"applied":\[\][,}]/,
    });
    const dispatch = start(t, ['dispatch'], env);
    await dispatch.line('dispatch is running');
    dispatch.child.kill('SIGTERM');
    t.match(await dispatch.ended, { code: 0 }, 'SIGTERM stops it with exit code 0');
  },
);

void t.test(
  'a keypair file that others can read or that is malformed is refused with its name and the remedy, exit code 2',
  async (t) => {
    const { url } = await testDatabase(t);
    const dir = t.testdir({ 'open.json': '[1,2,3]', 'none.json': '{}' });
    const env = await keeperEnv(dir, url, 'http://127.0.0.1:1');
    await chmod(join(dir, 'open.json'), 0o644);
    await chmod(join(dir, 'none.json'), 0o600);
    const open = await run(t, ['keeper'], { ...env, KEEPER_KEYPAIR: join(dir, 'open.json') });
    t.match(open, { code: 2, stderr: /open\.json is open to others \(mode 644\): run chmod 600/ });
    const none = await run(t, ['keeper'], { ...env, KEEPER_KEYPAIR: join(dir, 'none.json') });
    t.match(none, { code: 2, stderr: /none\.json is not a Solana CLI keypair/ });
    t.notMatch(open.stderr + none.stderr, /\n\s+at /);
  },
);

void t.test(
  'a keeper without RPC waits, logs it once, is not ready, and continues once the chain is reachable',
  async (t) => {
    const { url } = await testDatabase(t);
    // No server listens on it until the chain starts.
    const [port = 0] = await freePorts(1);

    const running = start(
      t,
      ['keeper'],
      await keeperEnv(t.testdir(), url, `http://127.0.0.1:${port}`, LOCALNET_MINT),
    );
    const { metrics } = JSON.parse(await running.line('keeper is running')) as { metrics: string };
    await running.line('no Solana RPC endpoint answers; the keeper waits');
    const before = await fetch(`${metrics}/readyz`);
    t.equal(before.status, 503);
    t.match(await before.text(), /127\.0\.0\.1/);

    const chain = await startTestChain(t, { port });
    chain.fund(treasury, { usdc: 1n });
    chain.fund(keeper.address, { lamports: 10_000_000_000n });
    await running.line('chain verified');
    await until(async () => (await fetch(`${metrics}/readyz`)).status === 200);
    t.pass('it is ready');
    running.child.kill('SIGTERM');
    t.equal((await running.ended).code, 0);
  },
);

void t.test('--help into a closed pipe is not an error', async (t) => {
  const running = start(t, ['--help']);
  running.child.stdout?.destroy();
  const { code, stderr } = await running.ended;
  t.equal(code, 0);
  t.equal(stderr, '');
});

void t.test(
  'a keeper whose log pipe was closed continues to work, and stops on SIGTERM',
  async (t) => {
    const [{ url }, chain] = await Promise.all([testDatabase(t), startTestChain(t)]);
    chain.fund(treasury, { usdc: 1n });
    chain.fund(keeper.address, { lamports: 10_000_000_000n });
    const running = start(
      t,
      ['keeper'],
      await keeperEnv(t.testdir(), url, chain.rpcUrl, LOCALNET_MINT),
    );
    const { metrics } = JSON.parse(await running.line('keeper is running')) as { metrics: string };
    running.child.stdout?.destroy();
    // Its errors without a chain: the stream breaks and the requests fail.
    await chain.close();
    await until(async () =>
      /billing_rpc_calls_total\{.*outcome="unreachable".*\} \d/.test(
        await (await fetch(`${metrics}/metrics`)).text(),
      ),
    );
    t.pass('it has had something to say');
    running.child.kill('SIGTERM');
    t.match(await running.ended, { code: 0, stderr: '' });
  },
);

void t.test('reconcile reports all missing settings at once', async (t) => {
  const { code, stderr } = await runShared(['reconcile']);
  t.equal(code, 2);
  for (const name of ['DATABASE_URL', 'SOLANA_RPC_URL', 'KEEPER_ADDRESS'])
    t.match(stderr, new RegExp(`${name}.* is required`));
});

void t.test('a missing --env-file ends with exit code 2 and one error line', async (t) => {
  const program = fileURLToPath(new URL('../bin/billing.js', import.meta.url));
  const env = { PATH: `${dirname(process.execPath)}:${process.env.PATH ?? ''}` };
  for (const [command = '', ...args] of [
    [program, 'status', '--env-file', '/missing.env'],
    [program, 'serve', '--env-file=/missing.env'],
    [process.execPath, '--', program, 'status', '--env-file', '/missing.env'],
  ]) {
    const child = spawn(command, args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
    const [stderr] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    t.equal(child.exitCode, 2);
    t.match(stderr, /^billing: The environment file \/missing\.env cannot be read: ENOENT/);
  }
});
