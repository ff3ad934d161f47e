// `billing localnet fund` on a running local chain, and on none.
import t from 'tap';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { runShared } from '../../fixtures/command.ts';
import { startTestChain } from '../../fixtures/localnet.ts';
import { startReceiver } from '../../fixtures/receiver.ts';

void t.test('localnet fund adds SOL and USDC and ends when they are confirmed', async (t) => {
  const chain = await startTestChain(t);
  const { address } = generateKeypair();
  const fund = (...flags: string[]) =>
    runShared(['localnet', 'fund', address, '--rpc-url', chain.rpcUrl, ...flags]);
  t.match(await fund('--usdc', '100', '--sol', '1'), {
    code: 0,
    stdout: `${address} has 100.000000 USDC and 1 SOL.`,
    stderr: '',
  });
  const { stdout } = await fund('--usdc', '0.5', '--sol', '0.25', '--json');
  t.same(JSON.parse(stdout), { address, lamports: '1250000000', usdc: '100500000' });
});

void t.test(
  'wrong usage of localnet fund exits with 2; an RPC that is not a local chain is refused',
  async (t) => {
    const { address } = generateKeypair();
    const other = await startReceiver(t, (response) =>
      response.end('{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}'),
    );
    const cases: [string[], number, RegExp][] = [
      [[address], 2, /Say how much: --usdc 100, --sol 1, or both\./],
      [['me', '--sol', '1'], 2, /"me" is not a Solana address/],
      [[address, '--usdc', '1,5'], 2, /--usdc.*It must be an amount such as 0\.25/],
      [[address, '--usdc', '0.0000001'], 2, /at most 6 decimals/],
      [
        [address, '--sol', '1', '--rpc-url', 'http://127.0.0.1:1'],
        1,
        /There is no local chain at http:\/\/127\.0\.0\.1:1 \("billing localnet" or/,
      ],
      [
        [address, '--sol', '1', '--rpc-url', other.url],
        1,
        /There is no local chain at .*Method not found/,
      ],
    ];
    for (const [args, code, message] of cases)
      t.match(await runShared(['localnet', 'fund', ...args]), {
        code,
        stdout: '',
        stderr: message,
      });
  },
);
