// Wrong usage of sandbox and localnet. Their interruption: test/cli/local/sandbox.long.ts.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { runShared } from '../../fixtures/command.ts';

void t.test(
  'wrong usage of sandbox and localnet prints one line and exits with 2, a port in use exits with 1',
  async (t) => {
    const file = join(t.testdir({ file: '' }), 'file');
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    t.teardown(() => taken.close());
    const { port } = taken.address() as AddressInfo;
    const cases: [string[], number, RegExp][] = [
      [
        ['sandbox', '--subscribers', '3'],
        2,
        /--subscribers.*must be a whole number from 8 to 10000/,
      ],
      [['sandbox', '--data-dir', file], 2, /^billing: --data-dir cannot be used: .*file[^\n]*\n$/],
      [
        ['sandbox', '--data-dir', join(file, 'in', 'it')],
        2,
        /^billing: --data-dir cannot be used: .*file[^\n]*\n$/,
      ],
      // Where nothing can be made, not even by root.
      [
        ['sandbox', '--data-dir', '/proc/billing/data'],
        2,
        /^billing: --data-dir cannot be used: [^\n]*\n$/,
      ],
      [['sandbox', '--data-dir', '/proc'], 2, /^billing: --data-dir cannot be used: [^\n]*\n$/],
      [['localnet', '--block-ms', '-1'], 2, /--block-ms.*must be a whole number from 0 to 60000/],
      [['localnet', '--data-dir', file], 2, /^billing: --data-dir cannot be used: .*file[^\n]*\n$/],
      [
        ['localnet', '--data-dir', '/proc/billing'],
        2,
        /^billing: --data-dir cannot be used: [^\n]*\n$/,
      ],
      [
        ['localnet', '--port', String(port)],
        1,
        new RegExp(`^billing: port ${port} is in use[^\\n]*\\n$`),
      ],
    ];
    const outcomes = await Promise.all(cases.map(([args]) => runShared(args)));
    for (const [index, [args, code, message]] of cases.entries())
      t.match(outcomes[index], { code, stderr: message, stdout: '' }, args.join(' '));
  },
);
