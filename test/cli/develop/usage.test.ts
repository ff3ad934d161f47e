// The command line of the commands for merchants' developers; their effects:
// test/cli/develop/listen.test.ts.
import t from 'tap';
import { runShared } from '../../fixtures/command.ts';

void t.test(
  'listen and trigger name a missing or unknown argument, with exit code 2',
  async (t) => {
    const cases: [string[], RegExp][] = [
      [['listen'], /required option '--forward-to <url>' not specified/],
      [['listen', '--forward-to', 'http://localhost:1/', '--all'], /unknown option '--all'/],
      [['trigger'], /missing required argument 'type'/],
      [['trigger', 'payment_success', 'payment_failed'], /too many arguments/],
    ];
    await Promise.all(
      cases.map(async ([args, message]) => {
        t.match(await runShared(args), { code: 2, stdout: '', stderr: message }, args.join(' '));
      }),
    );
  },
);
