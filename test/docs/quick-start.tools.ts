// The newcomer's script: docs/quick-start.md from a clean clone. `npm ci` takes this checkout's
// packages; test/package/quick-start.ts installs them.
import t from 'tap';
import { runQuickStart } from '../fixtures/quick-start.ts';
import { needTools } from '../fixtures/tools.ts';

void t.test(
  'the quick start leads from a clone to a paid subscription, reported to a receiver, in at most 20 commands',
  async (t) => {
    await needTools('bash', 'curl', 'jq', 'git');
    const { code, stdout, stderr, commands, file } = await runQuickStart(t, { install: false });
    t.equal(stderr, '');
    t.equal(code, 0, stdout);
    t.ok(commands.length <= 20, `${commands.length} commands`);
    const [secretKey] = [JSON.parse(await file('mine.json')) as number[]];
    t.equal(secretKey.length, 64);
    const [address = ''] = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/m.exec(stdout) ?? [];
    t.match(stdout, `${address} has 100.000000 USDC and 1 SOL.`);
    t.match(stdout, /payment_success [0-9a-f-]{36}$/m, 'the receiver printed it, and it verifies');
    t.match(stdout, new RegExp(`"status": "succeeded",\\s+"subscriberWallet": "${address}"`));
    t.match(await file('received.log'), /^subscription_created /m);
  },
);
