// The example of docs/chain.md, Cheatcodes.
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { startTestChain } from '../fixtures/localnet.ts';
import { blocksOf } from '../fixtures/pages.ts';
import { needTools } from '../fixtures/tools.ts';

void t.test('the commands in docs/chain.md run without an error', async (t) => {
  await needTools('bash', 'curl');
  const chain = await startTestChain(t);
  const [block] = (await blocksOf('chain.md')).filter(({ language }) => language === 'sh');
  const shell = spawn('bash', ['-euc', block!.code], {
    env: { PATH: process.env.PATH ?? '', RPC: chain.rpcUrl },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr)]);
  t.equal(stderr, '');
  t.equal(stdout.match(/"result":null/g)?.length, 2, stdout);
});
