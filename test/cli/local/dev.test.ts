// billing dev with a service that runs elsewhere. With its own sandbox: docs/quick-start.md, which
// test/docs/quick-start.tools.ts runs.
import { access, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import t from 'tap';
import { runShared, start } from '../../fixtures/command.ts';
import { startReceiver } from '../../fixtures/receiver.ts';
import { insertPlan } from '../../fixtures/rows.ts';
import { startServe } from '../../fixtures/serve.ts';

void t.test(
  'dev --api-url forwards events with their bodies, writes the environment for its owner alone, and never prints the key',
  async (t) => {
    const served = await startServe(t);
    const merchant = await served.merchant();
    const env = { BILLING_API_KEY: merchant.key };
    const receiver = await startReceiver(t);
    const dir = join(t.testdir(), 'mine');
    const args = ['dev', '--api-url', served.url, '--forward-to', receiver.url, '--dir', dir];
    t.match(await runShared(args, env), {
      code: 1,
      stdout: '',
      stderr: /has no active plan: publish one on the dashboard/,
    });

    const planId = await insertPlan(served.sql, merchant);
    const running = start(t, args, env);
    await running.line('ctrl-C ends it');
    const file = join(dir, 'env');
    t.equal((await stat(file)).mode & 0o777, 0o600);
    const values = parseEnv(await readFile(file, 'utf8'));
    t.match(values, {
      BILLING_API_URL: served.url,
      BILLING_API_KEY: merchant.key,
      WEBHOOK_SECRET: /^whsec_/,
      APP: merchant.appId,
      PLAN: planId,
    });
    t.match(await runShared(args, env), {
      code: 1,
      stdout: '',
      stderr: `billing: the directory ${dir} is in use by process ${running.child.pid}: stop it, or name another --dir\n`,
    });
    t.same(parseEnv(await readFile(file, 'utf8')), values, 'and its file stays');
    await running.line(/^checkout +http:\S+\/checkout\/\S+$/);
    // In the shell that has read the file.
    const shell = Object.fromEntries(
      Object.entries(values).map(([name, value = '']) => [name, value]),
    );
    t.match(await runShared(['trigger', 'payment_success'], shell), { code: 0 });
    await receiver.got(1);
    await running.line(/payment_success \(sample\).*20\d in/);
    await running.line(/^ +"type": "payment_success",$/);
    running.child.kill('SIGINT');
    const { code, stdout, stderr } = await running.ended;
    t.match({ code, stderr }, { code: 0, stderr: 'Stopped: 1 forwarded, 0 failed.\n' });
    t.notMatch(stdout, merchant.key);
    await t.rejects(access(file), 'it is for the time of the run');

    const second = start(t, args, env);
    await second.line('ctrl-C ends it');
    second.child.kill('SIGHUP');
    t.match(await second.ended, { code: 0, stderr: 'Stopped: 0 forwarded, 0 failed.\n' });
    await t.rejects(access(file), 'the end of the terminal is the end of the run');
  },
);
