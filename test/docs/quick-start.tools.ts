// The newcomer's script: docs/quick-start.md from a clean clone. `npm ci` takes this checkout's
// packages; test/package/quick-start.package.ts installs them.
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import bs58 from 'bs58';
import t from 'tap';
import { blockOf, blocksOf } from '../fixtures/pages.ts';
import { runQuickStart } from '../fixtures/quick-start.ts';
import { needTools } from '../fixtures/tools.ts';

void t.test(
  'the quick start leads from a clone to a paid subscription in six commands, also a second time',
  async (t) => {
    await needTools('bash', 'git');
    const { code, stdout, stderr, commands, file } = await runQuickStart(t, { install: false });
    t.equal(code, 0, `${stdout}\n${stderr}`);
    t.equal(commands.length, 6);
    const secretKey = JSON.parse(await file('dev/wallet.json')) as number[];
    t.equal(secretKey.length, 64);
    const paid = stdout.match(/^payment_success [0-9a-f-]{36}$/gm);
    t.equal(paid?.length, 2, 'the receiver printed it, and it verifies, at both runs');
    t.equal(stdout.match(/^subscription [0-9a-f-]{36}$/gm)?.length, 2);
    t.match(await file('received.log'), /^subscription_created /m);
    const events = await file('dev.log');
    t.match(events, /payment_success .*204 in \d+ ms/);
    t.match(events, new RegExp(`"subscriberWallet": "${addressOf(secretKey)}"`));
  },
);

void t.test(
  'the webhook receiver in the quick start equals that in the walk-through',
  async (t) => {
    const own = await readFile(new URL('../../examples/receiver.mjs', import.meta.url), 'utf8');
    t.equal(own, await blockOf('walk-through.md', 'receiver.mjs'));
  },
);

void t.test('git ignores all files that the pages create in a clone', async (t) => {
  const made: Record<string, RegExp> = {
    'quick-start.md': /(?:--dir |>)([\w.]+)/g,
    'walk-through.md': /(?:--write-wallets |>(?=sandbox))([\w.]+)/g,
    '../README.md': /(?:keygen new -o |cp \.env\.example )([\w.]+)/g,
  };
  const names = (
    await Promise.all(
      Object.entries(made).map(async ([page, pattern]) =>
        (await blocksOf(page)).flatMap(({ code }) =>
          [...code.matchAll(pattern)].map(([, name = '']) => name),
        ),
      ),
    )
  ).flat();
  t.same(names.toSorted(), [
    '.env',
    'dev',
    'dev.log',
    'keeper.json',
    'received.log',
    'sandbox.log',
    'wallets',
  ]);
  const paths = names.map((name) => (name.includes('.') ? name : `${name}/env`));
  const { stdout } = spawnSync('git', ['check-ignore', ...paths], { cwd: root, encoding: 'utf8' });
  t.same(stdout.trim().split('\n'), paths);
});

const root = fileURLToPath(new URL('../..', import.meta.url));
const addressOf = (secretKey: number[]) => bs58.encode(Uint8Array.from(secretKey.slice(32)));
