// The README's way to run billing for real, as it stands, in a folder that looks like a checkout.
// npm and solana-keygen are stood in for (what `npm ci` makes is here; test/package/pack.package.ts
// installs), the chain is a local one, and what the comments say is to be filled in is filled in.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, symlink, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { LOCALNET_MINT } from '../../src/local/chain/genesis.ts';
import { freePorts } from '../../src/local/sandbox/ports.ts';
import { bytesOf, walletFromSeed } from '../../src/local/sandbox/wallet.ts';
import { startTestChain } from '../fixtures/localnet.ts';
import { blocksOf } from '../fixtures/pages.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { needTools } from '../fixtures/tools.ts';
import { until } from '../fixtures/webhooks.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const daemons = ['serve', 'keeper', 'dispatch'];

void t.test(`the commands in the README's section "Run it for real" work`, async (t) => {
  await needTools('bash', 'curl', 'createdb');
  const blocks = (await blocksOf('../README.md'))
    .filter(({ language }) => language === 'sh')
    .map(({ code }) => code);
  const script = blocks[2] ?? '';
  t.same(
    blocks.filter((block) => block !== script),
    [
      'npm ci && npm run sandbox\n',
      'npm ci && npm test\n',
      'npm install ./billing-client-0.1.0.tgz\n',
    ],
    'the sandbox, CI and test/package/pack.package.ts run these',
  );
  const { sql, url } = await testDatabase(t, { empty: true });
  const server = new URL(url);
  const database = `billing_readme_${process.pid}`;
  t.teardown(() => sql.unsafe(`drop database if exists ${database} with (force)`));
  const chain = await startTestChain(t);
  const [keeper, treasury] = [
    walletFromSeed(Buffer.alloc(32, 5)),
    walletFromSeed(Buffer.alloc(32, 6)),
  ];
  chain.fund(keeper.address, { lamports: 10_000_000_000n });
  chain.fund(treasury.address, { usdc: 1n });

  const checkout = t.testdir();
  const front = join(checkout, 'front');
  await mkdir(front);
  await symlink(join(root, 'bin'), join(checkout, 'bin'));
  await copyFile(join(root, '.env.example'), join(checkout, '.env.example'));
  await writeFile(join(front, 'npm'), '#!/bin/sh\n[ "$*" = ci ]\n', { mode: 0o755 });
  const keypair = JSON.stringify([...bytesOf(keeper)]);
  await writeFile(
    join(front, 'solana-keygen'),
    `#!/bin/sh\numask 077\n[ "$1 $2" = 'new -o' ] && echo '${keypair}' > "$3"\n`,
    {
      mode: 0o755,
    },
  );
  await symlink(process.execPath, join(front, 'node'));

  const filledIn: Record<string, string> = {
    DATABASE_URL: Object.assign(new URL(url), { pathname: `/${database}` }).href,
    SOLANA_RPC_URL: chain.rpcUrl,
    KEEPER_KEYPAIR: 'keeper.json',
    KEEPER_ADDRESS: keeper.address,
    PLATFORM_TREASURY: treasury.address,
    JWT_SECRET: 'j'.repeat(44),
    ENCRYPTION_KEY: 'an encryption key of 32 bytes ...',
  };
  const asked = [...script.matchAll(/^# .*$/gm)].flatMap(([line]) =>
    [...line.matchAll(/\b([A-Z_]+)=/g)].map(([, name = '']) => name),
  );
  t.same(asked.sort(), Object.keys(filledIn).sort(), 'what is to be filled in');
  const [port = 0] = await freePorts(1);
  const lines = Object.entries(filledIn).map(
    ([name, value]) => `echo '${name}=${value}' >> .env\n`,
  );
  const here = script
    .replace('createdb billing\n', `createdb ${database}\n`)
    .replace(/^(?:#  .*\n)+/m, lines.join(''))
    .replace('127.0.0.1:3000', `127.0.0.1:${port}`);
  const shell = spawn('bash', ['-euo', 'pipefail', '-c', here], {
    cwd: checkout,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
    env: {
      PATH: [front, process.env.PATH].join(delimiter),
      PGHOST: server.hostname,
      PGPORT: server.port,
      PGUSER: decodeURIComponent(server.username),
      PGPASSWORD: decodeURIComponent(server.password),
      // The environment has precedence over the file: it sets the differences of the test from a
      // machine on devnet.
      SOLANA_CLUSTER: 'localnet',
      SOLANA_WS_URL: chain.wsUrl,
      USDC_MINT: LOCALNET_MINT,
      PORT: String(port),
      METRICS_PORT: '0',
    },
  });
  const closed = once(shell, 'close');
  t.teardown(() => {
    try {
      if (shell.pid !== undefined) process.kill(-shell.pid, 'SIGKILL');
    } catch {
      // They have ended.
    }
  });
  let output = '';
  for (const stream of [shell.stdout, shell.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const [code] = (await once(shell, 'exit')) as [number | null];
  t.equal(code, 0, output);
  await until(() => daemons.every((daemon) => output.includes(`${daemon} is running`)));
  t.ok((await fetch(`http://127.0.0.1:${port}/readyz`)).ok);
  process.kill(-(shell.pid ?? 0), 'SIGTERM');
  await closed;
  t.equal(output.match(/"msg":"stopped"/g)?.length, daemons.length, output);
});
